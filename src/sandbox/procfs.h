// Files of procfs that decide over security: sysctls and labels. Each is opened through an fd of a procfs root, and it
// is looked at what was opened before anything is written. An image that brings its own /proc/sys, a tmpfs over
// /proc/self/attr or a symlink to another file of procfs made runc write harmless text to a file of the attacker's, or
// harmful text to /proc/sysrq-trigger (CVE-2019-16884, CVE-2025-52881).
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace agentrun::sandbox {

// Refuses what is no procfs (statfs(2)).
Result<void> check_procfs(int fd, const std::string& name);

// `path` below `procfs`, which must be of procfs, on its very mount; no magic links, nothing above. `flags` as of
// open(2).
Result<UniqueFd> open_in_procfs(int procfs, const std::string& path, int flags);

}  // namespace agentrun::sandbox
