// /dev of the container: the default devices of config-linux.md, those of linux.devices, /dev/ptmx and the links to
// /proc/self/fd. Everything is made by fd in a /dev that is a real directory of the container's root: one that is a
// symlink is refused, since through it nodes were made and files removed on the host (CVE-2026-41579, CVE-2026-47766).
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "oci/config.h"

namespace agentrun::sandbox {

// mknod(2) is not for user namespaces. The caller, who may, makes the nodes in a detached tmpfs, with owners as the
// namespace's maps say, and the child binds them from there. An invalid fd where the caller may not either (rootless):
// then the child binds the host's nodes.
Result<UniqueFd> stage_devices(const oci::Config& config);

struct DevicesRequest {
  const oci::Config* config = nullptr;
  int root = -1;                // of the container
  int staged = -1;              // root of the staged tmpfs, attached in this mount namespace; or -1
  bool user_namespace = false;  // binds, no mknod
};

// In the child, after the mounts. Does nothing where /dev is a bind mount: that directory is somebody else's.
Result<void> make_devices(const DevicesRequest& request);

// The host's /dev/null, open as O_PATH and checked to be character device 1:3: what masked files are covered with. A
// path that the container has no part in (CVE-2025-31133: there it was the container's own, exchanged for a symlink).
Result<UniqueFd> open_host_null();

}  // namespace agentrun::sandbox
