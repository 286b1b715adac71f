// The supervisor's own half: what runs in the forked process, and the words that are spoken on its socket.
//
//   "arm AT"   sets the deadline (CLOCK_BOOTTIME microseconds), never later than one that was armed before;
//              answered by "armed AT PID" with the deadline in force, or "expired" where it has begun to kill
//   "end"      the container is dead and will be removed: answered by "ended", after the last audit record was written,
//              or by "alive" where its process is not dead
//
// One message of at most 64 bytes, one answer, then the connection is closed.
#pragma once

#include <cstdint>

#include "base/unique_fd.h"
#include "lifecycle/store.h"

namespace agentrun::lifecycle {

inline constexpr const char* kSupervisorSocket = "supervisor.sock";
inline constexpr std::size_t kMessageLimit = 64;

// Everything that it needs, made before the fork, so that nothing in the child can fail.
struct Supervision {
  Container container;  // without the lock
  Record record;
  UniqueFd process;  // pidfd
  UniqueFd listener;
  UniqueFd timer;  // timerfd of CLOCK_BOOTTIME
  std::int64_t at_us = 0;
  bool armed = false;
};

// The life of a supervisor. Returns when the container is dead.
void supervise(Supervision& supervision);

// How long one attempt to kill waits before the kill is said to be pending, and before the next attempt.
inline constexpr std::int64_t kKillWaitUs = 10'000'000;

// Kills what is overdue and says so: the note, the kill, the audit record. For supervisor and sweep. True: all is gone.
Result<bool> kill_overdue(const Container& container, const Record& record, int pidfd, const char* reason,
                          std::int64_t wait_us);

// Of a process that has ended, as of waitpid: PIDFD_GET_INFO with PIDFD_INFO_EXIT (Linux 6.15), which knows it once the
// process was reaped. None: the kernel does not say (yet).
std::optional<int> exit_status_of(int pidfd);

}  // namespace agentrun::lifecycle
