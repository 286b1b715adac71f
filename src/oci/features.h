// features.md of the specification: what this binary can, whatever the host.
#pragma once

#include <string>

namespace agentrun::oci {

std::string print_features();  // indented JSON

// The config.json that `agentrun spec` writes; `rootless`: a user namespace that maps `uid` and `gid`, no cgroup mount.
std::string spec_template(bool rootless, unsigned uid, unsigned gid);

}  // namespace agentrun::oci
