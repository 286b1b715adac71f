// The container's root: built by fd on detached mounts in the container's own mount namespace, then entered by
// pivot_root. Nothing here resolves a path of the container by name twice; a target that is a symlink out of the root,
// or a /proc or /sys that is one, is refused or resolved within the root (CVE-2019-19921, -2021-30465, -2023-27561,
// -2025-31133, -2025-52565, -2025-52881).
#pragma once

#include <sys/resource.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "oci/config.h"
#include "policy/harden.h"

namespace agentrun::sandbox {

struct BindSource {
  policy::SourceFacts facts;
  std::size_t slot = 0;  // in BindSources::fds
  bool detached =
      false;  // the fd is a copy of the mount, attached as it is; else O_PATH, in the caller's mount namespace
  bool recursive = false;  // a copy with the mounts below (rbind)
  bool idmapped = false;   // as the mount's options ask
};

// By index in config.mounts. A detached mount can be attached in any mount namespace, while an fd of a mount that is
// attached elsewhere cannot even be cloned (open_tree(2): EINVAL): so the caller makes the copies.
struct BindSources : std::map<std::size_t, BindSource> {
  std::vector<UniqueFd> fds;  // close together: the child, a copy of the caller, writes to few pages
  UniqueFd root;     // private ids: the detached, idmapped root; after build_root, with `place`: the root as attached
  UniqueFd store;    // where the writable directories are on a disk: that, detached
  UniqueFd devices;  // with a user namespace: a detached tmpfs that has the device nodes
  std::optional<struct rlimit> file_limit;  // RLIMIT_NOFILE as it was; build_root puts it back in the child
};

// Before the clone, as the caller: opens the source of every bind mount (relative ones from the bundle), follows its
// symlinks once, and says what it is. harden() judges the facts, the mount uses the very fd. A missing source has
// facts.kind missing and an invalid fd: mounting it is an error later, unless the policy refuses first. Idmapped mounts
// get their map here (only the host's side may). Raises the soft RLIMIT_NOFILE where there are many sources. The caller
// drops its copy once the child has built its root.
Result<BindSources> open_bind_sources(const oci::Config& config, const std::string& bundle);

// The same for one bind mount of the runtime's own that was appended to config.mounts since.
Result<void> open_last_source(BindSources& sources, const oci::Config& config);

// Which cgroup hierarchies a mount of type "cgroup" shows.
struct CgroupView {
  bool unified = false;  // cgroup v2 alone at /sys/fs/cgroup
  std::string v2_path;   // of the container, from the root of the v2 hierarchy; empty: none
  std::map<std::string, std::string>
      v1_paths;             // hierarchy directory name ("cpu,cpuacct") to the container's path in it
  bool namespaced = false;  // in a cgroup namespace of its own
};

struct RootRequest {
  const policy::Effective* effective = nullptr;
  BindSources* sources = nullptr;   // indices of config.mounts; harden only appends to that list
  std::string bundle;               // absolute
  std::string rootfs;               // absolute
  int rootfs_fd = -1;               // O_PATH of rootfs, opened by the caller before the clone
  int place = -1;                   // O_PATH of rootfs in this mount namespace, from before the ids changed; or -1
  bool new_user_namespace = false;  // device nodes are binds of the host's, no mknod
  bool pid_namespace = true;        // a new procfs can be mounted
  bool pivot = true;                // false: --no-pivot (MS_MOVE and chroot)
  CgroupView cgroups;
};

// In the child, in its new mount namespace. Makes every mount, device and link; the root is then at `rootfs` and is not
// entered yet: createRuntime and createContainer hooks run between the two.
Result<void> build_root(const RootRequest& request);

// Enters it: pivot_root, the old root detached, masked and read-only paths, read-only remounts, root propagation. The
// working directory is / afterwards.
Result<void> enter_root(const RootRequest& request);

}  // namespace agentrun::sandbox
