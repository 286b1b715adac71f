#include "lifecycle/supervise.h"

#include <malloc.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/text.h"
#include "lifecycle/audit.h"
#include "lifecycle/deadline_index.h"
#include "lifecycle/liveness.h"
#include "sys/socket.h"

namespace agentrun::lifecycle {
namespace {

// pidfd_info of <linux/pidfd.h>, Linux 6.15; headers that have it are newer than the systems that we build on.
struct PidfdInfo {
  std::uint64_t mask = 0, cgroup_id = 0;
  std::uint32_t pid = 0, tgid = 0, ppid = 0;
  std::uint32_t ruid = 0, rgid = 0, euid = 0, egid = 0, suid = 0, sgid = 0, fsuid = 0, fsgid = 0;
  std::int32_t exit_code = 0;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr std::uint64_t kPidfdInfoExit = 1U << 3;
constexpr unsigned long kPidfdGetInfo = _IOWR(0xFF, 11, PidfdInfo);

constexpr int kClientWaitMs = 1000;
constexpr int kReapWaitMs = 1000;
constexpr int kRecheckMs = 1000;

std::string word(std::int64_t number) { return std::to_string(number); }

class Watch {
 public:
  explicit Watch(Supervision& supervision) : it_(supervision) {}

  void run() {
    note_deadline();
    if (auto watch = sandbox::watch_oom_kills(it_.record.cgroup)) oom_ = std::move(*watch);
    while (!finished()) step();
    unindex_deadline(it_.container.root(), it_.container.id(), it_.at_us);
  }

 private:
  // The container's process has ended, its end is on record, and nothing is left in its cgroup (processes can be left
  // where the pid namespace is shared; they keep their deadline).
  bool finished() {
    if (!init_ended_) return false;
    if (told_to_end_ || !cgroup_is_there(it_.record.cgroup)) return true;
    // The watch first, then the look: what comes between the two wakes us.
    if (!populated_) {
      if (auto watch = sandbox::watch_populated(it_.record.cgroup)) populated_ = std::move(*watch);
    }
    const auto populated = sandbox::is_populated(it_.record.cgroup);
    return !populated || !*populated;
  }

  void step() {
    std::array<pollfd, 5> fds{};
    fds[0] = {it_.listener.get(), POLLIN, 0};
    fds[1] = {it_.timer.get(), POLLIN, 0};
    fds[2] = {init_ended_ ? -1 : it_.process.get(), POLLIN, 0};
    fds[3] = {populated_.get(), POLLPRI, 0};
    fds[4] = {oom_.get(), POLLPRI, 0};
    // v1 has no event for an emptied cgroup; only there is it looked at again and again.
    const int wait = init_ended_ && !populated_ ? kRecheckMs : -1;
    if (poll(fds.data(), fds.size(), wait) < 0) return;
    if (fds[4].revents != 0) count_oom_kills();
    if (fds[3].revents != 0) acknowledge_event();
    if (fds[2].revents != 0) end_of_process();
    if (fds[1].revents != 0) expire();
    if (fds[0].revents != 0) serve();
  }

  // A file of cgroupfs stays ready until it is read again.
  void acknowledge_event() {
    std::array<char, 128> events{};
    static_cast<void>(!pread(populated_.get(), events.data(), events.size(), 0));
  }

  void set_timer(std::int64_t at_us) {
    itimerspec spec{};
    spec.it_value.tv_sec = at_us / 1'000'000;
    spec.it_value.tv_nsec = (at_us % 1'000'000) * 1000;
    // Cannot fail: the fd is a timer's and the time is in range. 0 would disarm it, and 0 means no deadline.
    timerfd_settime(it_.timer.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
  }

  void note_deadline() {
    set_timer(it_.at_us);
    // The index serves the sweep, the third killer; a full disk must not stop the first.
    if (it_.at_us > 0) static_cast<void>(index_deadline(it_.container.root(), it_.container.id(), it_.at_us));
  }

  // Started under a policy that has a limit for the wait, and none for the run: nobody arms us then.
  bool has_started() const {
    const auto now = it_.container.record();
    return now && now->started;
  }

  void expire() {
    std::uint64_t times = 0;
    static_cast<void>(!read(it_.timer.get(), &times, sizeof times));
    if (finished()) return;  // it ended by itself in the same moment
    if (!it_.armed && has_started()) return set_timer(0);
    killing_ = true;
    const auto gone = kill_overdue(it_.container, it_.record, it_.process.get(),
                                   it_.armed ? "deadline" : "never started", kKillWaitUs);
    // Again later, for as long as it takes: an uninterruptible sleep may end after hours, and then it must die.
    set_timer(gone && *gone ? 0 : clock::boottime_us() + kKillWaitUs);
  }

  // What the kernel counted stays known when systemd has removed the scope.
  void count_oom_kills() {
    const auto count = oom_ ? sandbox::read_oom_kills(oom_.get()) : sandbox::oom_kills(it_.record.cgroup);
    if (count) oom_kills_ = std::max(oom_kills_, *count);
    // Always ready from now on.
    if (!count) oom_.reset();
  }

  void end_of_process() {
    // First of all: whoever removes an empty cgroup does so in the next milliseconds.
    count_oom_kills();
    wait_for_reap();
    init_ended_ = true;
    const auto status = exit_status_of(it_.process.get());
    ExitNote note;
    if (const auto before = it_.container.exit_note(); before && *before) note = **before;
    if (note.reason.empty()) note.reason = reason_of(status, oom_kills_);
    note.status = status;
    // Delete may have taken the directory away; then nobody will ask.
    static_cast<void>(it_.container.write_exit_note(note));
    if (!it_.record.audit) return;
    const std::string text =
        status ? word(WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status)) : std::string("\"unknown\"");
    static_cast<void>(append_audit(
        "exit", it_.record.id,
        "\"status\":" + text + ",\"reason\":\"" + note.reason + "\",\"oom_kills\":" + std::to_string(oom_kills_)));
  }

  // The kernel tells the status once the parent has reaped (the pidfd then has POLLHUP, Linux 6.15). A parent that
  // never does so, and a delete that wants us gone, are not waited for; nor is a kernel that will never tell
  // (before 6.13).
  void wait_for_reap() {
    PidfdInfo info;
    if (ioctl(it_.process.get(), kPidfdGetInfo, &info) != 0 && errno == ENOTTY) return;
    std::array<pollfd, 2> fds{};
    fds[0] = {it_.process.get(), 0, 0};
    fds[1] = {it_.listener.get(), POLLIN, 0};
    static_cast<void>(poll(fds.data(), fds.size(), kReapWaitMs));
  }

  static std::string reason_of(std::optional<int> status, std::uint64_t oom_kills) {
    const bool killed = !status || (WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL);
    if (oom_kills > 0 && killed) return "oom";
    if (!status) return "unknown";
    return WIFSIGNALED(*status) ? "signalled" : "exited";
  }

  void serve() {
    UniqueFd client(accept4(it_.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) return;
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(client.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return;
    if (peer.uid != geteuid() && peer.uid != 0) return;
    pollfd entry{client.get(), POLLIN, 0};
    if (poll(&entry, 1, kClientWaitMs) <= 0) return;
    const auto message = sys::receive_message(client.get(), kMessageLimit, false);
    if (message && !message->end) static_cast<void>(sys::send_message(client.get(), answer(message->data)));
  }

  std::string answer(std::string_view message) {
    if (message == "end") {
      // Our word on the process's end must not come after the answer: whoever asked may kill us then.
      if (!init_ended_) {
        pollfd entry{it_.process.get(), POLLIN, 0};
        if (poll(&entry, 1, 0) <= 0) return "alive";
        end_of_process();
      }
      told_to_end_ = true;
      return "ended";
    }
    constexpr std::string_view kArm = "arm ";
    if (!message.starts_with(kArm)) return "unknown";
    const auto at = text::parse_signed(message.substr(kArm.size()));
    if (!at || *at <= 0) return "unknown";
    if (killing_) return "expired";
    arm(*at);
    return "armed " + word(it_.at_us) + " " + word(getpid());
  }

  void arm(std::int64_t at_us) {
    if (it_.armed && it_.at_us <= at_us) return;
    const std::int64_t before = it_.at_us;
    it_.at_us = at_us;
    it_.armed = true;
    note_deadline();
    if (before != at_us) unindex_deadline(it_.container.root(), it_.container.id(), before);
  }

  Supervision& it_;
  UniqueFd populated_, oom_;
  std::uint64_t oom_kills_ = 0;
  bool init_ended_ = false, told_to_end_ = false, killing_ = false;
};

}  // namespace

std::optional<int> exit_status_of(int pidfd) {
  PidfdInfo info;
  info.mask = kPidfdInfoExit;
  if (ioctl(pidfd, kPidfdGetInfo, &info) != 0 || (info.mask & kPidfdInfoExit) == 0) return std::nullopt;
  return info.exit_code;
}

Result<bool> kill_overdue(const Container& container, const Record& record, int pidfd, const char* reason,
                          std::int64_t wait_us) {
  ExitNote note;
  if (const auto before = container.exit_note(); before && *before) note = **before;
  const bool first = note.reason != reason;
  const bool pending_before = note.kill_pending;
  note.reason = reason;
  // Before the kill: whoever sees the container dead must find out why. A full disk does not save the container.
  if (first) static_cast<void>(container.write_exit_note(note));
  const auto gone = kill_everything(record.cgroup, pidfd, wait_us);
  note.kill_pending = !gone || !*gone;
  if (note.kill_pending != pending_before) static_cast<void>(container.write_exit_note(note));
  if (record.audit && (first || note.kill_pending != pending_before)) {
    TRY(append_audit("kill", record.id,
                     std::string("\"reason\":\"") + reason +
                         "\",\"signal\":\"SIGKILL\",\"pending\":" + (note.kill_pending ? "true" : "false")));
  }
  return gone;
}

void supervise(Supervision& supervision) {
  // What the runtime had on its heap is of no use here.
  malloc_trim(0);
  Watch(supervision).run();
}

}  // namespace agentrun::lifecycle
