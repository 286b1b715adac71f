// cgroup v1 (the kernel's admin-guide/cgroup-v1): one directory a hierarchy.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci/config.h"

namespace agentrun::sandbox {

// mkdir for each of `parents` (topmost first) and for `directory`; those that are there stay. In a cpuset hierarchy a
// new directory has no CPUs and no memory nodes, and no process can enter it: each gets its parent's.
Result<void> make_v1(const std::vector<std::string>& parents, const std::string& directory, bool is_cpuset);

// Writes the limits of one controller, by its v2 name ("io" for blkio), as far as `resources` asks for them.
Result<void> limit_v1(const std::string& directory, std::string_view controller, const oci::Resources& resources);

}  // namespace agentrun::sandbox
