// Which CPUs the containers of this host have by an affinity mask that agentrun gave them: the next one gets those that
// the fewest have. A file ".cpus" in the default state root, whatever the root of the container, so that all engines of
// a user share it: a line "PID START-TIME CPU,CPU" for each, and "last CPU". Whoever adds a line holds the file's
// flock(2) and leaves out the lines of processes that are gone: nobody has to take a line back, so a kill -9 of anybody
// leaves no count. Counts only balance: a file that cannot be read or locked costs balance, never the container.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/result.h"
#include "lifecycle/store.h"

namespace agentrun::lifecycle {

// Cuts the mask of `pid`, the first process of a new container, to the `width` least used CPUs of those that it has.
// Nothing where it has no more than that. `store` keeps the table where the default root is not the caller's.
Result<void> narrow_affinity(const Store& store, pid_t pid, std::int64_t width);

// The same with the table in `directory`.
Result<void> narrow_affinity_in(int directory, pid_t pid, std::int64_t width);

}  // namespace agentrun::lifecycle
