// The mount API by fd: fsopen(2) and its kin (Linux 5.2), mount_setattr(2) (5.12). A mount is made detached, changed
// while nobody can see it, and attached onto an O_PATH fd: no path of the container is resolved twice (CVE-2021-30465).
#pragma once

#include <linux/mount.h>
#include <sys/mount.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace agentrun::sys {

// One option of a file system: a flag where `value` is empty and `flag` is set.
struct FsOption {
  std::string key, value;
  bool flag = false;
};

// fsopen, fsconfig for each option, FSCONFIG_CMD_CREATE, fsmount with `attributes` (MOUNT_ATTR_*): a detached mount.
// The error has the kernel's own sentence from the fs context where there is one.
Result<UniqueFd> new_mount(const std::string& type, const std::vector<FsOption>& options, std::uint64_t attributes);

// open_tree(OPEN_TREE_CLONE): a detached copy of the mount that `path` at `directory` lies in. Empty path: `directory`
// itself.
Result<UniqueFd> clone_mount(int directory, const std::string& path, bool recursive);

// mount_setattr on the mount that `mount` is the root of. `propagation`: MS_PRIVATE, MS_SLAVE, ... or 0.
Result<void> set_mount_attributes(int mount, std::uint64_t set, std::uint64_t clear, std::uint64_t propagation,
                                  bool recursive);

// MOUNT_ATTR_IDMAP with the maps of `user_namespace`; the mount must be detached (5.12).
Result<void> idmap_mount(int mount, int user_namespace, bool recursive);

// move_mount of a detached mount onto `target`, an fd of what it will cover.
Result<void> attach_mount(int mount, int target);

// By absolute path, for the few places where nobody else can be: the host's side, and / itself.
Result<void> set_propagation(const std::string& path, std::uint64_t flags);  // mount(2) with MS_* only
Result<void> unmount(const std::string& path, int flags);                    // umount2(2)
Result<void> pivot_root(const std::string& new_root, const std::string& put_old);

}  // namespace agentrun::sys
