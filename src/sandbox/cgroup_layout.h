// Which cgroup hierarchies this mount namespace shows (cgroups(7), proc_pid_mountinfo(5)), and how a container's name
// becomes a place in them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace agentrun::sandbox {

struct Hierarchy {
  std::string mount;  // where its topmost visible directory is
  std::string name;   // v1: "memory", "cpu,cpuacct", "name=systemd", as in /proc/self/cgroup; v2: empty
  std::string own;    // our own cgroup, relative to `mount`, "/" or "/a/b"; empty: not below `mount`
  std::vector<std::string> controllers;  // v1: the parts of `name`, none where it only has a name; v2: empty
  unsigned device_major = 0, device_minor = 0;
};

struct CgroupLayout {
  std::optional<Hierarchy> v2;
  std::vector<Hierarchy> v1;

  // No controller is on v1: what everybody calls "cgroup v2".
  bool unified() const;
  const Hierarchy* v1_with(std::string_view controller) const;  // nullptr: none
};

// Pure: the texts of /proc/self/mountinfo and /proc/self/cgroup. Of several mounts of a hierarchy the first counts.
// `visible` (may be empty) says whether a mount can be reached: another one may lie on top of it.
CgroupLayout parse_layout(std::string_view mountinfo, std::string_view self_cgroup,
                          bool (*visible)(const Hierarchy&) = nullptr);

// Of this process. Errors: no hierarchy at all.
Result<CgroupLayout> find_layout();

// linux.cgroupsPath for cgroupfs, cleaned: "/a/b". A relative one is taken from the root too: the same value always
// means the same place, which the specification asks for. Refused: "..", "." and the root itself, whose removal or
// killing would be the host's.
Result<std::string> cgroupfs_path(const std::string& cgroups_path, const std::string& id);

// Directories above `directory` and below `mount` that are not there, topmost first.
std::vector<std::string> missing_parents(const std::string& mount, const std::string& directory);

}  // namespace agentrun::sandbox
