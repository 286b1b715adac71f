// What only the host knows and policy::harden has to be told.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/harden.h"
#include "sandbox/cgroup.h"
#include "sandbox/rootfs.h"

namespace agentrun::lifecycle {

// The facts that hold for any container: caller, controllers, huge page sizes.
policy::Facts host_facts(sandbox::CgroupManager manager);

// Where engines keep the files of their own that they bind into a container.
struct EngineDirectories {
  std::string data;  // of an ordinary user: $XDG_DATA_HOME, else ~/.local/share; empty: none
  std::string run;   // $XDG_RUNTIME_DIR; empty: none
};

// Which of `sources` (real paths) belong to the engine: each by the shortest path that is wholly the container's own, or a
// volume, or a file that an engine shares between the containers of a pod. Never a whole store: in Podman's lie the images,
// the logs and the configurations, secrets included, of every container of the host.
std::vector<std::string> engine_paths(const std::vector<std::string>& sources, std::string_view bundle,
                                      const EngineDirectories& directories);

}  // namespace agentrun::lifecycle
