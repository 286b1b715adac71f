#include "sandbox/cgroup_common.h"

#include "sandbox/cgroup_file.h"

namespace agentrun::sandbox {

Result<void> limit_hugetlb(const std::string& directory, const std::vector<oci::HugepageLimit>& pages,
                           std::string_view file) {
  for (const oci::HugepageLimit& page : pages) {
    const std::string value = std::to_string(page.limit);
    const std::string prefix = "hugetlb." + page.page_size;
    const std::string limit = prefix + "." + std::string(file), reserved = prefix + ".rsvd." + std::string(file);
    TRY(write_limit(directory, limit, value));
    if (has_file(directory, reserved)) TRY(write_limit(directory, reserved, value));
  }
  return ok();
}

Result<void> limit_rdma(const std::string& directory, const oci::Resources& resources) {
  for (const auto& [device, limit] : resources.rdma) {
    std::string line = device;
    if (limit.hca_handles) line += " hca_handle=" + std::to_string(*limit.hca_handles);
    if (limit.hca_objects) line += " hca_object=" + std::to_string(*limit.hca_objects);
    TRY(write_limit(directory, "rdma.max", line));
  }
  return ok();
}

}  // namespace agentrun::sandbox
