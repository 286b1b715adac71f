#include "lifecycle/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "lifecycle/deadline_index.h"
#include "lifecycle/leave_caller.h"
#include "lifecycle/supervise.h"
#include "sys/process.h"
#include "sys/socket.h"

namespace agentrun::lifecycle {
namespace {

constexpr std::int64_t kAnswerUs = 5'000'000;
constexpr std::int64_t kEndUs = 2'000'000;

// Sends one message to the supervisor and waits for its answer, at most `timeout_us`.
Result<std::string> ask(const Container& container, const std::string& message, std::int64_t timeout_us) {
  const UniqueFd socket = TRY(sys::connect_at(container.directory(), kSupervisorSocket));
  TRY(sys::send_message(socket.get(), message));
  pollfd entry{socket.get(), POLLIN, 0};
  const std::int64_t end = clock::monotonic_us() + timeout_us;
  while (true) {
    const std::int64_t left = std::max<std::int64_t>(0, end - clock::monotonic_us());
    const int ready = poll(&entry, 1, static_cast<int>((left + 999) / 1000));
    if (ready > 0) break;
    if (ready == 0) return os_error(ETIMEDOUT, "supervisor");
    if (errno != EINTR) return errno_error("poll", "supervisor");
  }
  sys::Message answer = TRY(sys::receive_message(socket.get(), kMessageLimit, false));
  if (answer.end) return refusal("supervisor", "", "it closed the connection");
  return std::move(answer.data);
}

// The process that the answer "armed AT PID" names.
Result<sys::ProcessId> armed_process(const std::string& answer) {
  const auto words = text::split(answer, ' ');
  if (words.size() == 1 && words[0] == "expired") return refusal("container", "", "its deadline has passed");
  const auto pid = words.size() == 3 && words[0] == "armed" ? text::parse_unsigned(words[2]) : std::nullopt;
  if (!pid || *pid == 0 || *pid > INT32_MAX) return refusal("supervisor", "", "unexpected answer: " + answer);
  sys::ProcessId process;
  process.pid = static_cast<pid_t>(*pid);
  process.start_time = TRY(sys::start_time(process.pid));
  process.boot_id = TRY(sys::boot_id());
  return process;
}

Result<Supervision> prepare(const Container& container, const Record& record) {
  Supervision supervision;
  supervision.container = TRY(container.without_lock());
  supervision.record = record;
  supervision.process = TRY(sys::open_process(record.process));
  if (!supervision.process) return refusal("container not running", "", "its process is gone");
  unlinkat(container.directory(), kSupervisorSocket, 0);  // of one that died
  supervision.listener = TRY(sys::listen_at(container.directory(), kSupervisorSocket));
  if (fcntl(supervision.listener.get(), F_SETFL, O_NONBLOCK) != 0) return errno_error("fcntl", kSupervisorSocket);
  supervision.timer.reset(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!supervision.timer) return errno_error("timerfd_create");
  supervision.at_us = overdue_at(record);
  supervision.armed = record.deadline.at_us > 0;
  return supervision;
}

void kill_process(const sys::ProcessId& process) {
  const auto pidfd = sys::open_process(process);
  if (!pidfd || !*pidfd) return;
  static_cast<void>(sys::pidfd_send_signal(pidfd->get(), SIGKILL));
  static_cast<void>(sys::wait_for_end(pidfd->get(), kEndUs));
}

}  // namespace

Result<sys::ProcessId> fork_supervisor(const Container& container, const Record& record) {
  Supervision supervision = TRY(prepare(container, record));
  sys::ProcessId process;
  process.boot_id = TRY(sys::boot_id());
  const sys::Cloned child = TRY(sys::clone_process(0));
  if (child.pid == 0) {
    leave_caller("agentrun-sup", {supervision.container.directory(), supervision.container.root(),
                                  supervision.process.get(), supervision.listener.get(), supervision.timer.get()});
    supervise(supervision);
    _exit(0);
  }
  process.pid = child.pid;
  process.start_time = TRY(sys::start_time(child.pid));
  return process;
}

Result<sys::ProcessId> arm_supervisor(const Container& container, const Record& record, std::int64_t deadline_us) {
  Record armed = record;
  if (record.deadline.at_us > 0) deadline_us = std::min(deadline_us, record.deadline.at_us);
  armed.deadline.at_us = deadline_us;
  const std::string message = "arm " + std::to_string(deadline_us);
  if (const auto answer = ask(container, message, kAnswerUs)) return armed_process(*answer);

  // Dead or stuck (stopped by a signal, say). One that comes back to life later would find its socket replaced.
  kill_process(record.supervisor);
  TRY(fork_supervisor(container, armed));
  const std::string answer = TRY(ask(container, message, kAnswerUs));
  return armed_process(answer);
}

void end_supervisor(const sys::ProcessId& supervisor) { kill_process(supervisor); }

void end_supervisor(const Container& container, const Record& record) {
  const auto pidfd = sys::open_process(record.supervisor);
  if (!pidfd || !*pidfd) return;
  static_cast<void>(ask(container, "end", kEndUs));
  const auto ended = sys::wait_for_end(pidfd->get(), kEndUs);
  if (!ended || !*ended) kill_process(record.supervisor);
}

}  // namespace agentrun::lifecycle
