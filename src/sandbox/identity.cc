#include "sandbox/identity.h"

#include <grp.h>
#include <sys/capability.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "sandbox/procfs.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

// -1 means "leave it as it is" to setresuid(2): a container of that uid would run as root.
constexpr std::uint32_t kNoId = ~std::uint32_t{0};

Result<void> check_id(const char* what, std::uint32_t id) {
  if (id == kNoId) return refusal(what, std::to_string(id), "the kernel has no such id");
  return ok();
}

// With CAP_SETGID in hand EPERM can only come from the namespace: /proc/self/setgroups says "deny".
bool holds_setgid() {
  const cap_t now = cap_get_proc();
  cap_flag_value_t value = CAP_CLEAR;
  const bool held = now != nullptr && cap_get_flag(now, CAP_SETGID, CAP_EFFECTIVE, &value) == 0 && value == CAP_SET;
  cap_free(now);
  return held;
}

Result<std::vector<gid_t>> groups_now() {
  const int count = getgroups(0, nullptr);
  if (count < 0) return errno_error("getgroups");
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  if (count > 0 && getgroups(count, groups.data()) != count) return errno_error("getgroups");
  std::sort(groups.begin(), groups.end());
  return groups;
}

Result<void> check_ids(const oci::User& user) {
  uid_t real = 0, effective = 0, saved = 0;
  if (getresuid(&real, &effective, &saved) != 0) return errno_error("getresuid");
  // setfsuid(-1) changes nothing and returns the present one.
  const auto fs_user = static_cast<uid_t>(setfsuid(kNoId));
  if (real != user.uid || effective != user.uid || saved != user.uid || fs_user != user.uid) {
    return refusal("set user", std::to_string(user.uid), "the kernel has another afterwards");
  }
  gid_t real_group = 0, effective_group = 0, saved_group = 0;
  if (getresgid(&real_group, &effective_group, &saved_group) != 0) return errno_error("getresgid");
  const auto fs_group = static_cast<gid_t>(setfsgid(kNoId));
  if (real_group != user.gid || effective_group != user.gid || saved_group != user.gid || fs_group != user.gid) {
    return refusal("set group", std::to_string(user.gid), "the kernel has another afterwards");
  }
  return ok();
}

using Resource = std::pair<std::string_view, __rlimit_resource>;
constexpr std::array<Resource, 16> kResources = {{{"RLIMIT_AS", RLIMIT_AS},
                                                  {"RLIMIT_CORE", RLIMIT_CORE},
                                                  {"RLIMIT_CPU", RLIMIT_CPU},
                                                  {"RLIMIT_DATA", RLIMIT_DATA},
                                                  {"RLIMIT_FSIZE", RLIMIT_FSIZE},
                                                  {"RLIMIT_LOCKS", RLIMIT_LOCKS},
                                                  {"RLIMIT_MEMLOCK", RLIMIT_MEMLOCK},
                                                  {"RLIMIT_MSGQUEUE", RLIMIT_MSGQUEUE},
                                                  {"RLIMIT_NICE", RLIMIT_NICE},
                                                  {"RLIMIT_NOFILE", RLIMIT_NOFILE},
                                                  {"RLIMIT_NPROC", RLIMIT_NPROC},
                                                  {"RLIMIT_RSS", RLIMIT_RSS},
                                                  {"RLIMIT_RTPRIO", RLIMIT_RTPRIO},
                                                  {"RLIMIT_RTTIME", RLIMIT_RTTIME},
                                                  {"RLIMIT_SIGPENDING", RLIMIT_SIGPENDING},
                                                  {"RLIMIT_STACK", RLIMIT_STACK}}};

}  // namespace

Result<void> set_groups(const oci::User& user) {
  std::vector<gid_t> wanted(user.additional_gids.begin(), user.additional_gids.end());
  for (const gid_t gid : wanted) TRY(check_id("group", gid));
  if (setgroups(wanted.size(), wanted.data()) != 0) {
    const int code = errno;
    std::sort(wanted.begin(), wanted.end());
    if (code == EPERM && TRY(groups_now()) == wanted) return ok();
    if (code != EPERM || !holds_setgid()) return os_error(code, "setgroups");
    if (wanted.empty()) return ok();
    return refusal("setgroups", {}, "additional groups, and this user namespace denies setgroups");
  }
  std::sort(wanted.begin(), wanted.end());
  if (TRY(groups_now()) != wanted) return refusal("setgroups", {}, "the kernel has others afterwards");
  return ok();
}

Result<void> set_user(const oci::User& user) {
  TRY(check_id("group", user.gid));
  TRY(check_id("user", user.uid));
  if (setresgid(user.gid, user.gid, user.gid) != 0) return errno_error("set group", std::to_string(user.gid));
  if (setresuid(user.uid, user.uid, user.uid) != 0) return errno_error("set user", std::to_string(user.uid));
  return check_ids(user);
}

void set_umask(const oci::User& user) { umask(static_cast<mode_t>(user.umask.value_or(0022) & 0777)); }

Result<void> set_rlimits(const std::vector<oci::Rlimit>& limits) {
  std::set<std::string_view> seen;
  for (const oci::Rlimit& limit : limits) {
    const auto resource = std::find_if(kResources.begin(), kResources.end(),
                                       [&](const Resource& candidate) { return candidate.first == limit.type; });
    if (resource == kResources.end()) return refusal("rlimit", limit.type, "unknown");
    if (!seen.insert(limit.type).second) return refusal("rlimit", limit.type, "is there twice");
    const struct rlimit value { limit.soft, limit.hard };
    if (setrlimit(resource->second, &value) != 0) return errno_error("set rlimit", limit.type);
  }
  return ok();
}

void raise_hard_limits(pid_t pid, const std::vector<oci::Rlimit>& limits) {
  for (const oci::Rlimit& limit : limits) {
    const auto resource = std::find_if(kResources.begin(), kResources.end(),
                                       [&](const Resource& candidate) { return candidate.first == limit.type; });
    struct rlimit now {};
    if (resource == kResources.end() || prlimit(pid, resource->second, nullptr, &now) != 0) continue;
    if (limit.hard <= now.rlim_max) continue;
    now.rlim_max = limit.hard;
    static_cast<void>(prlimit(pid, resource->second, &now, nullptr));
  }
}

Result<void> set_oom_score_adj(int value, pid_t pid) {
  const std::string path = "/proc/" + (pid == 0 ? "self" : std::to_string(pid)) + "/oom_score_adj";
  const UniqueFd fd = TRY(sys::open(path, O_RDWR | O_NOFOLLOW));
  TRY(check_procfs(fd.get(), path));
  auto written = sys::write_all(fd.get(), std::to_string(value), path);
  if (written || written.error().code != EACCES) return written;
  // Without CAP_SYS_RESOURCE over the initial user namespace it goes up only (proc_pid_oom_score_adj(5)).
  return refusal("set oom_score_adj", std::to_string(value),
                 "an ordinary user cannot lower it: it is " + std::string(text::trim(TRY(sys::read_file(path)))));
}

}  // namespace agentrun::sandbox
