// What is done to a cgroup that is there, in whatever hierarchies it is: the half of cgroup.h behind freeze, kill and
// remove, and what they share.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sandbox/cgroup.h"

namespace agentrun::sandbox {

// The directory of a v1 controller ("memory", "freezer"); empty: v1 does not have it.
std::string v1_directory(const CgroupLocation& location, std::string_view controller);

// The directory that `inode` is of: v2's, else the first of v1. Empty: there is none.
std::string main_directory(const CgroupLocation& location);

// Opens the main directory; an invalid fd where it is gone or is a later one of the same name (another inode).
Result<UniqueFd> open_cgroup(const CgroupLocation& location);

}  // namespace agentrun::sandbox
