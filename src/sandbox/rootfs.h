// The container's root: built by fd on detached mounts in the container's own mount namespace, then entered by
// pivot_root. Nothing here resolves a path of the container by name twice; a target that is a symlink out of the root, or
// a /proc or /sys that is one, is refused or resolved within the root (CVE-2019-19921, -2021-30465, -2023-27561,
// -2025-31133, -2025-52565, -2025-52881).
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "oci/config.h"
#include "policy/harden.h"

namespace agentrun::sandbox {

struct BindSource {
  UniqueFd fd;  // O_PATH, in the caller's mount namespace
  policy::SourceFacts facts;
};
using BindSources = std::map<std::size_t, BindSource>;  // by index in config.mounts

// Before the clone, as the caller: opens the source of every bind mount (relative ones from the bundle), follows its
// symlinks once, and says what it is. harden() judges the facts, the mount uses the very fd. A missing source has
// facts.kind missing and no fd: mounting it is an error later, unless the policy refuses first.
Result<BindSources> open_bind_sources(const oci::Config& config, const std::string& bundle);

// Which cgroup hierarchies a mount of type "cgroup" shows.
struct CgroupView {
  bool unified = false;                            // cgroup v2 alone at /sys/fs/cgroup
  std::string v2_path;                             // of the container, from the root of the v2 hierarchy; empty: none
  std::map<std::string, std::string> v1_paths;     // hierarchy directory name ("cpu,cpuacct") to the container's path in it
  bool namespaced = false;                         // in a cgroup namespace of its own
};

struct RootRequest {
  const policy::Effective* effective = nullptr;
  BindSources* sources = nullptr;                  // indices of config.mounts; harden only appends to that list
  std::string bundle;                              // absolute
  std::string rootfs;                              // absolute
  int rootfs_fd = -1;                              // O_PATH of rootfs, opened by the caller before the clone
  bool new_user_namespace = false;                 // device nodes are binds of the host's, no mknod
  bool pid_namespace = true;                       // a new procfs can be mounted
  bool pivot = true;                               // false: --no-pivot (MS_MOVE and chroot)
  CgroupView cgroups;
};

// In the child, in its new mount namespace. Makes every mount, device and link; the root is then at `rootfs` and is not
// entered yet: createRuntime and createContainer hooks run between the two.
Result<void> build_root(const RootRequest& request);

// Enters it: pivot_root, the old root detached, masked and read-only paths, read-only remounts, root propagation. The
// working directory is / afterwards.
Result<void> enter_root(const RootRequest& request);

}  // namespace agentrun::sandbox
