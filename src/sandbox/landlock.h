// Landlock: what policy::LandlockRules says, as a ruleset for the last step, which enters it. A second line behind the
// mounts: where one of them can be written to that should not be, this still holds.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "policy/harden.h"

namespace agentrun::sandbox {

struct LandlockRequest {
  const policy::LandlockRules* rules = nullptr;
  std::string rootfs;          // the container's, on the host: see clean_destination
  bool trust_symlinks = true;  // on the way to a mount. False once programs of the container run, which can move them
  std::vector<int> open_fds;   // what the program inherits
};

// In the container's root, after every mount. Reading and executing are never restricted. Rules:
// - Files can be written, made, renamed and removed below those of `places` that are the root of a mount here. One that
//   is none gets no right: a place in the image is not what harden() judged.
// - Files that are there can be written in procfs, /dev and, as devices need it, with ioctl(2).
// - A file or device that the program inherits for writing can be opened again by /proc/self/fd (/dev/stdout).
// - No device node can be made but with `device_nodes`.
// Rights that rules.abi does not have are not asked for. Needs no privilege. Errors are the kernel's.
Result<UniqueFd> make_landlock_ruleset(const LandlockRequest& request);

}  // namespace agentrun::sandbox
