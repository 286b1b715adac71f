// The host-wide guard: all containers below one cgroup, agentrun.slice, that bounds them together. A thousand small
// containers are one big one otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "sandbox/cgroup.h"

namespace agentrun::sandbox {

struct CgroupGuard {
  std::optional<std::int64_t> memory;  // bytes
  std::optional<std::int64_t> pids;
};

// The linux.cgroupsPath that puts the container below agentrun.slice: cgroupfs gets the asked path below it, systemd
// the scope of the asked name in it. A place that is below it already stays. Errors: one of the asked cgroup's own
// parents (a pod's) has limits, which would be lost; no cgroups (manager disabled); an ordinary user.
Result<std::string> guarded_path(CgroupManager manager, const std::string& cgroups_path, const std::string& id);

// agentrun.slice, there, and with these limits, in every hierarchy. The slice stays when its last container goes.
// Under systemd it is a unit (until the next boot), which systemd makes with its first scope. Errors: a controller that
// is not there; limits below what is used already.
Result<void> set_guard(CgroupManager manager, const CgroupGuard& guard);

// Once a process is in the container's cgroup: that it really is below agentrun.slice, and the limits are in force.
Result<void> check_guard(const CgroupLocation& location, const CgroupGuard& guard);

}  // namespace agentrun::sandbox
