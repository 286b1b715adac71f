// The mounts of config.json, in their order, each attached by fd below the container's root.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sandbox/mount_target.h"
#include "sandbox/rootfs.h"
#include "sys/mount.h"

namespace agentrun::sandbox {

class Mounts {
 public:
  // `root`: of the container, already attached in this mount namespace.
  Mounts(const RootRequest& request, UniqueFd root);

  // Every mount of the config. An error names the mount's destination.
  Result<void> mount_all();

  // Fresh tmpfs mounts, and binds of the engine's own directories, that are to be read-only, once everything below them
  // is made (devices, later mounts).
  Result<void> seal();

  int root() const { return root_.get(); }

 private:
  struct Entry;  // one mount, being made

  Result<void> mount_one(std::size_t index);
  Result<void> remount(const Entry& entry);
  Result<void> bind(Entry& entry);
  Result<void> copy_symlink(const Entry& entry, const std::string& text);
  Result<void> fresh(Entry& entry);
  Result<void> pseudo(Entry& entry);
  Result<void> cgroup(Entry& entry);
  Result<UniqueFd> new_tmpfs(Entry& entry, int target, bool created);
  Result<UniqueFd> pseudo_or_host(Entry& entry);
  Result<void> leave_open(std::size_t index, int mount);
  Result<bool> covers_root(int target);
  Result<void> place(Entry& entry, UniqueFd mount, const Target& where);
  std::vector<sys::FsOption> data_of(const Entry& entry) const;

  const RootRequest& request_;
  const oci::Config& config_;
  bool user_namespace_;
  UniqueFd root_;
  ino_t root_inode_ = 0;  // 0: not looked up yet
  std::vector<UniqueFd> to_seal_;
};

}  // namespace agentrun::sandbox
