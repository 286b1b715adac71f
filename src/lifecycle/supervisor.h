// The supervisor: one small process a container that kills it at its deadline, whatever became of engine, client and
// runtime. Forked by create; own session; holds a timerfd of CLOCK_BOOTTIME, a pidfd, the cgroup, its socket
// and the state directory, and no fd of the engine's. Ends with the container.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "lifecycle/store.h"

namespace agentrun::lifecycle {

// In create, after the container's process is there and before the state is written: forks it, returns its identity.
// Until `arm`, the timer runs until overdue_at(record): `record.deadline.created_us` after the process began.
//
// One fork, not two: the caller ends soon, and with it the supervisor goes to the nearest subreaper. A caller that
// lives on has it as a child of which it need not care.
Result<sys::ProcessId> fork_supervisor(const Container& container, const Record& record);

// In start: sets the deadline (absolute CLOCK_BOOTTIME microseconds) by one message; forks another supervisor where the
// first is gone or does not answer within 5 s. Fails if neither works: a container without a deadline does not start
// under a policy that has one. Returns the identity of the one that now watches.
//
// A deadline, once armed, is never moved later: not by the supervisor, and not here where `record.deadline.at_us` says
// so. The caller writes the record with its `deadline.at_us` before it calls this, so that a start which is killed
// half-way leaves the earlier deadline for the next one.
Result<sys::ProcessId> arm_supervisor(const Container& container, const Record& record, std::int64_t deadline_us);

// Ends the supervisor of a container that is being undone: it is killed. One that is gone already is no error.
void end_supervisor(const sys::ProcessId& supervisor);

// In delete, once the container is dead: the supervisor writes its last audit record and goes; killed where it does
// not.
void end_supervisor(const Container& container, const Record& record);

// Any agentrun call: kills what is overdue in this store (killer c), by the index of deadlines. Returns how many. Also
// clears away what killed commands left.
Result<int> sweep(const Store& store);

// The same for the store at `root` (empty: the default one), before any command that looks at containers. Nothing where
// there is no store. What fails in it is no failure of the command: it is logged.
void sweep_root(const std::string& root);

}  // namespace agentrun::lifecycle
