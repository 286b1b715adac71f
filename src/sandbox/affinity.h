// CPUs that a process may run on (sched_setaffinity(2)). A CPU quota alone leaves all of the host's CPUs in sight, and
// programs start a thread for each: under a policy with a limit the mask is as wide as the quota, so that nproc, Go,
// Java and Python count right. Which CPUs, lifecycle/cpu_table.h decides.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <vector>

#include "base/result.h"

namespace agentrun::sandbox {

// The mask of `pid`, ascending.
Result<std::vector<unsigned>> cpus_of(pid_t pid);
Result<void> set_cpus_of(pid_t pid, const std::vector<unsigned>& cpus);

// `width` of `allowed`, ascending: those with the fewest `uses` (absent: none). Between equals the turn goes round from
// the CPU after `last`: who always began at the lowest would pile on CPU 0 what shares no table.
std::vector<unsigned> least_used(const std::vector<unsigned>& allowed, std::size_t width,
                                 const std::map<unsigned, unsigned>& uses, unsigned last);

// Gives `to` the mask of `from`.
Result<void> copy_affinity(pid_t from, pid_t to);

}  // namespace agentrun::sandbox
