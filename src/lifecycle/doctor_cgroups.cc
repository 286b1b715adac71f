// doctor: control groups, systemd, and who ends a container when its time is over.
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "base/unique_fd.h"
#include "lifecycle/doctor.h"
#include "lifecycle/facts.h"
#include "lifecycle/owner.h"
#include "sandbox/cgroup.h"
#include "sandbox/cgroup_layout.h"
#include "sandbox/cgroup_systemd.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

constexpr const char* kForUsers =
    "loginctl enable-linger, and --systemd-cgroup; or a directory of cgroup v2 that root gives to the user";

Finding layout_finding() {
  Finding finding{"cgroups", Health::ok, "", "", true};
  const auto layout = sandbox::find_layout();
  if (!layout) {
    finding.health = Health::missing;
    finding.detail = "none is mounted";
    finding.remedy = "mount -t cgroup2 none /sys/fs/cgroup";
    return finding;
  }
  if (layout->unified()) {
    finding.detail = "v2";
    return finding;
  }
  finding.health = Health::limited;
  finding.detail = layout->v2 ? "v1 with a v2 tree beside it" : "v1";
  finding.remedy =
      "boot with systemd.unified_cgroup_hierarchy=1: a kill of all at once, and exec in a cgroup of its own";
  return finding;
}

Finding controller(const char* name, bool is_there, bool needed) {
  Finding finding{std::string("cgroup.") + name, Health::ok, "can be had", "", needed};
  if (is_there) return finding;
  finding.health = needed ? Health::missing : Health::limited;
  finding.detail = "cannot be had";
  finding.remedy = sys::is_host_root() ? std::string("a kernel with that controller, not turned off by cgroup_disable=")
                                       : std::string(kForUsers);
  return finding;
}

Finding delegation(const sandbox::CgroupControllers& controllers) {
  Finding finding{"cgroup delegation", Health::ok, "root needs none", "", false};
  if (sys::is_host_root()) return finding;
  finding.detail = "to uid " + std::to_string(caller_uid());
  if (!controllers.memory && !controllers.pids) {
    finding.health = Health::missing;
    finding.detail = "nothing is delegated to uid " + std::to_string(caller_uid());
    finding.remedy = kForUsers;
  }
  return finding;
}

Finding systemd_finding() {
  Finding finding{"systemd", Health::ok, "scopes can be asked for", "", false};
  if (const auto found = sandbox::check_systemd(); !found) {
    finding.health = Health::limited;
    finding.detail = found.error().message();
    finding.remedy = "not needed: the cgroupfs manager makes cgroups itself, and the supervisor keeps the deadline";
  }
  return finding;
}

Finding deadline_finding(bool has_systemd) {
  Finding finding{"deadline", Health::ok, "", "", true};
  const UniqueFd timer(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC));
  if (!timer) {
    finding.health = Health::missing;
    finding.detail = std::string("timerfd of CLOCK_BOOTTIME: ") + std::strerror(errno);
    finding.remedy = "an outer sandbox denies it";
    return finding;
  }
  finding.detail = "a supervisor for each container";
  finding.detail +=
      has_systemd ? "; RuntimeMaxUSec of the scope, with --systemd-cgroup" : "; no second killer of systemd's";
  finding.detail += "; every call of agentrun ends what is overdue";
  return finding;
}

}  // namespace

std::vector<Finding> examine_cgroups(const Global& global) {
  std::vector<Finding> findings{layout_finding()};
  const auto manager = manager_for_caller(global.cgroup_manager);
  const auto found = sandbox::available_controllers(manager);
  const sandbox::CgroupControllers controllers = found ? *found : sandbox::CgroupControllers{};
  findings.push_back(controller("memory", controllers.memory, true));
  findings.push_back(controller("pids", controllers.pids, true));
  findings.push_back(controller("cpu", controllers.cpu, false));
  findings.push_back(controller("io", controllers.io, false));
  findings.push_back(controller("hugetlb", controllers.hugetlb, false));
  findings.push_back(delegation(controllers));
  findings.push_back(systemd_finding());
  findings.push_back(deadline_finding(findings.back().health == Health::ok));
  return findings;
}

}  // namespace agentrun::lifecycle
