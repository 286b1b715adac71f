#include <algorithm>
#include <array>
#include <limits>

#include "base/text.h"
#include "policy/harden_parts.h"

namespace agentrun::policy {
namespace {

// The rule of an exec, beside the policy's own: never more than the container was made with.
constexpr const char* kContainerOwn = "exec: the container's own";

// --- environment ---

std::string_view variable_name(std::string_view entry) { return entry.substr(0, entry.find('=')); }

// A name that looks like a secret needs an entry of its own: a glob of the administrator ("APP_*") was not meant for
// it.
bool keeps_variable(const Env& env, std::string_view entry) {
  const std::string_view name = variable_name(entry);
  if (name.empty() || name.size() == entry.size()) return false;
  if (env.set.contains(std::string(name))) return true;
  const bool secret = looks_like_secret(name, env);
  return std::any_of(env.keep.begin(), env.keep.end(), [&](const std::string& glob) {
    return glob == name || (!secret && text::glob_match(glob, name));
  });
}

// The report has names only: values may be what the filter is there to keep out.
void harden_environment(std::vector<std::string>& env, const Context& context) {
  const Env& policy = context.policy.env;
  std::vector<std::string> kept;
  std::vector<std::string_view> seen;
  for (std::size_t i = 0; i < env.size(); ++i) {
    const std::string name(variable_name(env[i]));
    const std::string pointer = "/process/env/" + std::to_string(i);
    if (policy.filter && !keeps_variable(policy, env[i])) {
      context.log.changed(pointer, json_text(name), "", "/env/filter");
      continue;
    }
    if (const auto set = policy.set.find(name); set != policy.set.end()) {
      seen.push_back(set->first);
      std::string entry = name + "=" + set->second;
      if (env[i] != entry) {
        context.log.changed(pointer, json_text(name), json_text(name), "/env/set");
        env[i] = std::move(entry);
      }
    }
    kept.push_back(std::move(env[i]));
  }
  for (const auto& [name, value] : policy.set) {
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
    kept.push_back(name + "=" + value);
    context.log.changed("/process/env/-", "", json_text(name), "/env/set");
  }
  env = std::move(kept);
}

// --- capabilities ---

using CapabilitySet = std::vector<std::string> oci::Capabilities::*;
constexpr std::array<std::pair<const char*, CapabilitySet>, 5> kSets = {{
    {"bounding", &oci::Capabilities::bounding},
    {"effective", &oci::Capabilities::effective},
    {"inheritable", &oci::Capabilities::inheritable},
    {"permitted", &oci::Capabilities::permitted},
    {"ambient", &oci::Capabilities::ambient},
}};

void cut_capabilities(std::optional<oci::Capabilities>& capabilities, const std::vector<std::string>& keep,
                      std::string_view rule, ChangeLog& log) {
  if (!capabilities) {
    // A config without the object leaves the sets as root has them: all.
    capabilities.emplace();
    std::vector<std::pair<std::string_view, std::string>> members;
    for (const auto& [name, set] : kSets) members.emplace_back(name, "[]");
    log.changed("/process/capabilities", "", json_object(members), rule);
    return;
  }
  for (const auto& [name, set] : kSets) {
    std::vector<std::string> cut;
    for (const auto& capability : *capabilities.*set) {
      if (std::find(keep.begin(), keep.end(), capability) != keep.end()) cut.push_back(capability);
    }
    log.set(*capabilities.*set, std::move(cut), std::string("/process/capabilities/") + name, rule);
  }
}

Result<void> harden_capabilities(oci::Process& process, const oci::Config* container, const Context& context) {
  const Policy& policy = context.policy;
  if (policy.capabilities.restrict) {
    cut_capabilities(process.capabilities, policy.capabilities.keep, "/capabilities/restrict", context.log);
  }
  // An exec as `--privileged` has more than the container was made with.
  if (container != nullptr && container->process && container->process->capabilities) {
    cut_capabilities(process.capabilities, container->process->capabilities->bounding, kContainerOwn, context.log);
  }
  if (policy.user.refuse_root_with_capabilities && process.user.uid == 0) {
    const bool any = !process.capabilities || std::any_of(kSets.begin(), kSets.end(), [&](const auto& set) {
      return !((*process.capabilities).*set.second).empty();
    });
    if (any) {
      return refused(policy, "/process/user/uid",
                     "root may not have capabilities: see /user/refuse_root_with_capabilities");
    }
  }
  return ok();
}

// --- resource limits ---

struct Bound {
  std::string type;
  std::uint64_t hard, soft;
  const char* rule;
};

std::vector<Bound> rlimit_bounds(const Limits& limits, const oci::Config* container) {
  std::vector<Bound> bounds;
  const auto add = [&](const char* type, std::optional<std::uint64_t> value, const char* rule) {
    if (value) bounds.push_back({type, *value, *value, rule});
  };
  add("RLIMIT_NOFILE", limits.nofile, "/limits/nofile");
  add("RLIMIT_FSIZE", limits.fsize, "/limits/fsize");
  add("RLIMIT_CORE", limits.core, "/limits/core");
  if (limits.normal_priority) {
    // A real-time thread is outside of the CPU quota.
    add("RLIMIT_RTPRIO", 0, "/limits/normal_priority");
    add("RLIMIT_NICE", 0, "/limits/normal_priority");
  }
  if (container != nullptr && container->process) {
    for (const auto& limit : container->process->rlimits) {
      const auto bound =
          std::find_if(bounds.begin(), bounds.end(), [&](const Bound& b) { return b.type == limit.type; });
      if (bound == bounds.end()) {
        bounds.push_back({limit.type, limit.hard, limit.soft, kContainerOwn});
      } else {
        bound->hard = std::min(bound->hard, limit.hard);
        bound->soft = std::min(bound->soft, limit.soft);
      }
    }
  }
  return bounds;
}

// A limit that is missing is inherited from the engine, which has millions of files: it is added.
void harden_rlimits(std::vector<oci::Rlimit>& limits, const std::vector<Bound>& bounds, ChangeLog& log) {
  for (const auto& bound : bounds) {
    bool found = false;
    for (std::size_t i = 0; i < limits.size(); ++i) {
      if (limits[i].type != bound.type) continue;
      found = true;
      const std::string pointer = "/process/rlimits/" + std::to_string(i);
      log.set(limits[i].hard, std::min(limits[i].hard, bound.hard), pointer + "/hard", bound.rule);
      log.set(limits[i].soft, std::min({limits[i].soft, bound.soft, limits[i].hard}), pointer + "/soft", bound.rule);
    }
    if (found) continue;
    limits.push_back({bound.type, bound.hard, std::min(bound.soft, bound.hard)});
    const auto& added = limits.back();
    log.changed(
        "/process/rlimits/-", "",
        json_object(
            {{"type", json_text(added.type)}, {"hard", json_text(added.hard)}, {"soft", json_text(added.soft)}}),
        bound.rule);
  }
}

// --- priorities ---

void harden_priorities(oci::Process& process, ChangeLog& log) {
  constexpr std::string_view kRule = "/limits/normal_priority";
  if (process.oom_score_adj && *process.oom_score_adj < 0) {
    log.set(process.oom_score_adj, std::optional<std::int32_t>(0), "/process/oomScoreAdj", kRule);
  }
  if (process.scheduler) {
    auto& scheduler = *process.scheduler;
    constexpr std::array<std::string_view, 3> kNormal = {"SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE"};
    if (std::find(kNormal.begin(), kNormal.end(), scheduler.policy) == kNormal.end()) {
      log.changed("/process/scheduler", json_object({{"policy", json_text(scheduler.policy)}}), "", kRule);
      process.scheduler.reset();
    } else {
      log.set(scheduler.nice, std::max(scheduler.nice, 0), "/process/scheduler/nice", kRule);
    }
  }
  if (process.io_priority) {
    auto& priority = *process.io_priority;
    constexpr std::int32_t kNormal = 4;  // of "best effort", where a process starts (ioprio_set(2))
    if (priority.io_class == "IOPRIO_CLASS_BE") {
      log.set(priority.priority, std::max(priority.priority, kNormal), "/process/ioPriority/priority", kRule);
    } else if (priority.io_class != "IOPRIO_CLASS_IDLE") {
      log.changed("/process/ioPriority", json_object({{"class", json_text(priority.io_class)}}), "", kRule);
      process.io_priority.reset();
    }
  }
}

// --- labels ---

constexpr std::string_view kStack = "//&";

bool stack_has(std::string_view stack, std::string_view profile) {
  while (true) {
    const auto end = stack.find(kStack);
    if (stack.substr(0, end) == profile) return true;
    if (end == std::string_view::npos) return false;
    stack.remove_prefix(end + kStack.size());
  }
}

// A task under a stack is under every profile in it. "unconfined" adds nothing.
std::string stacked(const std::string& theirs, const std::string& ours) {
  if (theirs.empty() || theirs == "unconfined") return ours;
  if (ours.empty() || stack_has(theirs, ours)) return theirs;
  return theirs + std::string(kStack) + ours;
}

std::string with_policy_profile(const std::string& theirs, const Apparmor& ours) {
  if (theirs.empty() || theirs == "unconfined") return ours.profile;
  return stack_has(theirs, ours.profile) ? theirs : stacked(theirs, ours.stacked());
}

void harden_labels(oci::Process& process, const oci::Config* container, const Context& context) {
  const Apparmor& ours = context.policy.apparmor;
  if (container != nullptr && container->process) {
    const auto& own = *container->process;
    // Every part of the container's stack, and what the caller asks on top.
    std::string profile = process.apparmor_profile;
    std::string_view rest = own.apparmor_profile;
    while (!rest.empty()) {
      const auto end = rest.find(kStack);
      profile = stacked(profile, std::string(rest.substr(0, end)));
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + kStack.size());
    }
    context.log.set(process.apparmor_profile, std::move(profile), "/process/apparmorProfile", kContainerOwn);
    if (!own.selinux_label.empty()) {
      context.log.set(process.selinux_label, own.selinux_label, "/process/selinuxLabel", kContainerOwn);
    }
    return;
  }
  if (ours.profile.empty()) return;
  if (!context.facts.apparmor_loaded) {
    context.log.note("AppArmor profile " + ours.profile +
                     " is not loaded here: " + context.log.rule_name("/apparmor/profile") + " has no effect");
    return;
  }
  context.log.set(process.apparmor_profile, with_policy_profile(process.apparmor_profile, ours),
                  "/process/apparmorProfile", "/apparmor/profile");
}

}  // namespace

Result<void> harden_process(oci::Process& process, const oci::Config* container, const Context& context) {
  const Policy& policy = context.policy;
  if (policy.env.filter || !policy.env.set.empty()) harden_environment(process.env, context);
  TRY(harden_capabilities(process, container, context));
  const bool container_has_it = container != nullptr && container->process && container->process->no_new_privileges;
  if (policy.user.no_new_privileges || container_has_it) {
    context.log.set(process.no_new_privileges, true, "/process/noNewPrivileges", "/user/no_new_privileges");
  }
  harden_rlimits(process.rlimits, rlimit_bounds(policy.limits, container), context.log);
  if (policy.limits.normal_priority) harden_priorities(process, context.log);
  if (container != nullptr && container->process && container->process->oom_score_adj) {
    const std::int32_t own = *container->process->oom_score_adj;
    const std::int32_t asked = process.oom_score_adj.value_or(own);
    context.log.set(process.oom_score_adj, std::optional(std::max(asked, own)), "/process/oomScoreAdj", kContainerOwn);
  }
  harden_labels(process, container, context);
  return ok();
}

}  // namespace agentrun::policy
