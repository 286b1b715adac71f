// What the global options of the command line say; every operation gets it.
#pragma once

#include <string>
#include <vector>

#include "sandbox/cgroup.h"

namespace agentrun::lifecycle {

struct Global {
  std::string root;  // the state root; empty: default_root()
  sandbox::CgroupManager cgroup_manager = sandbox::CgroupManager::cgroupfs;
  std::string policy;  // --policy NAME|FILE; empty: not given
  std::string config;  // --config FILE, in place of /etc/agentrun/agentrun.json; empty: not given
  // Sources of binds that whoever runs the command named on the command line itself (`sandbox --bind SRC:DST:rw`):
  // resolve_policy adds them to mounts.allow_writable. Never from a config.json.
  std::vector<std::string> writable_sources;
  // Directories that whoever runs the command wants empty and writable (`sandbox --out`): added to workdir.empty.
  std::vector<std::string> writable_directories;
};

}  // namespace agentrun::lifecycle
