#include "lifecycle/hooks.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/clock.h"
#include "base/text.h"
#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

constexpr std::size_t kOutputKept = 4096;  // bytes at its end; what an error line can bear

// What the child hands to execve, made before the fork: it has nothing left to do that could fail unseen.
struct Command {
  std::vector<std::string> arguments, environment;
  std::vector<char*> argv, envp;
};

void fill(std::vector<std::string>& strings, std::vector<char*>& pointers) {
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
}

Command command_of(const oci::Hook& hook) {
  Command command;
  command.arguments = hook.args;
  if (command.arguments.empty()) command.arguments.push_back(hook.path);
  command.environment = hook.env;
  const char* path = std::getenv("PATH");
  if (command.environment.empty() && path != nullptr) command.environment.push_back(std::string("PATH=") + path);
  fill(command.arguments, command.argv);
  fill(command.environment, command.envp);
  return command;
}

struct Pipe {
  UniqueFd read, write;
};

Result<Pipe> new_pipe(int flags) {
  std::array<int, 2> fds{};
  if (pipe2(fds.data(), O_CLOEXEC | flags) != 0) return errno_error("pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// `failure` carries errno of a failed exec and closes at a good one.
[[noreturn]] void become(const char* path, const Command& command, int input, int output, int failure) {
  setpgid(0, 0);  // a group of its own: at its timeout all of it is killed
  sys::reset_signals();
  // First out of the way of 0 to 2, should the caller have been started without them.
  const int in = fcntl(input, F_DUPFD_CLOEXEC, 3), out = fcntl(output, F_DUPFD_CLOEXEC, 3),
            report = fcntl(failure, F_DUPFD_CLOEXEC, 3);
  if (in >= 0 && out >= 0 && dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(out, 2) == 2 &&
      sys::close_all_but({report})) {
    execve(path, command.argv.data(), command.envp.data());
  }
  const int error = errno;
  static_cast<void>(!write(report, &error, sizeof error));
  _exit(127);
}

// 0: it runs. Else errno of the exec.
int exec_failure(int fd) {
  int error = 0;
  ssize_t count = 0;
  do {
    count = read(fd, &error, sizeof error);
  } while (count < 0 && errno == EINTR);
  return count == static_cast<ssize_t>(sizeof error) ? error : 0;
}

// Takes what is there and keeps the end of it. False: no more will come.
bool drain(int fd, std::string& kept) {
  std::array<char, 4096> part{};
  while (true) {
    const ssize_t count = read(fd, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 && errno == EAGAIN;
    kept.append(part.data(), static_cast<std::size_t>(count));
    if (kept.size() > kOutputKept) kept.erase(0, kept.size() - kOutputKept);
  }
}

// Until the hook itself has ended: what it left behind in the background may keep the pipe open for ever. False: its
// time is up. `timeout_us` negative: no limit.
Result<bool> wait_and_drain(int pidfd, int output, std::int64_t timeout_us, std::string& kept) {
  const std::int64_t end = clock::monotonic_us() + timeout_us;
  bool open = true;
  while (true) {
    std::array<pollfd, 2> fds{};
    fds[0] = {pidfd, POLLIN, 0};
    fds[1] = {open ? output : -1, POLLIN, 0};
    const std::int64_t left = timeout_us < 0 ? 0 : std::max<std::int64_t>(0, end - clock::monotonic_us());
    const timespec limit{left / 1'000'000, (left % 1'000'000) * 1000};
    const int ready = ppoll(fds.data(), fds.size(), timeout_us < 0 ? nullptr : &limit, nullptr);
    if (ready < 0 && errno != EINTR) return errno_error("poll");
    if (ready == 0) return false;
    if (ready > 0 && fds[1].revents != 0) open = drain(output, kept);
    if (ready > 0 && fds[0].revents != 0) {
      if (open) drain(output, kept);
      return true;
    }
  }
}

std::string describe(const sys::ExitStatus& status) {
  if (WIFSIGNALED(status.status)) return std::string("killed by ") + sys::signal_name(WTERMSIG(status.status));
  return "exit status " + std::to_string(status.code());
}

// The reason of the failure; empty: it succeeded.
Result<std::string> run_hook(const oci::Hook& hook, const std::string& state) {
  // A sealed file as standard input: a hook that does not read it cannot block us, nor end us by SIGPIPE; one that
  // rewrites it changes nothing for the next.
  const UniqueFd input = TRY(sys::sealed_memory("state", state, false));
  Pipe output = TRY(new_pipe(0));
  Pipe failure = TRY(new_pipe(0));
  if (fcntl(output.read.get(), F_SETFL, O_NONBLOCK) != 0) return errno_error("fcntl");
  const Command command = command_of(hook);

  const sys::Cloned child = TRY(sys::clone_process(0));
  if (child.pid == 0) {
    become(hook.path.c_str(), command, input.get(), output.write.get(), failure.write.get());
  }
  setpgid(child.pid, child.pid);  // here too: the kill must find the group, whoever runs first
  output.write.reset();
  failure.write.reset();
  const int exec_error = exec_failure(failure.read.get());

  std::string kept;
  const std::int64_t timeout_us = hook.timeout ? std::int64_t{*hook.timeout} * 1'000'000 : -1;
  const auto in_time = wait_and_drain(child.pidfd.get(), output.read.get(), timeout_us, kept);
  if (!in_time || !*in_time) ::kill(-child.pid, SIGKILL);
  const sys::ExitStatus status = TRY(sys::wait_process(child.pid));
  if (!in_time) return in_time.error();
  if (exec_error != 0) return std::string(std::strerror(exec_error));

  std::string reason;
  if (!*in_time) {
    reason = "timed out after " + std::to_string(*hook.timeout) + "s, killed";
  } else if (status.status != 0) {
    reason = describe(status);
  }
  const std::string_view said = text::trim(kept);
  if (!reason.empty() && !said.empty()) reason.append(": ").append(said);
  return reason;
}

}  // namespace

Result<void> run_hooks(const char* stage, const std::vector<oci::Hook>& hooks, const oci::State& state) {
  if (hooks.empty()) return ok();
  const std::string text = oci::print_state(state, oci::Layout::compact);
  for (std::size_t index = 0; index < hooks.size(); ++index) {
    const auto reason = run_hook(hooks[index], text);
    if (reason && reason->empty()) continue;
    return refusal(std::string("error running ") + stage + " hook #" + std::to_string(index) + ": " + hooks[index].path,
                   "", reason ? *reason : reason.error().message());
  }
  return ok();
}

}  // namespace agentrun::lifecycle
