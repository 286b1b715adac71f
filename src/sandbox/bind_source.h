// The sources of bind mounts, on the caller's side of the clone (open_bind_sources of rootfs.h) and on the container's.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sandbox/idmap.h"
#include "sandbox/mount_options.h"
#include "sandbox/rootfs.h"

namespace agentrun::sandbox {

// What a bind mount attaches: a detached mount, or the text of a symlink that is copied.
struct SourceMount {
  UniqueFd mount;
  policy::FileKind kind = policy::FileKind::missing;
  bool single = false;  // one mount, not a tree
  std::string symlink;  // kind is symlink and the options say copy-symlink
};

struct SourceRequest {
  const oci::Mount* mount = nullptr;
  std::size_t index = 0;
  const MountOptions* options = nullptr;
  const oci::Linux* container = nullptr;
  int root = -1;  // of the container
  std::string rootfs, bundle;
};

// In the child. Takes the fd (only that) out of `sources`; where the caller could not copy the mount itself (rootless),
// the path is opened again in this mount namespace and must be the very file that the policy judged. A source within
// the root file system is looked up in the container's root, as it is mounted by now.
Result<SourceMount> take_source(BindSources& sources, const SourceRequest& request);

policy::FileKind kind_of(mode_t mode);

}  // namespace agentrun::sandbox
