// Where an ordinary user may make cgroups: below directories that were given to him (cgroup-v2.rst, "Delegation").
#pragma once

#include <optional>
#include <string>

#include "sandbox/cgroup_layout.h"

namespace agentrun::sandbox {

// Whether `path` (as of cgroupfs_path) can be made in every hierarchy: the nearest directory that is there is ours to
// write to.
bool may_make(const CgroupLayout& layout, const std::string& path);

// Pure but for `writable`: what cgroupsPath would be for a user who names none, "/a/agentrun/<id>"; none where nothing
// is delegated to us. Beside our own cgroup where its parent is ours too, since a cgroup with processes hands no
// controllers down; but never in a slice, whose children are systemd's alone. `own`: our cgroup, relative to `mount`.
std::optional<std::string> delegated_path(const std::string& mount, const std::string& own, const std::string& id,
                                          bool (*writable)(const std::string& directory));

// A directory in which we may make cgroups and move processes into them.
bool is_delegated(const std::string& directory);

// cgroupsPath for a user: the config's, else the one above, else `/agentrun/<id>`; none where it cannot be made.
Result<std::optional<std::string>> path_for_user(const CgroupLayout& layout, const std::string& cgroups_path,
                                                 const std::string& id);

// The nearest directory at or above `directory` that is there.
std::string nearest_directory(const std::string& directory);

}  // namespace agentrun::sandbox
