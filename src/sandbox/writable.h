// What a container whose root is read-only may write to (policy::Writable): empty directories, and overlays over the
// image's own, all of them in one tmpfs that is limited in bytes and inodes.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "oci/config.h"
#include "policy/harden.h"

namespace agentrun::sandbox {

// The tmpfs, detached. It has to be attached somewhere in this mount namespace before `make_writable`.
Result<UniqueFd> new_writable_store(const policy::Writable& writable);

struct WritableRequest {
  const policy::Writable* writable = nullptr;
  const oci::Config* config = nullptr;
  int root = -1;   // of the container
  int store = -1;  // root of the attached file system
  bool user_namespace = false;
};

// Before the config's mounts, which come on top. Rules:
// - An empty directory is made in the image where it is missing, as the mount point of any tmpfs would be.
// - An overlay keeps the image's content, owner and mode. Where the kernel refuses (a third level of overlay, a file
//   system that cannot be lower), the content is copied, up to half of the store and 512 MiB; beyond that
//   create fails.
// - What is missing in the image and lies within an empty directory is made there, for the program's user. What is
//   missing elsewhere is left out: nothing is written to the image for it.
// - A place that an image has made a symlink is taken for what it points at, in the root.
Result<void> make_writable(const WritableRequest& request);

}  // namespace agentrun::sandbox
