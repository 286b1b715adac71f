#include "policy/harden.h"

#include <algorithm>

#include "policy/harden_parts.h"

namespace agentrun::policy {
namespace {

// Why a mechanism cannot be had; empty: it can. "namespaces" always can: one that cannot be made fails create.
std::string missing_mechanism(const std::string& name, const oci::Config& config, const Policy& policy,
                              const Facts& facts) {
  if (name == "cgroup.memory" && !facts.cgroup_memory) return "no memory controller can be had here";
  if (name == "cgroup.pids" && !facts.cgroup_pids) return "no pids controller can be had here";
  if (name == "cgroup.cpu" && !facts.cgroup_cpu) return "no cpu controller can be had here";
  if (name == "cgroup.io" && !facts.cgroup_io) return "no io controller can be had here";
  if (name == "cgroup.hugetlb" && !facts.cgroup_hugetlb) return "no hugetlb controller can be had here";
  if (name == "cgroup.kill" && !facts.cgroup_kill) return "no cgroup v2 tree is mounted here";
  if (name == "systemd" && !facts.systemd_scope) {
    return "the container is no scope of systemd: call with --systemd-cgroup, on a host that systemd runs";
  }
  if (name == "apparmor" && !facts.apparmor_loaded) return "the AppArmor profile is not loaded here";
  if (name == "landlock" && facts.landlock_abi < kLandlockFiles) {
    return facts.landlock_abi == 0 ? "the kernel has no Landlock, or it is off (lsm= of the kernel's command line)"
                                   : "the kernel's Landlock is too old: rename needs Linux 5.19";
  }
  if (name == "selinux" && !facts.selinux_enabled) return "SELinux is not enabled here";
  if (name == "selinux" && config.process && config.process->selinux_label.empty()) {
    return "the config has no SELinux label for the process";
  }
  if (name == "seccomp" && policy.seccomp.program.empty() && !config.linux.seccomp) {
    return "neither the policy nor the config has a seccomp program";
  }
  return {};
}

// What the policy cannot do without.
Result<void> check_requirements(const oci::Config& config, const Policy& policy, const Facts& facts) {
  for (const auto& requirement : policy.require) {
    std::string missing = missing_mechanism(requirement, config, policy, facts);
    if (missing.empty()) continue;
    if (requirement.starts_with("cgroup.") && !facts.as_root) {
      missing +=
          ": an ordinary user has what is delegated to him; where systemd has a manager for him (loginctl "
          "enable-linger), call with --systemd-cgroup";
    }
    return refusal("apply policy " + policy.name, "/require/" + requirement, missing);
  }
  return ok();
}

std::optional<std::int64_t> shorter(std::optional<std::int64_t> a, std::optional<std::int64_t> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

}  // namespace

Error refused(const Policy& policy, std::string pointer, std::string reason) {
  return refusal("apply policy " + policy.name, std::move(pointer), std::move(reason));
}

Result<Effective> harden(const oci::Config& config, const Policy& policy, const Facts& facts) {
  Effective effective;
  effective.config = config;
  effective.policy = policy.name;
  effective.report.policy = policy.name;
  if (policy.change_nothing) return effective;

  TRY(check_requirements(config, policy, facts));
  ChangeLog log(effective.report, policy.name);
  const Context context{policy, facts, log};
  oci::Config& result = effective.config;

  if (policy.rootfs.readonly) log.set(result.root.readonly, true, "/root/readonly", "/rootfs/readonly");
  if (result.process) TRY(harden_process(*result.process, nullptr, context));
  harden_namespaces(result, context);
  harden_resources(result.linux.resources, Missing::add, context);
  effective.sealed_last = TRY(harden_mounts(result, context));
  harden_linux(result, context);
  TRY(harden_userns(effective, context));
  harden_hooks(result.hooks, context);
  harden_annotations(result.annotations, context);

  effective.writable = TRY(plan_writable(result, context));
  effective.landlock = TRY(plan_landlock(result, effective.writable, context));
  effective.empty_network = policy.network.mode == NetworkMode::none;
  effective.seccomp_program = policy.seccomp.program;
  // A cpuset of the config is a mask already.
  const auto& resources = result.linux.resources;
  const bool has_cpuset = resources && resources->cpu && !resources->cpu->cpus.empty();
  if (policy.limits.cpu_mask && !has_cpuset) {
    effective.cpu_mask_width = shorter(quota_width(result), (*policy.limits.cpus + 999) / 1000);
  }
  effective.deadline = policy.deadline.container;
  effective.exec_deadline = shorter(policy.deadline.exec, policy.deadline.container);
  effective.created_deadline = policy.deadline.created;
  effective.audit = policy.audit.enable;
  return effective;
}

Result<oci::Process> harden_exec(const oci::Process& process, const oci::Config& container, const Policy& policy,
                                 Report& report) {
  report.policy = policy.name;
  oci::Process result = process;
  if (policy.change_nothing) return result;
  ChangeLog log(report, policy.name);
  const Facts facts;
  TRY(harden_process(result, &container, {policy, facts, log}));
  return result;
}

Result<oci::Resources> harden_update(const oci::Resources& resources, const Policy& policy, const Facts& facts,
                                     Report& report) {
  report.policy = policy.name;
  if (policy.change_nothing) return resources;
  ChangeLog log(report, policy.name);
  std::optional<oci::Resources> result = resources;
  harden_resources(result, Missing::leave, {policy, facts, log});
  return *std::move(result);
}

}  // namespace agentrun::policy
