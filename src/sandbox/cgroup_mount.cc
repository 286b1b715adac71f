#include "sandbox/cgroup_mount.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "sys/file.h"
#include "sys/mount.h"

namespace agentrun::sandbox {
namespace {

constexpr const char* kHost = "/sys/fs/cgroup";  // still the host's: the root is not entered yet

struct Flags {
  std::uint64_t attributes = 0;
  std::uint64_t propagation = MS_PRIVATE;
};

Flags flags_of(const MountOptions& options) {
  Flags flags;
  flags.attributes = new_mount_attributes(options) | options.recursive_set;
  if (options.propagation != 0) flags.propagation = options.propagation;
  return flags;
}

Result<void> attach(int mount, int target, const Flags& flags, const std::string& what) {
  TRY(sys::set_mount_attributes(mount, flags.attributes, 0, flags.propagation, false));
  auto attached = sys::attach_mount(mount, target);
  if (!attached) return os_error(attached.error().code, "mount cgroup", what);
  return ok();
}

// The container's directory in one hierarchy. It must be there, and `path` must not climb: it comes from our own plan.
Result<void> bind_hierarchy(const std::string& host, const std::string& path, int target, Flags flags) {
  std::string directory = host;
  if (path.empty() || path == "/") {
    flags.attributes |= MOUNT_ATTR_RDONLY;  // all of the host's
  } else {
    directory += text::clean_path(path);
  }
  auto source = sys::open(directory, O_PATH | O_DIRECTORY);
  if (!source) return os_error(source.error().code, "mount cgroup", directory);
  const UniqueFd copy = TRY(sys::clone_mount(source->get(), "", false));
  return attach(copy.get(), target, flags, directory);
}

bool may_bind_instead(const Error& error) {
  // EPERM: a user namespace that does not own the cgroup namespace. EBUSY: cgroup v1 of other options.
  return error.code == EPERM || error.code == EBUSY || error.code == EACCES;
}

// cgroup2 mounted from the initial cgroup namespace takes 7 to 11 ms, a bind 60 microseconds: so never that.
Result<void> mount_v2(const std::string& host, const CgroupView& view, int target, const Flags& flags,
                      const std::vector<sys::FsOption>& data) {
  if (view.namespaced) {
    std::vector<sys::FsOption> options = {{"source", "cgroup", false}};
    options.insert(options.end(), data.begin(), data.end());
    auto fresh = sys::new_mount("cgroup2", options, 0);
    if (fresh) return attach(fresh->get(), target, flags, "cgroup2");
    if (!may_bind_instead(fresh.error())) return std::move(fresh).error();
  }
  return bind_hierarchy(host, view.v2_path, target, flags);
}

// "cpu,cpuacct" are controllers; "systemd" and whatever else is no controller of the kernel is a named hierarchy.
std::vector<sys::FsOption> v1_options(const std::string& name) {
  static constexpr std::string_view kControllers[] = {"blkio",    "cpu",        "cpuacct", "cpuset", "devices",
                                                      "freezer",  "hugetlb",    "memory",  "misc",   "net_cls",
                                                      "net_prio", "perf_event", "pids",    "rdma",   "debug"};
  std::vector<sys::FsOption> options = {{"source", "cgroup", false}};
  for (const std::string_view part : text::split(name, ',')) {
    if (std::find(std::begin(kControllers), std::end(kControllers), part) == std::end(kControllers)) {
      options.push_back({"none", "", true});
      options.push_back({"name", std::string(part), false});
    } else {
      options.push_back({std::string(part), "", true});
    }
  }
  return options;
}

Result<void> mount_v1(const std::string& name, const std::string& path, bool namespaced, int target,
                      const Flags& flags) {
  if (namespaced) {
    auto fresh = sys::new_mount("cgroup", v1_options(name), 0);
    if (fresh) return attach(fresh->get(), target, flags, name);
    if (!may_bind_instead(fresh.error()) && fresh.error().code != EINVAL) return std::move(fresh).error();
  }
  return bind_hierarchy(std::string(kHost) + "/" + name, path, target, flags);
}

Result<UniqueFd> make_place(int directory, const std::string& name) {
  if (mkdirat(directory, name.c_str(), 0755) != 0) return errno_error("create directory", name);
  return sys::open_at(directory, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
}

// "cpu" and "cpuacct" beside "cpu,cpuacct", as every distribution has them.
Result<void> link_controllers(int directory, const std::string& name) {
  const auto parts = text::split(name, ',');
  if (parts.size() < 2) return ok();
  for (const std::string_view part : parts) {
    if (symlinkat(name.c_str(), directory, std::string(part).c_str()) != 0 && errno != EEXIST) {
      return errno_error("symlink", std::string(part));
    }
  }
  return ok();
}

Result<void> mount_hierarchies(int target, const Flags& flags, const CgroupView& view) {
  UniqueFd top =
      TRY(sys::new_mount("tmpfs", {{"source", "tmpfs", false}, {"mode", "0755", false}, {"size", "1024k", false}},
                         flags.attributes & ~std::uint64_t{MOUNT_ATTR_RDONLY}));
  TRY(sys::set_mount_attributes(top.get(), 0, 0, flags.propagation, false));
  TRY(sys::attach_mount(top.get(), target));
  for (const auto& [name, path] : view.v1_paths) {
    const UniqueFd place = TRY(make_place(top.get(), name));
    TRY(mount_v1(name, path, view.namespaced, place.get(), flags));
    TRY(link_controllers(top.get(), name));
  }
  if (!view.v2_path.empty()) {
    const UniqueFd place = TRY(make_place(top.get(), "unified"));
    TRY(mount_v2(std::string(kHost) + "/unified", view, place.get(), flags, {}));
  }
  if ((flags.attributes & MOUNT_ATTR_RDONLY) == 0) return ok();
  return sys::set_mount_attributes(top.get(), MOUNT_ATTR_RDONLY, 0, 0, false);
}

}  // namespace

Result<void> mount_cgroups(int target, const MountOptions& options, const CgroupView& view) {
  const Flags flags = flags_of(options);
  if (view.unified) return mount_v2(kHost, view, target, flags, options.data);
  return mount_hierarchies(target, flags, view);
}

}  // namespace agentrun::sandbox
