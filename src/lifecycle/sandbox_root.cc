#include "lifecycle/sandbox_root.h"

#include <linux/openat2.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "lifecycle/sandbox_etc.h"
#include "sandbox/mount_target.h"
#include "sys/file.h"
#include "sys/mount.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

constexpr std::uint64_t kReadOnly = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

Result<void> write_own_map(const char* file, std::uint32_t id) {
  return sys::write_file(std::string("/proc/self/") + file, std::to_string(id) + ' ' + std::to_string(id) + " 1");
}

// MS_SLAVE and not MS_PRIVATE: what the host unmounts meanwhile goes away here too, so that no disk stays busy.
Result<void> enter_private_namespace() {
  const std::uint32_t uid = geteuid(), gid = getegid();
  const bool ordinary = !sys::is_host_root();
  if (unshare(CLONE_NEWNS | (ordinary ? CLONE_NEWUSER : 0)) != 0) {
    return errno_error("unshare", ordinary ? "user and mount namespace" : "mount namespace");
  }
  if (ordinary) {
    TRY(sys::write_file("/proc/self/setgroups", "deny"));  // user_namespaces(7): before gid_map
    TRY(write_own_map("uid_map", uid));
    TRY(write_own_map("gid_map", gid));
  }
  return sys::set_propagation("/", MS_SLAVE | MS_REC);
}

Result<std::uint32_t> random_user() {
  std::uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) return errno_error("getrandom");
  return kSandboxUidBase + number % kSandboxUidCount;
}

Result<UniqueFd> make_directory(int parent, const std::string& name, mode_t mode) {
  TRY(sys::make_directory_at(parent, name, mode));
  return sys::open_at(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
}

// The links of a merged-/usr host are copied, directories are returned for a bind.
Result<std::vector<std::string>> link_system_directories(int root) {
  std::vector<std::string> directories;
  for (const char* name : {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}) {
    const std::string path = std::string("/") + name;
    struct stat attributes {};
    if (lstat(path.c_str(), &attributes) != 0) continue;
    if (S_ISDIR(attributes.st_mode)) {
      directories.push_back(path);
    } else if (S_ISLNK(attributes.st_mode)) {
      std::array<char, 256> target{};
      const ssize_t length = readlink(path.c_str(), target.data(), target.size() - 1);
      if (length < 0) return errno_error("readlink", path);
      if (symlinkat(target.data(), root, name) != 0) return errno_error("symlink", path);
    }
  }
  return directories;
}

// Overlayfs takes an idmapped mount as its lower layer from Linux 5.19 on.
bool overlay_takes_idmapped() {
  utsname name{};
  unsigned major_number = 0, minor_number = 0;
  uname(&name);
  return std::sscanf(name.release, "%u.%u", &major_number, &minor_number) == 2 &&
         (major_number > 5 || (major_number == 5 && minor_number >= 19));
}

// An id map in which `owner` of the file system is `user` of the sandbox, and everybody else is as they are.
std::string swap_map(std::uint32_t owner, std::uint32_t user) {
  std::string map;
  if (owner > 0) map += "0 0 " + std::to_string(owner) + '\n';
  map += std::to_string(owner) + ' ' + std::to_string(user) + " 1\n";
  const std::uint32_t next = owner + 1;
  if (next < user) map += std::to_string(next) + ' ' + std::to_string(next) + ' ' + std::to_string(user - next) + '\n';
  return map;
}

// A user namespace with such maps; it lives by the fd alone.
Result<UniqueFd> make_map_namespace(std::uint32_t uid, std::uint32_t gid, const SandboxHost& host) {
  sys::Cloned child = TRY(sys::clone_process(CLONE_NEWUSER));
  if (child.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  const auto fill = [&]() -> Result<UniqueFd> {
    const std::string directory = "/proc/" + std::to_string(child.pid);
    TRY(sys::write_file(directory + "/uid_map", swap_map(uid, host.uid)));
    TRY(sys::write_file(directory + "/gid_map", swap_map(gid, host.gid)));
    return sys::open(directory + "/ns/user", O_RDONLY);
  };
  Result<UniqueFd> made = fill();
  (void)sys::pidfd_send_signal(child.pidfd.get(), SIGKILL);
  (void)sys::wait_process(child.pid);
  return made;
}

// Read-only: an overlay of the policy takes the writes, and without one nothing reaches the caller's directory.
Result<void> show_workdir(const std::string& path, int target, const SandboxHost& host) {
  const UniqueFd directory = TRY(sys::open(path, O_PATH | O_DIRECTORY));
  const struct stat attributes = TRY(sys::stat_fd(directory.get(), path));
  // In a user namespace a part of a mount tree cannot be cloned (mount_namespaces(7)).
  const UniqueFd mount = TRY(sys::clone_mount(directory.get(), "", host.user_namespace));
  TRY(sys::set_mount_attributes(mount.get(), kReadOnly, 0, MS_PRIVATE, host.user_namespace));
  if (!host.user_namespace && overlay_takes_idmapped() && attributes.st_uid < host.uid &&
      attributes.st_gid < host.gid) {
    const UniqueFd maps = TRY(make_map_namespace(attributes.st_uid, attributes.st_gid, host));
    // A file system that cannot (NFS, overlayfs) shows the owner as it is: the program reads what everybody may read.
    (void)sys::idmap_mount(mount.get(), maps.get(), false);
  }
  return sys::attach_mount(mount.get(), target);
}

Result<void> chown_to_sandbox(int directory, const SandboxHost& host) {
  if (fchownat(directory, "", host.uid, host.gid, AT_EMPTY_PATH) != 0) return errno_error("chown", kSandboxWorkdir);
  return ok();
}

Result<void> build_host_root(const SandboxOptions& options, int root, SandboxHost& host) {
  host.system_directories = TRY(link_system_directories(root));
  const UniqueFd etc = TRY(make_directory(root, "etc", 0755));
  TRY(build_sandbox_etc(etc.get(), host));
  const UniqueFd work = TRY(make_directory(root, "work", 0755));
  TRY(chown_to_sandbox(work.get(), host));
  for (const char* name : {"tmp", "run", "var", "proc", "dev"}) TRY(sys::make_directory_at(root, name, 0755));
  TRY(sys::make_directory_at(root, "var/tmp", 0755));
  if (!options.out.empty()) TRY(sys::make_directory_at(root, kSandboxOut + 1, 0755));
  if (!options.workdir.empty()) TRY(show_workdir(options.workdir, work.get(), host));
  return ok();
}

// A root of somebody's own making: nothing is written to it, and no symlink in it leads out.
Result<void> show_given_root(const SandboxOptions& options, int root, const SandboxHost& host) {
  const UniqueFd given = TRY(sys::open(options.rootfs, O_PATH | O_DIRECTORY));
  const UniqueFd mount = TRY(sys::clone_mount(given.get(), "", true));
  TRY(sys::set_mount_attributes(mount.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0, MS_PRIVATE, true));
  TRY(sys::attach_mount(mount.get(), root));
  // A place for the results, which are not written there. Where none can be made, open_sandbox_out says so.
  if (!options.out.empty()) (void)mkdirat(mount.get(), kSandboxOut + 1, 0755);
  auto work = sys::open_resolved(mount.get(), "work", O_PATH | O_DIRECTORY, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
  if (work.has_error() && work.error().code == ENOENT) {
    // As any mount point that a runtime misses in a root file system.
    TRY(sys::make_directory_at(mount.get(), "work", 0755));
    work = sys::open_resolved(mount.get(), "work", O_PATH | O_DIRECTORY, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
  }
  if (work.has_error()) return work.error();
  if (!options.workdir.empty()) return show_workdir(options.workdir, work->get(), host);
  const UniqueFd empty =
      TRY(sys::new_mount("tmpfs", {{"size", "64k", false}, {"mode", "0755", false}}, kReadOnly & ~MOUNT_ATTR_RDONLY));
  TRY(chown_to_sandbox(empty.get(), host));
  return sys::attach_mount(empty.get(), work->get());
}

}  // namespace

Result<SandboxHost> build_sandbox_root(const SandboxOptions& options, const std::string& mount_point) {
  SandboxHost host;
  host.user_namespace = !sys::is_host_root();
  host.uid = host.user_namespace ? geteuid() : TRY(random_user());
  host.gid = host.user_namespace ? getegid() : host.uid;
  host.rootfs = mount_point + "/rootfs";
  TRY(enter_private_namespace());

  const UniqueFd target = TRY(sys::open(mount_point, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  const UniqueFd bundle =
      TRY(sys::new_mount("tmpfs", {{"size", "64m", false}, {"nr_inodes", "16k", false}, {"mode", "0755", false}},
                         MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV));
  TRY(sys::attach_mount(bundle.get(), target.get()));
  const UniqueFd root = TRY(make_directory(bundle.get(), "rootfs", 0755));
  if (options.rootfs.empty()) {
    TRY(build_host_root(options, root.get(), host));
  } else {
    TRY(show_given_root(options, root.get(), host));
  }
  return host;
}

Result<void> make_mount_points(const oci::Config& config, const SandboxHost& host) {
  const UniqueFd root = TRY(sys::open(host.rootfs, O_PATH | O_DIRECTORY));
  for (const oci::Mount& mount : config.mounts) {
    struct stat source {};
    sandbox::TargetOptions options;
    options.kind = mount.type == "bind" && stat(mount.source.c_str(), &source) == 0 && !S_ISDIR(source.st_mode)
                       ? sandbox::TargetKind::file
                       : sandbox::TargetKind::directory;
    const auto made = sandbox::open_target(root.get(), mount.destination, options);
    if (!made && made.error().code != EROFS) return made.error();
  }
  return ok();
}

}  // namespace agentrun::lifecycle
