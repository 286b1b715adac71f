// print_policy: every field written out, on top of the policy that has no opinion, so that reading it back gives the
// same policy whatever a later release's strict says. (A running container keeps the policy it was created under.)
#include <utility>
#include <vector>

#include "base/text.h"
#include "policy/change_log.h"
#include "policy/policy.h"

namespace agentrun::policy {
namespace {

using Members = std::vector<std::pair<std::string_view, std::string>>;

template <typename Number>
std::string bound(const std::optional<Number>& value) {
  return value ? json_text(*value) : json_text("none");
}

std::string duration(const std::optional<std::int64_t>& value) {
  return value ? json_text(text::print_duration(*value)) : json_text("none");
}

// Up to three digits after the point, as text.
std::string cpus(const std::optional<std::int64_t>& value) {
  if (!value) return json_text("none");
  const std::string thousandths = std::to_string(1000 + *value % 1000);
  return json_text(std::to_string(*value / 1000) + "." + thousandths.substr(1));
}

std::string name_or_none(const std::string& name) { return json_text(name.empty() ? "none" : name); }

const char* mode_name(NetworkMode mode) {
  switch (mode) {
    case NetworkMode::none:
      return "none";
    case NetworkMode::inherit:
      return "inherit";
    case NetworkMode::config:
      break;
  }
  return "config";
}

const char* userns_name(UserNamespace userns) { return userns == UserNamespace::automatic ? "auto" : "config"; }

std::string environment(const Env& env) {
  Members set;
  for (const auto& [name, value] : env.set) set.emplace_back(name, json_text(value));
  return json_object({{"filter", json_text(env.filter)},
                      {"keep", json_text(env.keep)},
                      {"secrets", json_text(env.secrets)},
                      {"set", json_object(set)}});
}

const char* backing_name(Backing backing) {
  switch (backing) {
    case Backing::disk:
      return "disk";
    case Backing::disk_or_memory:
      return "disk-or-memory";
    case Backing::memory:
      break;
  }
  return "memory";
}

std::string workdir(const Workdir& workdir) {
  return json_object({{"writable", json_text(workdir.writable)},
                      {"backing", json_text(backing_name(workdir.backing))},
                      {"directory", json_text(workdir.directory)},
                      {"size", bound(workdir.size)},
                      {"inodes", bound(workdir.inodes)},
                      {"empty", json_text(workdir.empty)},
                      {"home", json_text(workdir.home)},
                      {"cwd", json_text(workdir.cwd)},
                      {"never", json_text(workdir.never)}});
}

std::string mounts(const Mounts& mounts) {
  return json_object({{"restrict_binds", json_text(mounts.restrict_binds)},
                      {"refuse_sources", json_text(mounts.refuse_sources)},
                      {"allow_sources", json_text(mounts.allow_sources)},
                      {"allow_writable", json_text(mounts.allow_writable)},
                      {"refuse_special", json_text(mounts.refuse_special)},
                      {"force_readonly", json_text(mounts.force_readonly)},
                      {"force_nosuid", json_text(mounts.force_nosuid)},
                      {"force_nodev", json_text(mounts.force_nodev)},
                      {"restrict_types", json_text(mounts.restrict_types)}});
}

std::string ports(const std::optional<std::vector<std::uint16_t>>& ports) {
  if (!ports) return json_text("none");
  std::string list = "[";
  for (const std::uint16_t port : *ports) list += (list.size() > 1 ? "," : "") + json_text(port);
  return list + "]";
}

std::string landlock(const Landlock& landlock) {
  return json_object({{"files", json_text(landlock.files)},
                      {"scopes", json_text(landlock.scopes)},
                      {"exec", json_text(landlock.exec)},
                      {"tcp_connect", ports(landlock.tcp_connect)},
                      {"tcp_bind", ports(landlock.tcp_bind)}});
}

std::string limits(const Limits& limits) {
  return json_object({{"memory", bound(limits.memory)},
                      {"no_swap", json_text(limits.no_swap)},
                      {"cpus", cpus(limits.cpus)},
                      {"cpu_mask", json_text(limits.cpu_mask)},
                      {"pids", bound(limits.pids)},
                      {"nofile", bound(limits.nofile)},
                      {"fsize", bound(limits.fsize)},
                      {"core", bound(limits.core)},
                      {"io", json_object({{"read_bps", bound(limits.io.read_bps)},
                                          {"write_bps", bound(limits.io.write_bps)},
                                          {"read_iops", bound(limits.io.read_iops)},
                                          {"write_iops", bound(limits.io.write_iops)}})},
                      {"no_hugepages", json_text(limits.no_hugepages)},
                      {"normal_priority", json_text(limits.normal_priority)}});
}

}  // namespace

std::string print_policy(const Policy& policy) {
  if (policy.change_nothing) return json_object({{"change_nothing", json_text(true)}});
  const User& user = policy.user;
  return json_object(
      {{"extends", json_text("oci")},
       {"env", environment(policy.env)},
       {"rootfs", json_object({{"readonly", json_text(policy.rootfs.readonly)}})},
       {"workdir", workdir(policy.workdir)},
       {"mounts", mounts(policy.mounts)},
       {"network", json_object({{"mode", json_text(mode_name(policy.network.mode))}})},
       {"limits", limits(policy.limits)},
       {"deadline", json_object({{"container", duration(policy.deadline.container)},
                                 {"exec", duration(policy.deadline.exec)},
                                 {"created", duration(policy.deadline.created)}})},
       {"namespaces", json_object({{"private_all", json_text(policy.namespaces.private_all)}})},
       {"user", json_object({{"no_new_privileges", json_text(user.no_new_privileges)},
                             {"refuse_root_with_capabilities", json_text(user.refuse_root_with_capabilities)},
                             {"userns", json_text(userns_name(user.userns))}})},
       {"capabilities", json_object({{"restrict", json_text(policy.capabilities.restrict)},
                                     {"keep", json_text(policy.capabilities.keep)}})},
       {"seccomp", json_object({{"program", name_or_none(policy.seccomp.program)}})},
       {"apparmor", json_object({{"profile", name_or_none(policy.apparmor.profile)}})},
       {"landlock", landlock(policy.landlock)},
       {"devices", json_object({{"standard_only", json_text(policy.devices.standard_only)}})},
       {"sysctl", json_object({{"namespaced_only", json_text(policy.sysctl.namespaced_only)}})},
       {"hooks", json_object({{"refuse_config", json_text(policy.hooks.refuse_config)},
                              {"directories", json_text(policy.hooks.directories)}})},
       {"annotations", json_object({{"ignore_runtime", json_text(policy.annotations.ignore_runtime)}})},
       {"masks",
        json_object({{"masked", json_text(policy.masks.masked)}, {"readonly", json_text(policy.masks.readonly)}})},
       {"audit", json_object({{"enable", json_text(policy.audit.enable)}})},
       {"require", json_text(policy.require)}});
}

}  // namespace agentrun::policy
