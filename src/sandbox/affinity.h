// CPUs that a process may run on (sched_setaffinity(2)). A CPU quota alone leaves all of the host's CPUs in sight, and
// programs start a thread for each: under a policy with a limit the mask is as wide as the quota, so that nproc, Go,
// Java and Python count right.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/result.h"

namespace agentrun::sandbox {

// Cuts the mask of `pid` to `width` CPUs of those that it has, beginning at one that differs from process to process:
// the same first CPU for all would pile them on one core. Nothing where it has no more than that.
Result<void> narrow_affinity(pid_t pid, std::int64_t width);

// Gives `to` the mask of `from`.
Result<void> copy_affinity(pid_t from, pid_t to);

}  // namespace agentrun::sandbox
