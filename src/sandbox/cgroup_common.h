// Controllers that take their limits in the same form on cgroup v1 and v2.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci/config.h"

namespace agentrun::sandbox {

// hugetlb.SIZE.`file`, "limit_in_bytes" on v1 and "max" on v2, and the same of reservations where the kernel has them
// (Linux 5.7): without them a mapping is refused by SIGBUS at its first touch.
Result<void> limit_hugetlb(const std::string& directory, const std::vector<oci::HugepageLimit>& pages,
                           std::string_view file);

// rdma.max, a line a device.
Result<void> limit_rdma(const std::string& directory, const oci::Resources& resources);

}  // namespace agentrun::sandbox
