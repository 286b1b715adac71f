// Processes: clone3, pidfds, identity, signals, waiting. A process of the state store is never a bare pid: pids are
// used again.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace agentrun::sys {

struct Cloned {
  pid_t pid = 0;   // 0 in the child
  UniqueFd pidfd;  // of the child, in the parent
};

// clone3(2), Linux 5.5, with SIGCHLD and CLONE_PIDFD. `cgroup`: a cgroup v2 directory for CLONE_INTO_CGROUP (5.7), or
// -1. Returns twice, as fork does.
Result<Cloned> clone_process(std::uint64_t flags, int cgroup = -1);

// Field 22 of /proc/PID/stat, in clock ticks since boot: with the boot id it tells one process from a later one of the
// same pid. A process that is gone: ESRCH.
Result<std::uint64_t> start_time(pid_t pid);
Result<std::string> boot_id();

struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_time = 0;
  std::string boot_id;
};

// A pidfd where the process still is that very one, an invalid fd where it is gone or another has its pid.
Result<UniqueFd> open_process(const ProcessId& id);

// Whether the user namespace that agentrun was started in is the first one (user_namespaces(7)), where ids are what
// they say; found out once. Processes that enter another one later do not ask.
bool in_initial_user_namespace();

// Effective uid 0 there: root of the host. Only then the kernel lets us load a device program, and only then a
// container could make device nodes.
bool is_host_root();

Result<UniqueFd> pidfd_open(pid_t pid);
Result<void> pidfd_send_signal(int pidfd, int signal);
bool process_is_zombie(pid_t pid);

// Waits for the process of a pidfd to end, at most `timeout_us` (negative: for ever). True when it ended.
Result<bool> wait_for_end(int pidfd, std::int64_t timeout_us);

struct ExitStatus {
  int status = 0;    // as of waitpid
  int code() const;  // exit code, or 128 + signal
};
Result<ExitStatus> wait_process(pid_t pid);  // our child

// "KILL", "SIGKILL", "9", "SIGRTMIN+3": a signal's number.
std::optional<int> parse_signal(std::string_view text);
const char* signal_name(int signal);  // "SIGKILL"; "SIG?" for unknown

// Blocks nothing, default action for every signal: what a program expects to start with.
void reset_signals();

// Forks, runs `body` in the child and ends it with what that returns. Used for helpers that must not outlive `body`.
Result<pid_t> fork_running(const std::function<int()>& body);

}  // namespace agentrun::sys
