#include "lifecycle/resolve.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.h"
#include "lifecycle/trusted_file.h"
#include "oci/json_reader.h"

namespace agentrun::lifecycle {
namespace {

constexpr std::string_view kPrefix = "org.agentrun.";
constexpr std::string_view kPolicyAnnotation = "org.agentrun.policy";
constexpr std::size_t kValueLimit = 64;      // bytes of a number or a name
constexpr std::size_t kEnvKeepLimit = 4096;  // bytes of the list of names
constexpr std::size_t kVariableNameLimit = 128;

Error rejected(std::string_view annotation, std::string reason) {
  std::string pointer = "/annotations";
  oci::append_pointer_token(pointer, annotation.substr(0, 128));
  return refusal("read config.json", std::move(pointer), std::move(reason));
}

// A name of a policy, or a file: only what has a slash is one, since a name must never come to mean a file that lies in
// the working directory.
Result<policy::Policy> policy_of_flag(const Global& global) {
  if (global.policy.find('/') == std::string::npos) return named_policy(global, global.policy);
  const std::string text = TRY(read_trusted_file("policy", global.policy, TrustedOwner::caller));
  return policy::parse_policy(text, global.policy, policy_finder(global));
}

// Nothing but printable ASCII: a newline would end a line of a log, a NUL a string of C.
Result<void> check_text(std::string_view name, std::string_view value, std::size_t limit) {
  if (value.size() > limit) return rejected(name, "longer than " + std::to_string(limit) + " bytes");
  if (!std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~'; })) {
    return rejected(name, "control characters or bytes that are not ASCII");
  }
  return ok();
}

// `value` if it is at most what the policy has, or what agentrun.json lets callers go up to.
template <typename T, typename Print>
Result<void> set_bound(std::string_view name, std::optional<T>& bound, T value, std::optional<T> allowed,
                       const Print& print) {
  if (value <= 0) return rejected(name, "it has to be more than 0");
  if (bound && value > *bound && !(allowed && value <= *allowed)) {
    std::string reason = "it would loosen the policy, which has " + print(*bound);
    if (allowed && *allowed > *bound) reason += "; callers may go up to " + print(*allowed);
    return rejected(name, std::move(reason));
  }
  bound = value;
  return ok();
}

template <typename T>
Result<T> parsed(std::string_view name, Result<T> value) {
  if (!value) return rejected(name, value.error().message());
  return value;
}

using policy::Loosening;

Result<void> set_deadline(std::string_view name, const std::string& value, const Loosening& may,
                          policy::Policy& policy) {
  const std::int64_t wanted = TRY(parsed(name, text::parse_duration(value)));
  auto& bound = policy.deadline.container;
  auto& exec = policy.deadline.exec;
  // An exec that had as long as its container has so still.
  const bool exec_follows = exec && bound && *exec >= *bound && wanted > *exec;
  TRY(set_bound(name, bound, wanted, may.deadline, text::print_duration));
  if (exec_follows) exec = wanted;
  return ok();
}

Result<void> set_memory(std::string_view name, const std::string& value, const Loosening& may, policy::Policy& policy) {
  const std::int64_t wanted = TRY(parsed(name, text::parse_size(value)));
  if (wanted < policy::kLeastMemory)
    return rejected(name, "below " + text::print_size(policy::kLeastMemory) + " no program starts");
  return set_bound(name, policy.limits.memory, wanted, may.memory, text::print_size);
}

std::string print_cpus(std::int64_t thousandths) { return std::to_string(thousandths) + " thousandths of a CPU"; }

Result<void> set_cpus(std::string_view name, const std::string& value, const Loosening& may, policy::Policy& policy) {
  const std::int64_t wanted = TRY(parsed(name, text::parse_cpus(value)));
  return set_bound(name, policy.limits.cpus, wanted, may.cpus, print_cpus);
}

Result<void> set_pids(std::string_view name, const std::string& value, const Loosening& may, policy::Policy& policy) {
  const auto wanted = text::parse_unsigned(value);
  if (!wanted || *wanted > INT32_MAX) return rejected(name, "expected a number");
  return set_bound(name, policy.limits.pids, static_cast<std::int64_t>(*wanted), may.pids,
                   [](std::int64_t pids) { return std::to_string(pids); });
}

Result<void> set_network(std::string_view name, const std::string& value, const Loosening& may,
                         policy::Policy& policy) {
  using policy::NetworkMode;
  auto& mode = policy.network.mode;
  if (value == "none") {
    mode = NetworkMode::none;
    return ok();
  }
  if (value != "config") return rejected(name, "expected \"none\" or \"config\"");
  if (mode == NetworkMode::none && !may.network) {
    return rejected(name, "it would loosen the policy, which has no network");
  }
  // Under the policy that has no opinion "config" is what happens already.
  mode = NetworkMode::config;
  return ok();
}

bool variable_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && name.size() <= kVariableNameLimit && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

// Names, separated by commas or spaces; no globs: a caller's "*" would be no filter at all.
Result<void> keep_env(std::string_view annotation, const std::string& value, const Loosening& may,
                      policy::Policy& policy) {
  std::string list = value;
  std::replace(list.begin(), list.end(), ',', ' ');
  for (const std::string_view name : text::split_words(list)) {
    if (!variable_name(name)) return rejected(annotation, "not a variable's name: " + std::string(name.substr(0, 64)));
    if (policy::looks_like_secret(name, policy.env)) {
      return rejected(annotation, std::string(name) + " looks like a secret, and those are never kept");
    }
    if (may.env_keep && std::none_of(may.env_keep->begin(), may.env_keep->end(),
                                     [&](const std::string& glob) { return text::glob_match(glob, name); })) {
      return rejected(annotation, std::string(name) + " is not among those that callers may keep here");
    }
    auto& keep = policy.env.keep;
    if (std::find(keep.begin(), keep.end(), name) == keep.end()) keep.emplace_back(name);
  }
  return ok();
}

struct Setting {
  std::string_view name;
  std::size_t limit;
  Result<void> (*apply)(std::string_view name, const std::string& value, const Loosening& may, policy::Policy& policy);
  bool tightens;
};

constexpr std::array kSettings = {
    Setting{"org.agentrun.deadline", kValueLimit, set_deadline, true},
    Setting{"org.agentrun.memory", kValueLimit, set_memory, true},
    Setting{"org.agentrun.cpus", kValueLimit, set_cpus, true},
    Setting{"org.agentrun.pids", kValueLimit, set_pids, true},
    Setting{"org.agentrun.network", kValueLimit, set_network, true},
    Setting{"org.agentrun.env.keep", kEnvKeepLimit, keep_env, false},
};

Result<void> apply_annotations(const oci::Annotations& annotations, const Loosening& may, policy::Policy& policy) {
  for (const auto& [name, value] : annotations) {
    if (!name.starts_with(kPrefix) || name == kPolicyAnnotation) continue;
    const auto setting =
        std::find_if(kSettings.begin(), kSettings.end(), [&](const Setting& known) { return known.name == name; });
    // Ignored, a misspelt "deadlines" would be a job without the limit that its owner believes in.
    if (setting == kSettings.end()) return rejected(name, "unknown annotation, or not for callers to set here");
    TRY(check_text(name, value, setting->limit));
    TRY(setting->apply(name, value, may, policy));
    // A caller who asks for a limit gets it, under the policy that has none of its own too.
    if (setting->tightens) policy.change_nothing = false;
  }
  return ok();
}

// First match: the flag, the annotation, the default of the root, the default of the host.
Result<policy::Policy> choose_policy(const Global& global, const policy::Settings& settings,
                                     const oci::Annotations& annotations) {
  const auto wanted = annotations.find(std::string(kPolicyAnnotation));
  if (wanted != annotations.end()) {
    TRY(check_text(kPolicyAnnotation, wanted->second, kValueLimit));
    if (!global.policy.empty()) {
      // Passed over in silence, it would be a container that its owner believes under another policy.
      if (wanted->second == global.policy) return policy_of_flag(global);
      return rejected(kPolicyAnnotation,
                      "the engine's own --policy " + global.policy + " holds for all its containers");
    }
    const auto& names = settings.selectable;
    if (std::find(names.begin(), names.end(), wanted->second) == names.end()) {
      const std::string shown = names.empty() ? "there is none" : text::join(names, ", ");
      return rejected(kPolicyAnnotation, "not a policy that callers may select here (" + shown + ")");
    }
    return named_policy(global, wanted->second);
  }
  if (!global.policy.empty()) return policy_of_flag(global);
  const std::string& of_root = root_settings(global, settings).default_policy;
  auto policy = named_policy(global, of_root.empty() ? settings.default_policy : of_root);
  if (policy) return policy;
  return refusal("read " + settings_path(global), of_root.empty() ? "/default" : "/roots", policy.error().message());
}

}  // namespace

Result<policy::Policy> resolve_policy(const Global& global, const policy::Settings& settings,
                                      const oci::Annotations& annotations) {
  policy::Policy policy = TRY(choose_policy(global, settings, annotations));
  auto& writable = policy.mounts.allow_writable;
  writable.insert(writable.end(), global.writable_sources.begin(), global.writable_sources.end());
  auto& empty = policy.workdir.empty;
  empty.insert(empty.end(), global.writable_directories.begin(), global.writable_directories.end());
  auto& hooks = policy.hooks.directories;
  hooks.insert(hooks.end(), settings.hook_directories.begin(), settings.hook_directories.end());
  if (is_pod_sandbox(global, settings, annotations)) policy.deadline = {};
  TRY(apply_annotations(annotations, settings.annotations, policy));
  return policy;
}

Result<policy::Policy> resolve_policy(const Global& global, const oci::Annotations& annotations) {
  return resolve_policy(global, TRY(load_settings(global)), annotations);
}

}  // namespace agentrun::lifecycle
