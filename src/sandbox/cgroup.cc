#include "sandbox/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/log.h"
#include "base/text.h"
#include "sandbox/cgroup_control.h"
#include "sandbox/cgroup_delegation.h"
#include "sandbox/cgroup_devices.h"
#include "sandbox/cgroup_file.h"
#include "sandbox/cgroup_layout.h"
#include "sandbox/cgroup_limits.h"
#include "sandbox/cgroup_systemd.h"
#include "sandbox/cgroup_tree.h"
#include "sandbox/cgroup_v1.h"
#include "sandbox/cgroup_v2.h"
#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::sandbox {
namespace {

std::vector<std::string> directories_of(const CgroupLocation& location) {
  std::vector<std::string> directories;
  if (!location.v2.empty()) directories.push_back(location.v2);
  for (const auto& [controllers, directory] : location.v1) directories.push_back(directory);
  return directories;
}

// Those of `parents` that are above `directory`.
std::vector<std::string> parents_of(const std::vector<std::string>& parents, const std::string& directory) {
  std::vector<std::string> above;
  std::copy_if(parents.begin(), parents.end(), std::back_inserter(above),
               [&](const std::string& parent) { return parent != directory && text::path_within(directory, parent); });
  return above;
}

// ---- plan

// A second container in a cgroup would share limits, freezer and end with the first; the specification lets us refuse.
// The texts are runc's: its test suite matches them.
Result<void> check_unused(const CgroupLocation& location) {
  for (const std::string& path : directories_of(location)) {
    const UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory && (errno == ENOENT || errno == ENODEV)) continue;
    if (!directory) return errno_error("open", path);
    const std::vector<pid_t> pids = TRY(processes_below(directory.get()));
    if (pids.empty()) continue;
    return refusal("use the cgroup", path,
                   "container's cgroup is not empty: " + std::to_string(pids.size()) + " process(es) found");
  }
  if (TRY(is_frozen(location))) {
    return refusal("use the cgroup", main_directory(location), "container's cgroup unexpectedly frozen");
  }
  return ok();
}

Result<CgroupLocation> plan_cgroupfs(const CgroupRequest& request, const CgroupLayout& layout) {
  CgroupLocation location;
  const auto found = sys::is_host_root() ? std::optional(TRY(cgroupfs_path(request.cgroups_path, request.id)))
                                         : TRY(path_for_user(layout, request.cgroups_path, request.id));
  // A user to whom nothing is delegated gets no cgroup, as with crun; create refuses limits then.
  if (!found) {
    location.manager = CgroupManager::disabled;
    return location;
  }
  const std::string& path = *found;
  const auto place = [&](const std::string& mount) {
    std::vector<std::string> missing = missing_parents(mount, mount + path);
    // Our own parent goes with its last container, whoever of several made it.
    if (missing.empty() && request.cgroups_path.empty()) missing.push_back(mount + path.substr(0, path.rfind('/')));
    for (std::string& parent : missing) location.parents.push_back(std::move(parent));
    return mount + path;
  };
  if (layout.v2) location.v2 = place(layout.v2->mount);
  if (layout.unified()) return location;
  for (const Hierarchy& hierarchy : layout.v1) location.v1[hierarchy.name] = place(hierarchy.mount);
  return location;
}

// ---- limits

// A controller of `resources` is in v1, else in v2, else nowhere, and that is an error whatever it asks.
Result<void> check_reachable(const CgroupLocation& location, const oci::Resources& resources) {
  for (const std::string& controller : asked_controllers(resources)) {
    if (v1_directory(location, v1_name(controller)).empty() && location.v2.empty()) {
      return refusal("set limits by the cgroup controller", controller, "no hierarchy with it is mounted");
    }
  }
  for (const auto& [key, value] : resources.unified) {
    const std::string controller = key.substr(0, key.find('.'));
    if (location.v2.empty() || !v1_directory(location, v1_name(controller)).empty()) {
      return refusal("set linux.resources.unified." + key, {},
                     "invalid configuration: its controller is not on cgroup v2");
    }
  }
  if (resources.memory && resources.memory->kernel) {
    log::write(log::Level::warning, "linux.resources.memory.kernel is ignored: Linux 5.16 took it away");
  }
  return ok();
}

std::set<std::string> asked_of_v2(const CgroupLocation& location, const oci::Resources* resources) {
  std::set<std::string> asked;
  if (resources == nullptr) return asked;
  for (const std::string& controller : asked_controllers(*resources)) {
    const bool is_v1_only = controller == "net_cls" || controller == "net_prio";
    if (!is_v1_only && v1_directory(location, v1_name(controller)).empty()) asked.insert(controller);
  }
  return asked;
}

bool is_unified(const CgroupLocation& location) { return !location.v2.empty() && location.v1.empty(); }

Result<void> write_limits(const CgroupLocation& location, const oci::Resources& resources) {
  for (const std::string& controller : asked_controllers(resources)) {
    const std::string directory = v1_directory(location, v1_name(controller));
    TRY(directory.empty() ? limit_v2(location.v2, controller, resources) : limit_v1(directory, controller, resources));
  }
  return resources.unified.empty() ? ok() : write_unified(location.v2, resources);
}

Result<void> write_device_rules(const CgroupLocation& location, const std::vector<oci::DeviceRule>& rules);

Result<void> change_limits(const CgroupLocation& location, const oci::Resources& resources) {
  TRY(write_limits(location, resources));
  // After the files, which have checked the values: systemd keeps them through its next reload.
  if (location.manager == CgroupManager::systemd) TRY(set_scope_limits(location, resources));
  return resources.devices.empty() ? ok() : write_device_rules(location, resources.devices);
}

// In a user namespace mknod(2) makes no device, and the kernel would not take the program from us: nodes come in by
// bind mounts only, with the user's own rights.
Result<void> write_device_rules(const CgroupLocation& location, const std::vector<oci::DeviceRule>& rules) {
  if (!sys::is_host_root()) return ok();
  const std::string v1 = v1_directory(location, "devices");
  if (v1.empty() && location.v2.empty()) {
    return refusal("limit devices in", main_directory(location),
                   "neither v1's controller devices nor cgroup v2 is mounted");
  }
  if (v1.empty()) return limit_devices_v2(location.v2, rules);
  const std::vector<oci::DeviceRule> complete = TRY(complete_rules(rules));
  const bool too_fine = !device_writes(complete);
  return too_fine && !location.v2.empty() ? limit_devices_v2(location.v2, rules) : limit_devices_v1(v1, rules);
}

// No cgroup: whatever would have to be limited is refused. Device rules are let go, as crun does: engines send them
// always.
Result<void> check_no_limits(const oci::Resources* resources) {
  if (resources == nullptr) return ok();
  const std::set<std::string> asked = asked_controllers(*resources);
  if (asked.empty()) return ok();
  return refusal("set limits without cgroups", *asked.begin(),
                 sys::is_host_root()
                     ? "the cgroup manager is \"disabled\""
                     : "rootless needs no limits + no cgrouppath when no permission is granted for cgroups: "
                       "call with --systemd-cgroup where systemd has a manager for this user (loginctl "
                       "enable-linger), or have a cgroup v2 directory delegated");
}

// ---- making

// Every hierarchy that is mounted, asked for or not: in one that the container did not join it would be in the host's
// own cgroup, and a cgroup namespace would show it that one. The first write to a cgroup.procs costs milliseconds (an
// RCU grace period), each further one right after it 15 microseconds; cpuset's directory, the slowest, a third of one.
Result<void> make_directories(const CgroupLocation& location) {
  if (!location.v2.empty()) TRY(make_v2(parents_of(location.parents, location.v2), location.v2));
  for (const auto& [controllers, directory] : location.v1) {
    const std::vector<std::string_view> parts = text::split(controllers, ',');
    const bool is_cpuset = std::find(parts.begin(), parts.end(), "cpuset") != parts.end();
    TRY(make_v1(parents_of(location.parents, directory), directory, is_cpuset));
  }
  return ok();
}

// The parent that was there at the plan went with the last container in it: plan it anew.
void add_missing_parents(CgroupLocation& location) {
  for (const std::string& directory : directories_of(location)) {
    for (std::string& parent : missing_parents("/", directory)) {
      const auto& known = location.parents;
      if (std::find(known.begin(), known.end(), parent) == known.end()) location.parents.push_back(std::move(parent));
    }
  }
}

Result<void> record_inode(CgroupLocation& location) {
  const std::string path = main_directory(location);
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return errno_error("stat", path);
  location.inode = status.st_ino;
  return ok();
}

Result<void> make_and_limit(CgroupLocation& location, const oci::Resources* resources) {
  for (int attempt = 0;; ++attempt) {
    auto made = make_directories(location);
    if (made) break;
    if (made.error().code != ENOENT || attempt == 3) return made;
    add_missing_parents(location);
  }
  TRY(record_inode(location));
  if (!location.v2.empty()) {
    TRY(hand_down_controllers(location.v2, asked_of_v2(location, resources), is_unified(location)));
  }
  if (resources != nullptr) TRY(write_limits(location, *resources));
  return write_device_rules(location, resources == nullptr ? std::vector<oci::DeviceRule>() : resources->devices);
}

// The container's limits and device rules hold in it too, and it must hand nothing down.
Result<void> make_child(CgroupLocation& location) {
  TRY(make_v2({}, location.v2));
  return record_inode(location);
}

// ---- attaching

Result<void> attach_everywhere(const CgroupLocation& location, pid_t pid, bool cloned_into) {
  if (!location.v2.empty() && !cloned_into) TRY(attach_to(location.v2, pid));
  for (const auto& [controllers, directory] : location.v1) TRY(attach_to(directory, pid));
  return ok();
}

// systemd knows better where its unit is: its own cgroup may be below the root of the hierarchy.
Result<void> follow_systemd(CgroupLocation& location, const std::string& control_group) {
  const std::string path = text::clean_path(control_group);
  if (control_group.empty() || path == "/") {
    return refusal("find the scope", location.unit, "systemd does not say where its cgroup is");
  }
  if (location.v2.ends_with(path)) return ok();
  const CgroupLayout layout = TRY(find_layout());
  if (layout.v2) location.v2 = layout.v2->mount + path;
  for (const Hierarchy& place : layout.v1) location.v1[place.name] = place.mount + path;
  return ok();
}

}  // namespace

Result<CgroupLocation> plan_cgroup(const CgroupRequest& request) {
  if (request.manager == CgroupManager::disabled) {
    CgroupLocation location;
    location.manager = CgroupManager::disabled;
    return location;
  }
  const CgroupLayout layout = TRY(find_layout());
  CgroupLocation location = request.manager == CgroupManager::systemd ? TRY(plan_scope(request, layout))
                                                                      : TRY(plan_cgroupfs(request, layout));
  if (location.manager != CgroupManager::disabled) TRY(check_unused(location));
  return location;
}

Result<CgroupControllers> available_controllers(CgroupManager manager, const std::string& cgroups_path) {
  CgroupControllers controllers;
  if (manager == CgroupManager::disabled) return controllers;
  const CgroupLayout layout = TRY(find_layout());
  // A user gets what was delegated to him: to his systemd, else to the place.
  std::optional<std::string> place = "";
  if (!sys::is_host_root() && manager == CgroupManager::systemd) {
    place = user_manager_path(layout);
  } else if (!sys::is_host_root()) {
    place = TRY(path_for_user(layout, cgroups_path, "any"));
    if (!place) return controllers;
  }
  std::set<std::string> offered;
  if (layout.v2) {
    const auto list = sys::read_file(nearest_directory(layout.v2->mount + *place) + "/cgroup.controllers");
    if (list) {
      for (const std::string_view name : text::split_words(*list)) offered.emplace(name);
    }
  }
  const auto has = [&](const char* name) { return offered.contains(name) || layout.v1_with(v1_name(name)) != nullptr; };
  controllers.memory = has("memory");
  controllers.cpu = has("cpu");
  controllers.pids = has("pids");
  controllers.cpuset = has("cpuset");
  controllers.io = has("io");
  controllers.hugetlb = has("hugetlb");
  controllers.rdma = has("rdma");
  controllers.unified = layout.unified();
  controllers.kill = layout.v2.has_value();
  return controllers;
}

Result<void> create_cgroup(CgroupLocation& location, const CgroupRequest& request, const oci::Resources* resources) {
  if (resources != nullptr) TRY(check_names(*resources));
  if (location.manager == CgroupManager::disabled) return check_no_limits(resources);
  if (location.is_child) return make_child(location);
  if (resources != nullptr) TRY(check_reachable(location, *resources));
  if (location.manager == CgroupManager::systemd) {
    TRY(scope_request(location, request, 1, resources));  // only whether it can be said
    prepare_helper();
    return ok();
  }
  const bool existed = access(main_directory(location).c_str(), F_OK) == 0;
  auto made = make_and_limit(location, resources);
  // Half a cgroup is of no use to anybody; one that was there before is not ours to take away.
  if (!made && !existed) (void)remove_cgroup(location);
  return made;
}

Result<UniqueFd> clone_target(const CgroupLocation& location) {
  // On a hybrid host a cgroup namespace made by the clone would be rooted at the host's cgroup in every v1 hierarchy.
  if (!is_unified(location) || (location.manager == CgroupManager::systemd && location.inode == 0)) return UniqueFd();
  UniqueFd directory = TRY(open_cgroup(location));
  if (!directory) return refusal("start a process in", location.v2, "the cgroup is not there");
  return directory;
}

Attachment::Attachment() = default;
Attachment::Attachment(std::unique_ptr<SystemdHelper> helper, pid_t pid) : helper_(std::move(helper)), pid_(pid) {}
Attachment::Attachment(Attachment&& other) noexcept = default;
Attachment& Attachment::operator=(Attachment&& other) noexcept = default;
Attachment::~Attachment() = default;

Result<void> Attachment::finish(CgroupLocation& location, const oci::Resources* resources) {
  if (!helper_) return ok();
  const std::string control_group = TRY(helper_->receive());
  helper_.reset();
  TRY(follow_systemd(location, control_group));
  TRY(make_directories(location));
  TRY(record_inode(location));
  TRY(attach_everywhere(location, pid_, true));
  // systemd hands down what it knows; hugetlb, rdma and misc it does not, and it leaves them alone.
  if (!location.v2.empty()) TRY(hand_down_controllers(location.v2, asked_of_v2(location, resources), false));
  if (resources != nullptr) TRY(write_limits(location, *resources));
  return write_device_rules(location, resources == nullptr ? std::vector<oci::DeviceRule>() : resources->devices);
}

Result<Attachment> begin_attach(CgroupLocation& location, const CgroupRequest& request, pid_t pid, bool cloned_into,
                                const oci::Resources* resources) {
  if (location.manager == CgroupManager::disabled) return Attachment();
  if (location.manager == CgroupManager::systemd && location.inode == 0) {
    const UnitRequest start = TRY(scope_request(location, request, pid, resources));
    std::unique_ptr<SystemdHelper> helper = TRY(take_helper());
    TRY(helper->send(start));
    return Attachment(std::move(helper), pid);
  }
  TRY(attach_everywhere(location, pid, cloned_into));
  return Attachment();
}

Result<void> attach_process(CgroupLocation& location, const CgroupRequest& request, pid_t pid, bool cloned_into,
                            const oci::Resources* resources) {
  Attachment attachment = TRY(begin_attach(location, request, pid, cloned_into, resources));
  return attachment.finish(location, resources);
}

Result<void> update_cgroup(const CgroupLocation& location, const oci::Resources& resources) {
  TRY(check_names(resources));
  if (location.manager == CgroupManager::disabled) return check_no_limits(&resources);
  TRY(check_reachable(location, resources));
  const UniqueFd directory = TRY(open_cgroup(location));
  if (!directory) return refusal("update", main_directory(location), "the cgroup is not there");
  if (!location.v2.empty()) TRY(hand_down_controllers(location.v2, asked_of_v2(location, &resources), false));
  WriteJournal journal;
  auto changed = change_limits(location, resources);
  // Half an update is neither the old limits nor the new.
  if (!changed) journal.undo();
  return changed;
}

Result<void> join_cgroup(const CgroupLocation& location, pid_t pid, bool cloned_into) {
  return location.manager == CgroupManager::disabled ? ok() : attach_everywhere(location, pid, cloned_into);
}

Result<CgroupView> cgroup_view(const CgroupLocation& location) {
  CgroupView view;
  view.unified = is_unified(location);
  if (location.manager == CgroupManager::disabled) return view;
  const CgroupLayout layout = TRY(find_layout());
  if (layout.v2 && !location.v2.empty()) view.v2_path = location.v2.substr(layout.v2->mount.size());
  for (const Hierarchy& place : layout.v1) {
    const auto found = location.v1.find(place.name);
    if (found == location.v1.end()) continue;
    view.v1_paths[place.mount.substr(place.mount.rfind('/') + 1)] = found->second.substr(place.mount.size());
  }
  return view;
}

Result<CgroupLocation> child_cgroup(const CgroupLocation& location, const std::string& name) {
  std::string below;
  for (const std::string_view part : text::split(name, '/')) {
    if (part == "." || part == "..") return refusal("use the cgroup", name, "bad sub cgroup path");
    if (!part.empty()) below += "/" + std::string(part);
  }
  if (below.empty() || !is_unified(location) || location.manager == CgroupManager::disabled) return location;
  const UniqueFd directory = TRY(open_cgroup(location));
  if (!directory) return refusal("use the cgroup", location.v2, "the cgroup is not there");
  CgroupLocation child;
  child.v2 = location.v2 + below;
  child.is_child = true;
  if (access(child.v2.c_str(), F_OK) == 0) {
    TRY(record_inode(child));
    return child;
  }
  // Delegated: the container could move the process out of a cgroup that is made in its own.
  const struct stat status = TRY(sys::stat_fd(directory.get(), location.v2));
  const std::string handed = TRY(sys::read_file_at(directory.get(), "cgroup.subtree_control"));
  return status.st_uid != geteuid() || !text::trim(handed).empty() ? location : child;
}

}  // namespace agentrun::sandbox
