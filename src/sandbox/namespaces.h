// Namespaces: which are made new at the clone, which are joined, and the id maps of a user namespace (namespaces(7),
// user_namespaces(7)).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "oci/config.h"

namespace agentrun::sandbox {

int clone_flag(oci::NamespaceType type);  // CLONE_NEWPID, ...

struct JoinedNamespace {
  oci::NamespaceType type = oci::NamespaceType::pid;
  std::string path;
  UniqueFd fd;
};

struct NamespacePlan {
  std::uint64_t create = 0;  // CLONE_NEW* of the new ones
  std::vector<JoinedNamespace> join;
  bool creates(oci::NamespaceType type) const { return (create & static_cast<std::uint64_t>(clone_flag(type))) != 0; }
  bool joins(oci::NamespaceType type) const;
};

// Opens what is to be joined and checks that each path is a namespace of its type. A mount namespace must be new or
// joined; a user namespace that is new must have maps.
Result<NamespacePlan> plan_namespaces(const oci::Config& config);

// In the child: setns for each of the plan, the user namespace first where the others belong to it.
Result<void> join_namespaces(const NamespacePlan& plan);

// In the parent: uid_map and gid_map of `pid`; by root of the host directly, else by newuidmap(1) and newgidmap(1), or
// a single line of the caller's own ids.
Result<void> write_id_maps(pid_t pid, const oci::Linux& linux_config);

// "network", ... of the config's namespaces whose path is the very namespace that this process is in (the host's).
std::vector<std::string> joined_from_host(const oci::Config& config);

// Whether root of the host (uid or gid 0) has an id in the user namespace that the config joins by path. Enters it in a
// process of its own; what cannot be found out is an error.
Result<bool> joins_host_root(const oci::Config& config);

}  // namespace agentrun::sandbox
