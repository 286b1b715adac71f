#include "sandbox/cgroup_guard.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "sandbox/cgroup_control.h"
#include "sandbox/cgroup_file.h"
#include "sandbox/cgroup_layout.h"
#include "sandbox/cgroup_systemd.h"
#include "sandbox/cgroup_v1.h"
#include "sandbox/cgroup_v2.h"
#include "sandbox/systemd_unit.h"
#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::sandbox {
namespace {

constexpr std::string_view kSlice = "agentrun.slice";
constexpr std::string_view kSlicePath = "/agentrun.slice";
constexpr std::int64_t kPage = 4096;  // the kernel rounds a memory limit down to pages

// ---- what an asked place would lose

// A file with a limit in it, and how "no limit" reads.
struct LimitFile {
  const char* controller;  // of v1
  const char* file;
  std::string_view none;  // the text begins with it
};
constexpr LimitFile kLimitsV2[] = {
    {"", "memory.max", "max"}, {"", "memory.high", "max"}, {"", "memory.swap.max", "max"},
    {"", "pids.max", "max"},   {"", "cpu.max", "max"},     {"", "cpuset.cpus", ""},
    {"", "io.max", ""},
};
constexpr LimitFile kLimitsV1[] = {{"memory", "memory.limit_in_bytes", "9223372036854"},
                                   {"pids", "pids.max", "max"},
                                   {"cpu", "cpu.cfs_quota_us", "-1"}};

bool has_limit(const std::string& directory, const LimitFile& limit) {
  const auto content = sys::read_file(directory + "/" + limit.file);
  if (!content) return false;  // no such controller here
  const std::string_view value = text::trim(*content);
  return limit.none.empty() ? !value.empty() : !value.starts_with(limit.none);
}

Error would_lose(const std::string& asked, const std::string& directory, const char* file) {
  return refusal(
      "use the cgroup", asked,
      "the host-wide guard (agentrun.json, /guard) keeps containers below agentrun.slice, and there the limit "
      "of its parent would be lost: " +
          directory + "/" + file);
}

// `path` is a cgroup that will not be used after all: none of those above it may hold a limit that counts on it.
Result<void> check_parents(const CgroupLayout& layout, const std::string& path, const std::string& asked) {
  for (std::size_t slash = path.rfind('/'); slash != std::string::npos && slash > 0;
       slash = path.rfind('/', slash - 1)) {
    const std::string parent = path.substr(0, slash);
    if (layout.v2) {
      const std::string directory = layout.v2->mount + parent;
      for (const LimitFile& limit : kLimitsV2) {
        if (has_limit(directory, limit)) return would_lose(asked, directory, limit.file);
      }
    }
    for (const LimitFile& limit : kLimitsV1) {
      const Hierarchy* place = layout.v1_with(limit.controller);
      if (place != nullptr && has_limit(place->mount + parent, limit)) {
        return would_lose(asked, place->mount + parent, limit.file);
      }
    }
  }
  return ok();
}

Result<std::string> guarded_scope(const CgroupLayout& layout, const std::string& cgroups_path, const std::string& id) {
  const UnitName name = TRY(parse_unit_name(cgroups_path, id, false));
  if (name.slice == kSlice || (name.slice.starts_with("agentrun-") && name.slice.ends_with(".slice"))) {
    return cgroups_path;  // agentrun-a.slice is below agentrun.slice by its name
  }
  const std::string slices = TRY(expand_slice(name.slice));
  TRY(check_parents(layout, slices + "/" + name.unit, cgroups_path.empty() ? name.unit : cgroups_path));
  if (cgroups_path.empty()) return std::string(kSlice) + ":agentrun:" + id;
  return std::string(kSlice) + cgroups_path.substr(cgroups_path.find(':'));
}

// ---- the limits

oci::Resources resources_of(const CgroupGuard& guard) {
  oci::Resources resources;
  if (guard.memory) resources.memory.emplace().limit = *guard.memory / kPage * kPage;
  resources.pids_limit = guard.pids;
  return resources;
}

// Where agentrun.slice holds the limits of a controller, and the name of the file.
struct Place {
  std::string directory;
  bool v1 = false;
};
Place place_of(const CgroupLayout& layout, const char* controller) {
  if (const Hierarchy* v1 = layout.v1_with(controller)) return {v1->mount + std::string(kSlicePath), true};
  return {layout.v2 ? layout.v2->mount + std::string(kSlicePath) : std::string(), false};
}

const char* limit_file(std::string_view controller, bool v1) {
  if (controller == "pids") return "pids.max";
  return v1 ? "memory.limit_in_bytes" : "memory.max";
}

bool is_in_force(const std::string& directory, const char* controller, bool v1, std::int64_t value) {
  const auto now = read_number(directory, limit_file(controller, v1));
  return now && *now == static_cast<std::uint64_t>(value);
}

struct Wanted {
  const char* controller;
  std::int64_t value;
};
std::vector<Wanted> wanted_of(const CgroupGuard& guard) {
  std::vector<Wanted> wanted;
  if (guard.memory) wanted.push_back({"memory", *guard.memory / kPage * kPage});
  if (guard.pids) wanted.push_back({"pids", *guard.pids});
  return wanted;
}

Result<void> make_slice(const CgroupLayout& layout) {
  if (layout.v2) TRY(make_v2({}, layout.v2->mount + std::string(kSlicePath)));
  if (layout.unified()) return ok();
  for (const Hierarchy& place : layout.v1) {
    const auto& controllers = place.controllers;
    const bool is_cpuset = std::find(controllers.begin(), controllers.end(), "cpuset") != controllers.end();
    TRY(make_v1({}, place.mount + std::string(kSlicePath), is_cpuset));
  }
  return ok();
}

// Only what is not so already: a limit that is written anew makes the kernel look at all of it again.
Result<void> limit_slice(const CgroupLayout& layout, const CgroupGuard& guard) {
  const oci::Resources resources = resources_of(guard);
  for (const Wanted& wanted : wanted_of(guard)) {
    const Place place = place_of(layout, wanted.controller);
    if (place.directory.empty()) {
      return refusal("bound all containers by", wanted.controller, "no hierarchy with that controller is mounted");
    }
    if (!place.v1) TRY(hand_down_controllers(place.directory, {wanted.controller}, false));
    if (is_in_force(place.directory, wanted.controller, place.v1, wanted.value)) continue;
    TRY(place.v1 ? limit_v1(place.directory, wanted.controller, resources)
                 : limit_v2(place.directory, wanted.controller, resources));
  }
  return ok();
}

Result<void> ask_systemd(const CgroupLayout& layout, const CgroupGuard& guard) {
  bool in_force = true;
  bool v2 = true;
  for (const Wanted& wanted : wanted_of(guard)) {
    const Place place = place_of(layout, wanted.controller);
    in_force = in_force && is_in_force(place.directory, wanted.controller, place.v1, wanted.value);
    v2 = v2 && !place.v1;
  }
  if (in_force) return ok();
  UnitRequest request{"set", std::string(kSlice), TRY(limit_properties(resources_of(guard), v2))};
  const auto helper = TRY(SystemdHelper::start());
  TRY(helper->send(request));
  TRY(helper->receive());
  return ok();
}

}  // namespace

Result<std::string> guarded_path(CgroupManager manager, const std::string& cgroups_path, const std::string& id) {
  if (!sys::is_host_root()) {
    return refusal("bound all containers", "",
                   "the host-wide guard (agentrun.json, /guard) cannot hold an ordinary user's containers: it has to "
                   "say exempt_users for them to run");
  }
  if (manager == CgroupManager::disabled) {
    return refusal("bound all containers", "",
                   "the host-wide guard (agentrun.json, /guard) needs cgroups, and the cgroup manager is \"disabled\"");
  }
  const CgroupLayout layout = TRY(find_layout());
  if (manager == CgroupManager::systemd) return guarded_scope(layout, cgroups_path, id);
  const std::string path = TRY(cgroupfs_path(cgroups_path.empty() ? "/" + id : cgroups_path, id));
  if (path != kSlicePath && text::path_within(path, kSlicePath)) return path;
  TRY(check_parents(layout, path, path));
  return std::string(kSlicePath) + path;
}

Result<void> set_guard(CgroupManager manager, const CgroupGuard& guard) {
  const CgroupLayout layout = TRY(find_layout());
  if (manager == CgroupManager::systemd) return ask_systemd(layout, guard);
  TRY(make_slice(layout));
  return limit_slice(layout, guard);
}

Result<void> check_guard(const CgroupLocation& location, const CgroupGuard& guard) {
  for (const Wanted& wanted : wanted_of(guard)) {
    const std::string v1 = v1_directory(location, wanted.controller);
    const std::string& directory = v1.empty() ? location.v2 : v1;
    const std::size_t at = directory.find(std::string(kSlicePath) + "/");
    const std::string slice = at == std::string::npos ? directory : directory.substr(0, at + kSlicePath.size());
    if (at == std::string::npos || !is_in_force(slice, wanted.controller, !v1.empty(), wanted.value)) {
      return refusal("bound all containers by", slice + "/" + limit_file(wanted.controller, !v1.empty()),
                     "the limit of the host-wide guard (agentrun.json, /guard) is not in force there");
    }
  }
  return ok();
}

}  // namespace agentrun::sandbox
