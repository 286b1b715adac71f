#include "sys/process.h"

#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "base/text.h"
#include "sys/file.h"

namespace agentrun::sys {

Result<Cloned> clone_process(std::uint64_t flags, int cgroup) {
  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = flags | CLONE_PIDFD;
  arguments.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  // A sibling gets the caller's own exit signal; asking for one is EINVAL (clone(2)).
  if ((flags & CLONE_PARENT) == 0) arguments.exit_signal = SIGCHLD;
  if (cgroup >= 0) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<std::uint64_t>(cgroup);
  }
  const long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
  if (pid < 0) return errno_error("clone3");
  Cloned cloned;
  cloned.pid = static_cast<pid_t>(pid);
  if (pid != 0) cloned.pidfd.reset(pidfd);
  return cloned;
}

Result<std::uint64_t> start_time(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  auto text = read_file(path);
  // ENOENT: no such directory; ESRCH: it went while we read.
  if (!text) return os_error(ESRCH, "read", path);
  // The name is in parentheses and can hold anything, parentheses too: what follows the last one is ours.
  const auto end = text->rfind(')');
  if (end == std::string::npos) return refusal("read", path, "no process name in it");
  const auto words = text::split_words(std::string_view(*text).substr(end + 1));
  constexpr std::size_t kStartTime = 19;  // field 22; the list begins with field 3
  if (words.size() <= kStartTime) return refusal("read", path, "too few fields");
  const auto value = text::parse_unsigned(words[kStartTime]);
  if (!value) return refusal("read", path, "start time is no number");
  return *value;
}

Result<std::string> boot_id() {
  const std::string text = TRY(read_file("/proc/sys/kernel/random/boot_id"));
  return std::string(text::trim(text));
}

Result<UniqueFd> open_process(const ProcessId& id) {
  if (id.pid <= 0) return UniqueFd();
  if (id.boot_id != TRY(boot_id())) return UniqueFd();
  // The fd first, then the check: between the two the pid cannot be given to another.
  auto fd = pidfd_open(id.pid);
  if (!fd) {
    if (fd.error().code == ESRCH) return UniqueFd();
    return std::move(fd).error();
  }
  const auto started = start_time(id.pid);
  if (!started || *started != id.start_time) return UniqueFd();
  return std::move(*fd);
}

Result<UniqueFd> pidfd_open(pid_t pid) {
  UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return errno_error("pidfd_open", std::to_string(pid));
  return fd;
}

Result<void> pidfd_send_signal(int pidfd, int signal) {
  if (syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) != 0) {
    return errno_error("send", signal_name(signal));
  }
  return ok();
}

bool process_is_zombie(pid_t pid) {
  const auto text = read_file("/proc/" + std::to_string(pid) + "/stat");
  if (!text) return false;
  const auto end = text->rfind(')');
  return end != std::string::npos && text->size() > end + 2 && ((*text)[end + 2] == 'Z' || (*text)[end + 2] == 'X');
}

bool in_initial_user_namespace() {
  static const bool initial = [] {
    const auto map = read_file("/proc/self/uid_map");
    // All ids, as one line.
    return map && text::split_words(*map) == std::vector<std::string_view>{"0", "0", "4294967295"};
  }();
  return initial;
}

bool is_host_root() { return geteuid() == 0 && in_initial_user_namespace(); }

Result<bool> wait_for_end(int pidfd, std::int64_t timeout_us) {
  const std::int64_t end = clock::monotonic_us() + timeout_us;
  while (true) {
    const std::int64_t left = timeout_us < 0 ? -1 : std::max<std::int64_t>(0, end - clock::monotonic_us());
    timespec limit{left / 1'000'000, (left % 1'000'000) * 1000};
    pollfd entry{pidfd, POLLIN, 0};
    const int ready = ppoll(&entry, 1, left < 0 ? nullptr : &limit, nullptr);
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) return errno_error("poll", "pidfd");
  }
}

int ExitStatus::code() const {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  return 128 + WTERMSIG(status);
}

Result<ExitStatus> wait_process(pid_t pid) {
  ExitStatus result;
  while (waitpid(pid, &result.status, 0) < 0) {
    if (errno != EINTR) return errno_error("wait for", std::to_string(pid));
  }
  return result;
}

Result<pid_t> fork_running(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid < 0) return errno_error("fork");
  if (pid == 0) _exit(body());
  return pid;
}

}  // namespace agentrun::sys
