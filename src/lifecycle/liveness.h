// What is alive of a container, and how all of it is ended.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "lifecycle/store.h"
#include "sandbox/cgroup.h"

namespace agentrun::lifecycle {

bool has_cgroup(const sandbox::CgroupLocation& location);

// Whether the cgroup is there and the one that the record means: by the inode of its directory, so that a later one of
// the same name is never killed or removed in its place. Without an inode in the record (create was killed early) the
// name has to do.
bool cgroup_is_there(const sandbox::CgroupLocation& location);

// False only where the name is there and its inode is another's.
bool cgroup_is_ours_or_gone(const sandbox::CgroupLocation& location);

// Kills every process of the cgroup, where there is one, and the process of `pidfd` (-1: none). Waits at most
// `timeout_us` for all of them to be gone. False: kill pending, something does not end (uninterruptible sleep).
Result<bool> kill_everything(const sandbox::CgroupLocation& location, int pidfd, std::int64_t timeout_us);

}  // namespace agentrun::lifecycle
