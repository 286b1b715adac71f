// The root and the binds of a container with private ids: detached, idmapped mounts, so that no file changes its owner
// (mount_setattr(2), MOUNT_ATTR_IDMAP, Linux 5.12; which file systems can, depends on the kernel: ext4 and xfs 5.12,
// btrfs 5.15, erofs 5.19, tmpfs 6.3, overlayfs never).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "oci/config.h"
#include "sandbox/rootfs.h"

namespace agentrun::sandbox {

// A bind whose file system takes no id map, and why.
struct Unmapped {
  std::size_t index = 0;  // in config.mounts
  std::string reason;
};

// On the caller's side, as root of the host. Makes `sources.root`, a copy of the root (an O_PATH fd, and its path) that
// shows its files to the ids of the config's user namespace; gives the binds of the config their maps; stages the
// devices. Errors: a root that cannot be mapped, with what to do.
Result<std::vector<Unmapped>> map_private_ids(BindSources& sources, const oci::Config& config, int rootfs,
                                              const std::string& path, const std::string& bundle);

}  // namespace agentrun::sandbox
