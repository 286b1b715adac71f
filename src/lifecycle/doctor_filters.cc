// doctor: seccomp, Landlock, AppArmor, SELinux.
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "lifecycle/doctor.h"
#include "lifecycle/seccomp_additions.h"
#include "policy/policy.h"
#include "sandbox/labels.h"
#include "sys/landlock.h"

namespace agentrun::lifecycle {
namespace {

bool has_action(std::uint32_t action) { return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0; }

Finding seccomp_finding() {
  Finding finding{"seccomp", Health::ok, "filters, agents", "", true};
  if (!has_action(SECCOMP_RET_KILL_PROCESS) || !has_action(SECCOMP_RET_ERRNO)) {
    finding.health = Health::missing;
    finding.detail = std::strerror(errno);
    finding.remedy = "a kernel with CONFIG_SECCOMP_FILTER; an outer sandbox may deny seccomp(2)";
  } else if (!has_action(SECCOMP_RET_USER_NOTIF)) {
    finding.health = Health::limited;
    finding.detail = "filters, no agents (SCMP_ACT_NOTIFY)";
    finding.remedy = "Linux 5.0 has them";
  }
  return finding;
}

Finding landlock_finding() {
  Finding finding{"landlock", Health::ok, "", "", false};
  const int abi = sys::landlock_abi();
  if (abi > 0) {
    finding.detail = "ABI " + std::to_string(abi);
    constexpr int kScopes = 6;
    if (abi >= kScopes) return finding;
    finding.health = Health::limited;
    finding.remedy = "Linux 6.12 has ABI 6, with scopes of signals and abstract sockets";
    return finding;
  }
  finding.health = Health::missing;
  finding.detail = std::strerror(errno);
  finding.remedy = errno == EOPNOTSUPP ? "boot with landlock in lsm=" : "a kernel with CONFIG_SECURITY_LANDLOCK";
  return finding;
}

Finding apparmor_finding() {
  Finding finding{"apparmor", Health::ok, "", "", false};
  const auto strict = policy::builtin_policy("strict");
  const std::string profile = strict ? strict->apparmor.profile : std::string();
  if (!sandbox::apparmor_enabled()) {
    finding.health = Health::missing;
    finding.detail = "the kernel does not enforce it";
    finding.remedy = "boot with apparmor in lsm=; hosts with SELinux do without";
  } else if (!sandbox::apparmor_profile_loaded(profile)) {
    finding.health = Health::limited;
    finding.detail = "the profile " + profile + " is not loaded";
    finding.remedy = "apparmor_parser -r /etc/apparmor.d/" + profile;
  } else {
    finding.detail = "the profile " + profile + " is loaded";
  }
  return finding;
}

Finding selinux_finding() {
  Finding finding{"selinux", Health::ok, "enabled: the label of the engine is kept", "", false};
  if (sandbox::selinux_enabled()) return finding;
  finding.health = Health::missing;
  finding.detail = "not enabled";
  finding.remedy = "hosts with AppArmor do without";
  return finding;
}

// Deny-only additions to the filter: what answers a bug of the kernel until it is mended.
Finding additions_finding() {
  Finding finding{"seccomp additions", Health::ok, "none", "", false};
  const auto additions = read_seccomp_additions();
  if (!additions) {
    finding.health = Health::missing;
    finding.detail = additions.error().message();
    finding.remedy = "every create fails until it is mended: agentrun-seccomp.d(5)";
    return finding;
  }
  std::vector<std::string> lines;
  for (const SeccompAddition& addition : *additions) {
    lines.push_back(addition.file + (addition.cve.empty() ? "" : " (" + addition.cve + ")") + ": " +
                    text::join(addition.syscalls, " "));
  }
  if (!lines.empty()) finding.detail = text::join(lines, "; ");
  return finding;
}

}  // namespace

std::vector<Finding> examine_filters() {
  return {seccomp_finding(), additions_finding(), landlock_finding(), apparmor_finding(), selinux_finding()};
}

}  // namespace agentrun::lifecycle
