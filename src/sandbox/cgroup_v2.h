// cgroup v2 (the kernel's admin-guide/cgroup-v2.rst): making a cgroup, handing controllers down to it, and its limits.
// The same functions serve the v2 tree of a hybrid host, for the controllers that v1 does not hold.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "oci/config.h"

namespace agentrun::sandbox {

// mkdir for each of `parents` (topmost first) and for `directory`; those that are there stay. Refused: a parent that is
// threaded, since no container's process can be below it.
Result<void> make_v2(const std::vector<std::string>& parents, const std::string& directory);

// Makes the parents hand down controllers to `directory`, by writing to cgroup.subtree_control what is missing in it
// and nothing else. Every controller of `required` or an error; with `useful`, of the others those that can be had (for
// stats, update and the engines' out-of-memory watchers).
Result<void> hand_down_controllers(const std::string& directory, const std::set<std::string>& required, bool useful);

// Writes the limits of one controller by its v2 name, as far as `resources` asks for them.
Result<void> limit_v2(const std::string& directory, std::string_view controller, const oci::Resources& resources);

// The unified map, last: it overrides what the other fields said. Lines are written one by one (io.max takes one).
Result<void> write_unified(const std::string& directory, const oci::Resources& resources);

// Threads and processes of the container move with it: only process ids of leaders.
Result<void> attach_to(const std::string& directory, pid_t pid);

}  // namespace agentrun::sandbox
