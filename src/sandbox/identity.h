// Who the program is and what it may use: user, groups, umask, limits, priorities (credentials(7), getrlimit(2)).
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "oci/config.h"

namespace agentrun::sandbox {

// In the child, in this order with capabilities in between. Where the user namespace denies setgroups(2), additional
// groups are an error, and none is what there already is.
Result<void> set_groups(const oci::User& user);
Result<void> set_user(const oci::User& user);  // gid, then uid: real, effective, saved and fs; checked by reading back
void set_umask(const oci::User& user);         // 0022 by default

Result<void> set_rlimits(const std::vector<oci::Rlimit>& limits);

// In the parent, for a process in another user namespace: no capability that it has there lets it raise a hard limit
// (getrlimit(2)). Lowers none, and leaves an error to `set_rlimits`, which comes after it.
void raise_hard_limits(pid_t pid, const std::vector<oci::Rlimit>& limits);

// Of `pid`, or 0: of ourselves. By /proc, which must be procfs: before the root is entered. An ordinary user can only
// raise it.
Result<void> set_oom_score_adj(int value, pid_t pid = 0);
Result<void> set_scheduler(const oci::Scheduler& scheduler);
Result<void> set_io_priority(const oci::IoPriority& priority);
Result<void> set_personality(const oci::Personality& personality);
Result<void> set_memory_policy(const oci::MemoryPolicy& policy);
Result<void> set_affinity(const std::string& cpus);  // "0-3,7"

// "0-3,7" as numbers, ascending, none twice, each below `limit`; what stands in errors for the list is `what`.
Result<std::vector<unsigned>> parse_number_list(const std::string& text, unsigned limit, const std::string& what);

}  // namespace agentrun::sandbox
