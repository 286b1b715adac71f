#include "policy/harden.h"

#include <algorithm>

#include "policy/harden_parts.h"

namespace agentrun::policy {
namespace {

// What the policy cannot do without. "namespaces" is always had: a namespace that cannot be made fails create.
Result<void> check_requirements(const oci::Config& config, const Policy& policy, const Facts& facts) {
  for (const auto& requirement : policy.require) {
    std::string missing;
    if (requirement == "cgroup.memory" && !facts.cgroup_memory) missing = "no memory controller can be had here";
    if (requirement == "cgroup.pids" && !facts.cgroup_pids) missing = "no pids controller can be had here";
    if (requirement == "cgroup.cpu" && !facts.cgroup_cpu) missing = "no cpu controller can be had here";
    if (requirement == "cgroup.io" && !facts.cgroup_io) missing = "no io controller can be had here";
    if (!missing.empty() && !facts.as_root) {
      missing +=
          ": an ordinary user has what is delegated to him; where systemd has a manager for him (loginctl "
          "enable-linger), call with --systemd-cgroup";
    }
    if (requirement == "apparmor" && !facts.apparmor_loaded) missing = "the AppArmor profile is not loaded here";
    if (requirement == "seccomp" && policy.seccomp.program.empty() && !config.linux.seccomp) {
      missing = "neither the policy nor the config has a seccomp program";
    }
    if (!missing.empty()) return refusal("apply policy " + policy.name, "/require/" + requirement, missing);
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
  TRY(harden_mounts(result, context));
  harden_linux(result, context);
  harden_hooks(result.hooks, context);
  harden_annotations(result.annotations, context);

  effective.writable = TRY(plan_writable(result, context));
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
