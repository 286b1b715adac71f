// A mount of type "cgroup": what the container sees of the hierarchies (cgroups(7)). With a cgroup namespace it is a
// mount of the hierarchy, whose root the namespace makes the container's own cgroup. Without one it is a bind of that
// cgroup's directory, and where that is not known, of the host's hierarchy read-only whatever the config says
// (CVE-2023-25809).
#pragma once

#include "base/result.h"
#include "sandbox/mount_options.h"
#include "sandbox/rootfs.h"

namespace agentrun::sandbox {

// `target`: O_PATH of the destination. Attaches everything, with the options' flags and propagation.
Result<void> mount_cgroups(int target, const MountOptions& options, const CgroupView& view);

}  // namespace agentrun::sandbox
