// What the global options of the command line say; every operation gets it.
#pragma once

#include <string>

#include "sandbox/cgroup.h"

namespace agentrun::lifecycle {

struct Global {
  std::string root;  // the state root; empty: default_root()
  sandbox::CgroupManager cgroup_manager = sandbox::CgroupManager::cgroupfs;
  std::string policy;  // --policy NAME|FILE; empty: not given
};

}  // namespace agentrun::lifecycle
