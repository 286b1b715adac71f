// The root file system of `agentrun sandbox`, built in a mount namespace of the command's own: nothing of it is ever
// seen by the rest of the host, and when the last process of the sandbox is gone the kernel removes all of it. There is
// no directory to clean up, whatever kills whom.
#pragma once

#include <string>

#include "base/result.h"
#include "lifecycle/sandbox_config.h"

namespace agentrun::lifecycle {

// Moves this process into a new mount namespace (an ordinary user's also into a user namespace that maps only itself),
// and builds there, in a tmpfs on `mount_point`:
//   - the links /bin /lib ... of a merged-/usr host, and mount points for its directories;
//   - /etc: passwd, group, nsswitch.conf, hosts, an empty resolv.conf, and of the host's own what programs need and
//     everybody may read: the loader's cache, localtime, alternatives, certificates, services;
//   - /work: `options.workdir` read-only, its owner shown as the sandbox's user where the kernel can (idmapped mounts,
//   Linux
//     5.19 under an overlay); the policy's overlay over the working directory takes the writes;
// or, with options.rootfs, shows that directory read-only with /work in it.
// `mount_point` is an existing directory that belongs to the caller. One thread only, and a umask of 022. Errors: what
// the kernel refused; a /work that is missing in options.rootfs.
Result<SandboxHost> build_sandbox_root(const SandboxOptions& options, const std::string& mount_point);

// Makes the places that the config mounts on, where the root misses them: in a user namespace of its own the
// container's process cannot, for the root is not its own.
Result<void> make_mount_points(const oci::Config& config, const SandboxHost& host);

}  // namespace agentrun::lifecycle
