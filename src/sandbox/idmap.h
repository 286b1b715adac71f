// User namespaces that exist only for their id maps: mount_setattr(MOUNT_ATTR_IDMAP) takes an fd of one (5.12).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "oci/config.h"

namespace agentrun::sandbox {

class IdmapNamespaces {
 public:
  // `procfs`: a procfs root that shows the pids of the caller's own pid namespace. Not owned.
  explicit IdmapNamespaces(int procfs) : procfs_(procfs) {}

  // A namespace with these maps, made once for each pair and held until this object goes. The caller has to be
  // privileged over the ids: on the host, not in the container.
  Result<int> get(const std::vector<oci::IdMapping>& uids, const std::vector<oci::IdMapping>& gids);

 private:
  Result<UniqueFd> make(const std::string& uids, const std::string& gids);

  int procfs_;
  std::map<std::string, UniqueFd> made_;
};

}  // namespace agentrun::sandbox
