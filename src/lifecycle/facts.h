// What only the host knows and policy::harden has to be told.
#pragma once

#include <string>
#include <vector>

#include "policy/harden.h"
#include "sandbox/cgroup.h"
#include "sandbox/rootfs.h"

namespace agentrun::lifecycle {

// The manager for a command that is nobody's runtime (sandbox): the one asked for; for an ordinary user to whom no
// cgroup is delegated, his own systemd where he has one.
sandbox::CgroupManager manager_for_caller(sandbox::CgroupManager asked);

// The facts that hold for any container: caller, controllers, huge page sizes.
policy::Facts host_facts(sandbox::CgroupManager manager, const std::string& cgroups_path = {});

// Of an ordinary user; empty: unknown.
struct UserDirectories {
  std::string data;  // $XDG_DATA_HOME, else ~/.local/share
  std::string run;   // $XDG_RUNTIME_DIR
};

// Where engines keep what they bind into containers: the roots of the stores, for policy::harden to tell what in them
// is this container's own, a pod's, or another's. `user`: nullptr for root of the host.
std::vector<std::string> engine_stores(const UserDirectories* user);

}  // namespace agentrun::lifecycle
