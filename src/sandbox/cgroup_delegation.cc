#include "sandbox/cgroup_delegation.h"

#include <unistd.h>

#include <algorithm>

namespace agentrun::sandbox {
namespace {

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

std::string nearest_directory(const std::string& directory) {
  std::string nearest = directory;
  while (nearest != "/" && access(nearest.c_str(), F_OK) != 0) nearest = parent_of(nearest);
  return nearest;
}

bool is_delegated(const std::string& directory) {
  return access(directory.c_str(), W_OK) == 0 && access((directory + "/cgroup.procs").c_str(), W_OK) == 0;
}

bool may_make(const CgroupLayout& layout, const std::string& path) {
  const auto writable = [&](const Hierarchy& place) {
    return access(nearest_directory(place.mount + path).c_str(), W_OK) == 0;
  };
  return (!layout.v2 || writable(*layout.v2)) && std::all_of(layout.v1.begin(), layout.v1.end(), writable);
}

std::optional<std::string> delegated_path(const std::string& mount, const std::string& own, const std::string& id,
                                          bool (*writable)(const std::string& directory)) {
  if (own.empty() || own == "/") return std::nullopt;
  const std::string parent = parent_of(own);
  const bool beside = parent != "/" && !parent.ends_with(".slice");
  for (const std::string& place : {beside ? parent : own, own}) {
    if (writable(mount + place)) return place + "/agentrun/" + id;
  }
  return std::nullopt;
}

Result<std::optional<std::string>> path_for_user(const CgroupLayout& layout, const std::string& cgroups_path,
                                                 const std::string& id) {
  if (cgroups_path.empty() && layout.unified()) {
    auto path = delegated_path(layout.v2->mount, layout.v2->own, id, is_delegated);
    if (path) return path;
  }
  std::optional<std::string> path = TRY(cgroupfs_path(cgroups_path, id));
  if (!may_make(layout, *path)) path.reset();
  return path;
}

}  // namespace agentrun::sandbox
