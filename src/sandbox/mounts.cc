#include "sandbox/mounts.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "sandbox/bind_source.h"
#include "sandbox/cgroup_mount.h"
#include "sandbox/mount_options.h"
#include "sandbox/mount_target.h"
#include "sandbox/tree_copy.h"
#include "sys/file.h"
#include "sys/mount.h"

namespace agentrun::sandbox {

struct Mounts::Entry {
  std::size_t index = 0;
  const oci::Mount* mount = nullptr;
  std::string destination;  // clean
  MountOptions options;
};

namespace {

constexpr std::size_t kLongestValue = 255;  // fsconfig(2) takes no longer string

// The standard file systems of config-linux.md, where a config names one without a single option.
struct Default {
  std::string_view destination, type;
  std::array<const char*, 6> options;
};
constexpr std::array<Default, 5> kDefaults = {{
    {"/dev", "tmpfs", {"nosuid", "noexec", "strictatime", "mode=755"}},
    {"/dev/shm", "tmpfs", {"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
    {"/dev/mqueue", "mqueue", {"nosuid", "noexec", "nodev"}},
    {"/dev/pts", "devpts", {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
    {"/sys", "sysfs", {"nosuid", "noexec", "nodev"}},
}};

oci::Mount with_defaults(const oci::Mount& mount, const std::string& destination) {
  oci::Mount result = mount;
  for (const Default& known : kDefaults) {
    if (destination != known.destination || mount.type != known.type) continue;
    for (const char* option : known.options) {
      if (option != nullptr) result.options.emplace_back(option);
    }
  }
  return result;
}

bool has_key(const std::vector<sys::FsOption>& options, std::string_view key) {
  return std::any_of(options.begin(), options.end(), [key](const sys::FsOption& option) { return option.key == key; });
}

// The layers of lowerdir=a:b:c. "\\:" is a colon of a name.
std::vector<std::string> split_layers(std::string_view text) {
  std::vector<std::string> layers(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      layers.back() += text[++i];
    } else if (text[i] == ':') {
      layers.emplace_back();
    } else {
      layers.back() += text[i];
    }
  }
  return layers;
}

// Paths of an overlay that fsconfig(2) does not take: a long lowerdir is given a layer at a time (6.5), a long path by
// an fd, which `held` keeps open until the mount is made.
Result<void> shorten_overlay_paths(std::vector<sys::FsOption>& options, std::vector<UniqueFd>& held) {
  std::vector<sys::FsOption> result;
  for (sys::FsOption& option : options) {
    if (option.key == "lowerdir" && option.value.size() > kLongestValue) {
      for (std::string& layer : split_layers(option.value)) result.push_back({"lowerdir+", std::move(layer), false});
    } else {
      result.push_back(std::move(option));
    }
  }
  for (sys::FsOption& option : result) {
    if (option.value.size() <= kLongestValue) continue;
    held.push_back(TRY(sys::open(option.value, O_PATH | O_DIRECTORY)));
    option.value = "/proc/self/fd/" + std::to_string(held.back().get());
  }
  options = std::move(result);
  return ok();
}

// crun's annotation: which of mount(8)'s SELinux options takes the label.
std::string label_option(const oci::Config& config) {
  const auto found = config.annotations.find("run.oci.mount_context_type");
  if (found == config.annotations.end()) return "context";
  for (const char* known : {"context", "fscontext", "defcontext", "rootcontext"}) {
    if (found->second == known) return known;
  }
  return "context";
}

bool takes_label(const std::string& type) {
  return type == "tmpfs" || type == "ramfs" || type == "devpts" || type == "mqueue" || type == "overlay";
}

// The place of the host that shows the same thing, for a user namespace that may not mount it anew (sysfs: the network
// namespace is not its own; mqueue: the ipc namespace is not; proc: the pid namespace is not).
const char* host_place(const std::string& type) {
  if (type == "sysfs") return "/sys";
  if (type == "mqueue") return "/dev/mqueue";
  if (type == "proc") return "/proc";
  return nullptr;
}

Error at(const Error& error, const oci::Mount& mount) {
  Error result = error;
  result.operation = "mount " + (mount.type.empty() ? std::string("bind") : mount.type) + " on " + mount.destination;
  if (error.operation.rfind("mount ", 0) != 0) {
    result.object = error.operation + (error.object.empty() ? "" : " " + error.object);
  }
  result.object = result.object.empty() || result.object == mount.destination ? "" : "(" + result.object + ")";
  return result;
}

// Where a symlink of the target would be the mount point itself: in these file systems it is the kernel's own, and
// covering /proc/self would give every reader the wrong process.
Result<void> check_nofollow(int target, const std::string& destination) {
  struct statfs status {};
  if (fstatfs(target, &status) != 0) return errno_error("statfs", destination);
  const auto magic = static_cast<unsigned long>(status.f_type);
  if (magic == PROC_SUPER_MAGIC || magic == SYSFS_MAGIC || magic == DEVPTS_SUPER_MAGIC) {
    return refusal("mount", destination, "override of the mount destination is not allowed");
  }
  return ok();
}

Result<std::uint64_t> attributes_of(int mount, const std::string& destination) {
  struct statvfs status {};
  if (fstatvfs(mount, &status) != 0) return errno_error("statfs", destination);
  return attributes_of_statvfs(status.f_flag);
}

// devpts would say EINVAL and no more.
Result<void> check_terminal_group(const std::vector<sys::FsOption>& options, const oci::Linux& container) {
  for (const sys::FsOption& option : options) {
    const auto gid = text::parse_unsigned(option.value);
    if (option.key != "gid" || !gid || container.gid_mappings.empty()) continue;
    const bool mapped = std::any_of(
        container.gid_mappings.begin(), container.gid_mappings.end(),
        [&](const oci::IdMapping& map) { return *gid >= map.container_id && *gid - map.container_id < map.size; });
    if (!mapped) return refusal("mount devpts", "", "gid=" + option.value + " is not mapped in the user namespace");
  }
  return ok();
}

bool same_mount(int a, int b) {
  struct statx one {
  }, two{};
  return statx(a, "", AT_EMPTY_PATH, STATX_MNT_ID, &one) == 0 && statx(b, "", AT_EMPTY_PATH, STATX_MNT_ID, &two) == 0 &&
         one.stx_mnt_id == two.stx_mnt_id;
}

}  // namespace

Mounts::Mounts(const RootRequest& request, UniqueFd root)
    : request_(request),
      config_(request.effective->config),
      user_namespace_(request.new_user_namespace || oci::find_namespace(config_, oci::NamespaceType::user) != nullptr),
      root_(std::move(root)) {}

Result<void> Mounts::mount_all() {
  for (std::size_t i = 0; i < config_.mounts.size(); ++i) {
    auto done = mount_one(i);
    if (!done) return at(done.error(), config_.mounts[i]);
  }
  return ok();
}

Result<void> Mounts::seal() {
  for (const UniqueFd& mount : to_seal_) {
    TRY(sys::set_mount_attributes(mount.get(), MOUNT_ATTR_RDONLY, 0, 0, false));
  }
  to_seal_.clear();
  return ok();
}

Result<void> Mounts::mount_one(std::size_t index) {
  Entry entry;
  entry.index = index;
  entry.mount = &config_.mounts[index];
  entry.destination = clean_destination(entry.mount->destination, request_.rootfs);
  if (entry.mount->options.empty() && !is_bind(*entry.mount)) {
    entry.options = TRY(parse_mount_options(with_defaults(*entry.mount, entry.destination), config_.linux));
  } else {
    entry.options = TRY(parse_mount_options(*entry.mount, config_.linux));
  }
  const std::string& type = entry.mount->type;
  if (entry.options.remount) return remount(entry);
  if (entry.options.bind) return bind(entry);
  if (type.empty()) return refusal("mount", entry.destination, "has neither a type nor bind among its options");
  if (type == "cgroup" || type == "cgroup2") return cgroup(entry);
  if (host_place(type) != nullptr) return pseudo(entry);
  return fresh(entry);
}

// By whatever path or symlink it was reached.
Result<bool> Mounts::covers_root(int target) {
  if (root_inode_ == 0) root_inode_ = TRY(sys::stat_fd(root_.get(), "/")).st_ino;
  if (TRY(sys::stat_fd(target, "/")).st_ino != root_inode_) return false;
  return same_mount(target, root_.get()) &&
         TRY(sys::stat_fd(target, "/")).st_dev == TRY(sys::stat_fd(root_.get(), "/")).st_dev;
}

// The last steps of every mount: attributes for the whole tree, propagation, attaching. `mount` is still detached.
Result<void> Mounts::place(Entry& entry, UniqueFd mount, const Target& where) {
  const int target = where.fd.get();
  const MountOptions& options = entry.options;
  if ((options.recursive_set | options.recursive_clear) != 0) {
    TRY(sys::set_mount_attributes(mount.get(), options.recursive_set, options.recursive_clear, 0, true));
  }
  if (options.bind) TRY(leave_open(entry.index, mount.get()));
  if (options.destination_nofollow) TRY(check_nofollow(target, entry.destination));
  const bool is_root = !where.below_root && TRY(covers_root(target));
  if (is_root && options.copy_up) return refusal("mount", entry.destination, "tmpcopyup cannot be on /");
  auto attached = sys::attach_mount(mount.get(), target);
  if (!attached) return std::move(attached).error();
  // What covers the root is the root from now on.
  if (is_root) {
    root_ = std::move(mount);
    root_inode_ = 0;
  }
  return ok();
}

Result<void> Mounts::remount(const Entry& entry) {
  const UniqueFd target = TRY(find_target(root_.get(), entry.destination));
  if (!target) return os_error(ENOENT, "remount", entry.destination);
  const AttributeChange change = TRY(bind_attributes(entry.options, 0, false));
  TRY(sys::set_mount_attributes(target.get(), change.set, change.clear, 0, false));
  const MountOptions& options = entry.options;
  if ((options.recursive_set | options.recursive_clear) != 0) {
    TRY(sys::set_mount_attributes(target.get(), options.recursive_set, options.recursive_clear, 0, true));
  }
  if (options.propagation == 0) return ok();
  return sys::set_mount_attributes(target.get(), 0, 0, options.propagation, options.propagation_recursive);
}

namespace {

// A copy of a shared mount is its peer: what is mounted below one appears below the other. Private is what is meant
// where nothing is said, for every mount of the tree: a peer that was left below would be a way to the host. In a user
// namespace a peer is made a slave first, as the kernel does for every mount that it copies to a less privileged
// namespace: else the container could mount on the host.
Result<void> set_tree_propagation(int mount, const MountOptions& options, bool user_namespace) {
  switch (options.propagation) {
    case MS_SLAVE:
      return sys::set_mount_attributes(mount, 0, 0, MS_SLAVE, true);
    case MS_SHARED:
      if (user_namespace) TRY(sys::set_mount_attributes(mount, 0, 0, MS_SLAVE, true));
      return sys::set_mount_attributes(mount, 0, 0, MS_SHARED, true);
    case MS_UNBINDABLE:
      TRY(sys::set_mount_attributes(mount, 0, 0, MS_PRIVATE, true));
      return sys::set_mount_attributes(mount, 0, 0, MS_UNBINDABLE, options.propagation_recursive);
    default:
      return sys::set_mount_attributes(mount, 0, 0, MS_PRIVATE, true);
  }
}

// Both in one call where it is one mount, and private: the usual case, a thousand times.
Result<void> set_bind_attributes(int mount, bool single, const MountOptions& options, const AttributeChange& change,
                                 bool user_namespace) {
  if (single && (options.propagation == 0 || options.propagation == MS_PRIVATE)) {
    return sys::set_mount_attributes(mount, change.set, change.clear, MS_PRIVATE, false);
  }
  TRY(set_tree_propagation(mount, options, user_namespace));
  return sys::set_mount_attributes(mount, change.set, change.clear, 0, false);
}

}  // namespace

Result<void> Mounts::bind(Entry& entry) {
  SourceRequest wanted;
  wanted.mount = entry.mount;
  wanted.index = entry.index;
  wanted.options = &entry.options;
  wanted.container = &config_.linux;
  wanted.root = root_.get();
  wanted.rootfs = request_.rootfs;
  wanted.bundle = request_.bundle;
  BindSources none;
  SourceMount source = TRY(take_source(request_.sources != nullptr ? *request_.sources : none, wanted));
  if (source.kind == policy::FileKind::symlink && !source.symlink.empty()) return copy_symlink(entry, source.symlink);

  std::uint64_t current = 0;  // of use only where flags are locked
  if (user_namespace_ && entry.options.any_flag) current = TRY(attributes_of(source.mount.get(), entry.destination));
  const AttributeChange change = TRY(bind_attributes(entry.options, current, user_namespace_));
  TRY(set_bind_attributes(source.mount.get(), source.single, entry.options, change, user_namespace_));
  TargetOptions target_options;
  target_options.kind = source.kind == policy::FileKind::directory ? TargetKind::directory : TargetKind::file;
  target_options.follow_last = !entry.options.destination_nofollow;
  const Target target = TRY(open_target(root_.get(), entry.destination, target_options));
  return place(entry, std::move(source.mount), target);
}

// A directory in which later mounts of the config may have their places: read-only by seal(), not yet.
Result<void> Mounts::leave_open(std::size_t index, int mount) {
  const auto& last = request_.effective->sealed_last;
  if (std::find(last.begin(), last.end(), index) == last.end()) return ok();
  TRY(sys::set_mount_attributes(mount, 0, MOUNT_ATTR_RDONLY, 0, false));
  to_seal_.push_back(TRY(sys::duplicate(mount)));
  return ok();
}

Result<void> Mounts::copy_symlink(const Entry& entry, const std::string& text) {
  const TargetParent parent = TRY(open_parent(root_.get(), entry.destination));
  if (symlinkat(text.c_str(), parent.directory.get(), parent.name.c_str()) == 0) return ok();
  if (errno != EEXIST) return errno_error("symlink", entry.destination);
  std::string there(text.size() + 1, '\0');
  const ssize_t length = readlinkat(parent.directory.get(), parent.name.c_str(), there.data(), there.size());
  if (length >= 0 && std::string_view(there.data(), static_cast<std::size_t>(length)) == text) return ok();
  return refusal("symlink", entry.destination, "already exists with a different content");
}

std::vector<sys::FsOption> Mounts::data_of(const Entry& entry) const {
  const std::string& type = entry.mount->type;
  std::vector<sys::FsOption> options = {{"source", entry.mount->source.empty() ? type : entry.mount->source, false}};
  options.insert(options.end(), entry.options.data.begin(), entry.options.data.end());
  if (!config_.linux.mount_label.empty() && takes_label(type)) {
    options.push_back({label_option(config_), config_.linux.mount_label, false});
  }
  return options;
}

Result<UniqueFd> Mounts::new_tmpfs(Entry& entry, int target, bool created) {
  std::vector<sys::FsOption> options = data_of(entry);
  // It looks like the directory that it covers, where there was one.
  if (!created && !has_key(options, "mode")) {
    std::array<char, 8> mode{};
    const mode_t bits = TRY(sys::stat_fd(target, entry.destination)).st_mode & 07777U;
    std::snprintf(mode.data(), mode.size(), "%o", bits);
    options.push_back({"mode", mode.data(), false});
  }
  // Devices, copied files and mount points come into it first; see seal().
  std::uint64_t attributes = new_mount_attributes(entry.options);
  const bool readonly = ((attributes | entry.options.recursive_set) & MOUNT_ATTR_RDONLY) != 0;
  attributes &= ~std::uint64_t{MOUNT_ATTR_RDONLY};
  entry.options.recursive_set &= ~std::uint64_t{MOUNT_ATTR_RDONLY};
  UniqueFd mount = TRY(sys::new_mount("tmpfs", options, attributes));
  if (entry.options.copy_up && !created) TRY(copy_tree(target, mount.get(), {}));
  if (readonly) to_seal_.push_back(TRY(sys::duplicate(mount.get())));
  return mount;
}

Result<void> Mounts::fresh(Entry& entry) {
  const std::string& type = entry.mount->type;
  TargetOptions target_options;
  target_options.follow_last = !entry.options.destination_nofollow;
  const Target target = TRY(open_target(root_.get(), entry.destination, target_options));
  UniqueFd mount;
  if (type == "devpts" && user_namespace_) TRY(check_terminal_group(entry.options.data, config_.linux));
  if (type == "tmpfs") {
    mount = TRY(new_tmpfs(entry, target.fd.get(), target.created));
  } else {
    std::vector<sys::FsOption> options = data_of(entry);
    std::vector<UniqueFd> held;
    if (type == "overlay") TRY(shorten_overlay_paths(options, held));
    mount = TRY(sys::new_mount(type, options, new_mount_attributes(entry.options)));
  }
  if (entry.options.propagation != 0)
    TRY(sys::set_mount_attributes(mount.get(), 0, 0, entry.options.propagation, false));
  return place(entry, std::move(mount), target);
}

// A new instance, or where a user namespace may not have one, the host's: recursively, and read-only where it is sysfs,
// since the host's cgroups lie below it (CVE-2023-25809).
Result<UniqueFd> Mounts::pseudo_or_host(Entry& entry) {
  const std::string& type = entry.mount->type;
  auto made = sys::new_mount(type, data_of(entry), new_mount_attributes(entry.options));
  if (made || !user_namespace_ || (made.error().code != EPERM && made.error().code != EBUSY)) return made;
  if (type == "proc" && request_.pid_namespace) return made;  // its own pids, or nothing
  const UniqueFd host = TRY(sys::open(host_place(type), O_PATH | O_DIRECTORY));
  UniqueFd copy = TRY(sys::clone_mount(host.get(), "", true));
  std::uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | entry.options.set;
  if (type == "sysfs") attributes |= MOUNT_ATTR_RDONLY;
  TRY(sys::set_mount_attributes(copy.get(), attributes, 0, MS_PRIVATE, true));
  return copy;
}

Result<void> Mounts::pseudo(Entry& entry) {
  const std::string& type = entry.mount->type;
  const Target target = type == "mqueue" ? TRY(open_target(root_.get(), entry.destination, {}))
                                         : TRY(open_ordinary_directory(root_.get(), entry.destination, type));
  UniqueFd mount = TRY(pseudo_or_host(entry));
  if (entry.options.propagation != 0)
    TRY(sys::set_mount_attributes(mount.get(), 0, 0, entry.options.propagation, false));
  return place(entry, std::move(mount), target);
}

Result<void> Mounts::cgroup(Entry& entry) {
  const Target target = TRY(open_target(root_.get(), entry.destination, {}));
  return mount_cgroups(target.fd.get(), entry.options, request_.cgroups);
}

}  // namespace agentrun::sandbox
