// The supervisor: one small process a container that kills it at its deadline, whatever became of engine, client and
// runtime (DESIGN 7). Forked by create; own session; holds a timerfd of CLOCK_BOOTTIME, a pidfd, the cgroup, its socket
// and the state directory, and no fd of the engine's. Ends with the container.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "lifecycle/store.h"

namespace agentrun::lifecycle {

// In create, after the container's process is there and before the state is written: forks it, returns its identity.
// Until `arm`, the timer runs for `record.deadline.created_us`.
Result<sys::ProcessId> fork_supervisor(const Container& container, const Record& record);

// In start: sets the deadline (absolute CLOCK_BOOTTIME microseconds) by one message; forks another supervisor where the
// first is gone. Fails if neither works: a container without a deadline does not start under a policy that has one.
// Returns the identity of the one that now watches. A deadline, once armed, is never moved later.
Result<sys::ProcessId> arm_supervisor(const Container& container, const Record& record, std::int64_t deadline_us);

// Ends the supervisor of a container that is being undone or deleted. One that is gone already is no error.
void end_supervisor(const sys::ProcessId& supervisor);

// Any agentrun call: kills what is overdue in this store (killer c). Returns how many.
Result<int> sweep(const Store& store);

}  // namespace agentrun::lifecycle
