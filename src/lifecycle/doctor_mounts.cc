// doctor: what can be mounted and how, and the other backends' devices and programs.
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "base/text.h"
#include "lifecycle/doctor.h"
#include "sandbox/rootless.h"
#include "sys/file.h"
#include "sys/mount.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

int write_map(const std::string& process, const char* file, const std::string& map) {
  const auto written = sys::write_file("/proc/" + process + "/" + file, map);
  return written ? 0 : written.error().code;
}

// A mount namespace of our own that nothing leaves; for users below a user namespace, in which they are root.
int enter_own_mounts() {
  if (!sandbox::may_make_namespaces()) {
    const std::string uid = std::to_string(geteuid()), gid = std::to_string(getegid());
    if (unshare(CLONE_NEWUSER) != 0) return errno;
    if (const int code = write_map("self", "setgroups", "deny"); code != 0 && code != ENOENT) return code;
    if (const int code = write_map("self", "uid_map", "0 " + uid + " 1"); code != 0) return code;
    if (const int code = write_map("self", "gid_map", "0 " + gid + " 1"); code != 0) return code;
  }
  if (unshare(CLONE_NEWNS) != 0) return errno;
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ? errno : 0;
}

// A tmpfs over /tmp, in that namespace only, with the three directories of an overlay.
int enter_scratch() {
  if (const int code = enter_own_mounts(); code != 0) return code;
  if (mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") != 0) return errno;
  for (const char* directory : {"/tmp/lower", "/tmp/upper", "/tmp/work", "/tmp/merged"}) {
    if (mkdir(directory, 0700) != 0) return errno;
  }
  return 0;
}

int mount_overlay() {
  return mount("overlay", "/tmp/merged", "overlay", 0, "lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work") != 0
             ? errno
             : 0;
}

Finding tmpfs_finding() {
  Finding finding{"tmpfs", Health::ok, "can be mounted", "", true};
  if (const int code = try_in_child(enter_scratch); code != 0) {
    finding.health = Health::missing;
    finding.detail = std::strerror(code);
    finding.remedy = "an outer sandbox denies mounts";
  }
  return finding;
}

Finding overlay_finding() {
  const std::string where = sys::is_host_root() ? "" : " in a user namespace";
  Finding finding{"overlay", Health::ok, "can be mounted" + where, "", true};
  const int code = try_in_child([] {
    const int entered = enter_scratch();
    return entered != 0 ? entered : mount_overlay();
  });
  if (code == 0) return finding;
  finding.health = Health::missing;
  finding.detail = std::strerror(code) + where;
  finding.remedy = code == ENODEV ? "modprobe overlay" : "Linux 5.11 allows it to users; an outer sandbox may deny it";
  return finding;
}

struct Pipe {
  UniqueFd read, write;
};

Pipe new_pipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return {};
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// A user namespace whose ids are others. Its first process ends with this function; the fd keeps the namespace.
UniqueFd foreign_user_namespace() {
  Pipe made = new_pipe(), seen = new_pipe();
  if (!made.read || !seen.read) return UniqueFd();
  const auto pid = sys::fork_running([&] {
    char byte = unshare(CLONE_NEWUSER) == 0 ? 1 : 0;
    if (write(made.write.get(), &byte, 1) != 1) return 1;
    seen.write.reset();  // else our own end would keep the next line waiting
    return read(seen.read.get(), &byte, 1) == 0 ? 0 : 1;
  });
  if (!pid) return UniqueFd();
  made.write.reset();
  char is_made = 0;
  UniqueFd fd;
  const std::string process = std::to_string(*pid);
  if (read(made.read.get(), &is_made, 1) == 1 && is_made == 1 && write_map(process, "uid_map", "0 100000 65536") == 0 &&
      write_map(process, "gid_map", "0 100000 65536") == 0) {
    if (auto opened = sys::open("/proc/" + process + "/ns/user", O_RDONLY)) fd = std::move(*opened);
  }
  seen.write.reset();
  static_cast<void>(sys::wait_process(*pid));
  return fd;
}

int idmap(const char* path) {
  const UniqueFd users = foreign_user_namespace();
  if (!users) return EPERM;
  const auto clone = sys::clone_mount(AT_FDCWD, path, false);
  if (!clone) return clone.error().code;
  const auto mapped = sys::idmap_mount(clone->get(), users.get(), false);
  return mapped ? 0 : mapped.error().code;
}

Finding idmap_finding() {
  Finding finding{"idmapped mounts", Health::ok, "", "", false};
  if (!sys::is_host_root()) {
    finding.detail = "root alone can make them";
    return finding;
  }
  const int on_tmpfs = try_in_child([] {
    const int entered = enter_scratch();
    return entered != 0 ? entered : idmap("/tmp");
  });
  const int on_overlay = try_in_child([] {
    int code = enter_scratch();
    if (code == 0) code = mount_overlay();
    return code != 0 ? code : idmap("/tmp/merged");
  });
  const int on_root = try_in_child([] {
    const int entered = enter_own_mounts();
    return entered != 0 ? entered : idmap("/");
  });
  const auto verdict = [](int code) { return code == 0 ? std::string("yes") : std::string("no"); };
  finding.detail = "tmpfs " + verdict(on_tmpfs) + ", overlay " + verdict(on_overlay) + ", / " + verdict(on_root);
  if (on_tmpfs != 0) {
    finding.health = Health::limited;
    finding.remedy = "Linux 6.3 can idmap tmpfs";
  } else if (on_overlay != 0) {
    finding.health = Health::limited;
    finding.remedy = "no kernel idmaps an overlay: use the engine's own --userns=auto there";
  }
  return finding;
}

Finding kvm_finding() {
  Finding finding{"kvm", Health::ok, "/dev/kvm can be used", "", false};
  if (access("/dev/kvm", R_OK | W_OK) == 0) return finding;
  finding.health = Health::missing;
  finding.detail = std::string("/dev/kvm: ") + std::strerror(errno);
  finding.remedy = "containers do without; a virtual machine for each would need it";
  return finding;
}

Finding runsc_finding() {
  Finding finding{"runsc", Health::missing, "not in PATH", "containers do without; gvisor.dev has it", false};
  const char* path = std::getenv("PATH");
  for (const std::string_view directory : text::split(path == nullptr ? "" : path, ':')) {
    const std::string program = std::string(directory) + "/runsc";
    if (directory.empty() || access(program.c_str(), X_OK) != 0) continue;
    finding = {"runsc", Health::ok, program, "", false};
  }
  return finding;
}

}  // namespace

std::vector<Finding> examine_file_systems() {
  return {tmpfs_finding(), overlay_finding(), idmap_finding(), kvm_finding(), runsc_finding()};
}

}  // namespace agentrun::lifecycle
