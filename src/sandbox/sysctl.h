// linux.sysctl: only those that a namespace of the container owns, written through a procfs of its own (CVE-2022-0811,
// CVE-2025-52881).
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "oci/config.h"

namespace agentrun::sandbox {

// Before the clone: each key must belong to a namespace that is new or joined; separators and newlines are refused.
Result<void> check_sysctls(const oci::Config& config);

// In the child, in all its namespaces. `procfs` as in labels.h.
Result<void> write_sysctls(int procfs, const std::map<std::string, std::string>& sysctls);

}  // namespace agentrun::sandbox
