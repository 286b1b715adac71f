// doctor: the kernel's own calls, namespaces and ids.
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "lifecycle/doctor.h"
#include "lifecycle/owner.h"
#include "sandbox/rootless.h"
#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

constexpr std::uint64_t kOldestMajor = 5, kOldestMinor = 14;

Finding kernel_version() {
  Finding finding{"kernel", Health::ok, "", "", true};
  struct utsname name {};
  if (uname(&name) != 0) return finding;
  finding.detail = std::string("Linux ") + name.release;
  const auto parts = text::split(name.release, '.');
  const auto major = text::parse_unsigned(parts[0]);
  const auto minor = parts.size() > 1 ? text::parse_unsigned(parts[1].substr(0, parts[1].find('-'))) : std::nullopt;
  const bool is_old = major && minor && (*major < kOldestMajor || (*major == kOldestMajor && *minor < kOldestMinor));
  if (is_old) {
    finding.health = Health::missing;
    finding.remedy = "Linux 5.14 or newer is needed";
  }
  return finding;
}

// Each with arguments that no kernel accepts: one that knows the call says anything but ENOSYS. What an outer sandbox
// denies (EPERM) is as good as not there.
Finding system_calls() {
  Finding finding{"system calls", Health::ok, "", "", true};
  struct Call {
    const char* name;
    long number;
  };
  constexpr Call kCalls[] = {{"openat2", SYS_openat2},
                             {"fsopen", SYS_fsopen},
                             {"move_mount", SYS_move_mount},
                             {"open_tree", SYS_open_tree},
                             {"mount_setattr", SYS_mount_setattr},
                             {"clone3", SYS_clone3},
                             {"pidfd_open", SYS_pidfd_open},
                             {"pidfd_send_signal", SYS_pidfd_send_signal},
                             {"close_range", SYS_close_range}};
  std::string present, absent;
  for (const Call& call : kCalls) {
    // Not to be tried in this process: close_range(-1, -1) would be valid.
    const int code = try_in_child([&call] { return syscall(call.number, -1, nullptr, -1, -1, 0) < 0 ? errno : 0; });
    const bool is_mount_call = std::strstr(call.name, "mount") != nullptr || call.number == SYS_fsopen;
    const bool is_denied = code == EPERM && (!is_mount_call || sys::is_host_root());
    std::string& list = code == ENOSYS || is_denied ? absent : present;
    list += (list.empty() ? "" : " ") + std::string(call.name);
  }
  finding.detail = present;
  if (!absent.empty()) {
    finding.health = Health::missing;
    finding.remedy = "not to be had here: " + absent + "; the kernel is too old, or an outer sandbox denies them";
  }
  return finding;
}

Finding namespaces() {
  Finding finding{"namespaces", Health::ok, "mount pid ipc uts cgroup network", "", true};
  const int flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWNET;
  const bool needs_user = !sandbox::may_make_namespaces();
  const int code = try_in_child([=] {
    if (needs_user && unshare(CLONE_NEWUSER) != 0) return errno;
    return unshare(flags) != 0 ? errno : 0;
  });
  if (code == 0) return finding;
  finding.health = Health::missing;
  finding.detail = std::strerror(code);
  finding.remedy = "an outer sandbox denies them, or /proc/sys/user/max_*_namespaces is used up";
  return finding;
}

bool is_zero(const char* path) {
  const auto content = sys::read_file(path);
  return content && text::trim(*content) == "0";
}

bool is_one(const char* path) {
  const auto content = sys::read_file(path);
  return content && text::trim(*content) == "1";
}

Finding user_namespaces() {
  Finding finding{"user namespaces", Health::ok, "can be made", "", !sys::is_host_root()};
  const int code = try_in_child([] {
    if (unshare(CLONE_NEWUSER) != 0) return errno;
    // AppArmor's restriction lets the namespace be made and takes its capabilities away.
    return unshare(CLONE_NEWUTS) != 0 ? errno : 0;
  });
  if (code == 0) return finding;
  finding.health = Health::missing;
  finding.detail = std::strerror(code);
  if (is_zero("/proc/sys/user/max_user_namespaces")) {
    finding.remedy = "sysctl user.max_user_namespaces=15000";
  } else if (is_zero("/proc/sys/kernel/unprivileged_userns_clone")) {
    finding.remedy = "sysctl kernel.unprivileged_userns_clone=1";
  } else if (is_one("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")) {
    finding.remedy = "AppArmor restricts them to programs with a profile: load one for agentrun that has \"userns,\"";
  } else {
    finding.remedy = "an outer sandbox denies them";
  }
  return finding;
}

bool is_in_path(const char* program) {
  const char* path = std::getenv("PATH");
  for (const std::string_view directory : text::split(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    if (!directory.empty() && access((std::string(directory) + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

// The name by which /etc/subuid may know the caller.
std::string login_name(uid_t uid) {
  const auto passwd = sys::read_file("/etc/passwd");
  if (!passwd) return {};
  for (const std::string_view line : text::split(*passwd, '\n')) {
    const auto fields = text::split(line, ':');
    if (fields.size() > 2 && text::parse_unsigned(fields[2]) == uid) return std::string(fields[0]);
  }
  return {};
}

Finding subordinate_ids() {
  Finding finding{"subordinate ids", Health::ok, "", "", false};
  const uid_t uid = caller_uid();
  const auto table = sys::read_file("/etc/subuid");
  const auto ranges =
      table ? sandbox::subordinate_ranges(*table, login_name(uid), uid) : std::vector<sandbox::IdRange>();
  std::uint64_t count = 0;
  for (const sandbox::IdRange& range : ranges) count += range.count;
  finding.detail = std::to_string(count) + " in /etc/subuid for uid " + std::to_string(uid);
  const bool has_tools = is_in_path("newuidmap") && is_in_path("newgidmap");
  if (!has_tools) finding.detail += ", no newuidmap(1)";
  if (sys::is_host_root()) {
    finding.detail += "; root does not need them";
  } else if (count == 0 || !has_tools) {
    finding.health = Health::limited;
    finding.remedy = "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 NAME, and the package uidmap";
  }
  return finding;
}

}  // namespace

std::vector<Finding> examine_kernel() {
  return {kernel_version(), system_calls(), namespaces(), user_namespaces(), subordinate_ids()};
}

}  // namespace agentrun::lifecycle
