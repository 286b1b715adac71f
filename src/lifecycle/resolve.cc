#include "lifecycle/resolve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.h"
#include "lifecycle/owner.h"
#include "sys/file.h"

namespace agentrun::lifecycle {
namespace {

constexpr std::string_view kPrefix = "org.agentrun.";
constexpr std::size_t kPolicySizeLimit = 1u << 20;
constexpr std::size_t kValueLimit = 64;      // bytes of a number
constexpr std::size_t kEnvKeepLimit = 4096;  // bytes of the list of names
constexpr std::size_t kVariableNameLimit = 128;

Error rejected(std::string_view annotation, std::string reason) {
  return refusal("annotation", std::string(annotation.substr(0, 128)), std::move(reason));
}

// In an engine's user namespace the host's root is one of all those ids that have no name there. Where only he makes
// files, it is he.
Result<bool> is_administrators(int file, uid_t owner) {
  constexpr uid_t kUnmapped = 65534;  // /proc/sys/kernel/overflowuid
  if (owner != kUnmapped || outer_uid(TRY(sys::read_file("/proc/self/uid_map")), owner) == owner) return false;
  const std::string real = TRY(sys::path_of(file));
  return text::path_within(real, "/etc") || text::path_within(real, "/usr");
}

// A file that somebody else can write to is somebody else's policy.
Result<std::string> read_policy_file(const std::string& path) {
  // O_NONBLOCK: a FIFO would hold us for ever.
  const UniqueFd file = TRY(sys::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  const struct stat status = TRY(sys::stat_fd(file.get(), path));
  if (!S_ISREG(status.st_mode)) return refusal("policy", path, "not a regular file");
  if (status.st_uid != 0 && status.st_uid != geteuid() && !TRY(is_administrators(file.get(), status.st_uid))) {
    return refusal("policy", path, "owned by uid " + std::to_string(status.st_uid));
  }
  if ((status.st_mode & 022) != 0) return refusal("policy", path, "others can write to it");
  return sys::read_fd(file.get(), path, kPolicySizeLimit);
}

Result<policy::Policy> base_policy(const std::string& wanted) {
  if (wanted.empty()) return policy::builtin_policy("strict");
  // Only what has a slash is a file: a name must never come to mean a file that lies in the working directory.
  if (wanted.find('/') != std::string::npos) {
    const std::string text = TRY(read_policy_file(wanted));
    return policy::parse_policy(text, wanted);
  }
  const auto names = policy::builtin_names();
  if (std::find(names.begin(), names.end(), wanted) == names.end()) {
    return refusal("policy", wanted,
                   "there is none of that name (" + text::join(names, ", ") + "); a file is named by a path with a /");
  }
  return policy::builtin_policy(wanted);
}

// Nothing but printable ASCII: a newline would end a line of a log, a NUL a string of C.
Result<void> check_text(std::string_view name, std::string_view value, std::size_t limit) {
  if (value.size() > limit) return rejected(name, "longer than " + std::to_string(limit) + " bytes");
  if (!std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~'; })) {
    return rejected(name, "control characters or bytes that are not ASCII");
  }
  return ok();
}

// `value` if it is at most what the policy has; a caller tightens and never loosens.
template <typename T>
Result<void> tighten(std::string_view name, std::optional<T>& bound, T value, const std::string& shown) {
  if (value <= 0) return rejected(name, "it has to be more than 0");
  if (bound && value > *bound) return rejected(name, "it would loosen the policy, which has " + shown);
  bound = value;
  return ok();
}

template <typename T>
Result<T> parsed(std::string_view name, Result<T> value) {
  if (!value) return rejected(name, value.error().message());
  return value;
}

Result<void> set_deadline(std::string_view name, const std::string& value, policy::Policy& policy) {
  const std::int64_t wanted = TRY(parsed(name, text::parse_duration(value)));
  auto& bound = policy.deadline.container;
  return tighten(name, bound, wanted, bound ? text::print_duration(*bound) : "");
}

Result<void> set_memory(std::string_view name, const std::string& value, policy::Policy& policy) {
  const std::int64_t wanted = TRY(parsed(name, text::parse_size(value)));
  auto& bound = policy.limits.memory;
  return tighten(name, bound, wanted, bound ? text::print_size(*bound) : "");
}

Result<void> set_cpus(std::string_view name, const std::string& value, policy::Policy& policy) {
  const std::int64_t wanted = TRY(parsed(name, text::parse_cpus(value)));
  auto& bound = policy.limits.cpus;
  return tighten(name, bound, wanted, bound ? std::to_string(*bound) + " thousandths of a CPU" : "");
}

Result<void> set_pids(std::string_view name, const std::string& value, policy::Policy& policy) {
  const auto wanted = text::parse_unsigned(value);
  if (!wanted || *wanted > INT32_MAX) return rejected(name, "expected a number");
  auto& bound = policy.limits.pids;
  return tighten(name, bound, static_cast<std::int64_t>(*wanted), bound ? std::to_string(*bound) : "");
}

bool variable_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && name.size() <= kVariableNameLimit && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

// Names, separated by commas or spaces; no globs: a caller's "*" would be no filter at all.
Result<void> keep_env(std::string_view annotation, const std::string& value, policy::Policy& policy) {
  std::string list = value;
  std::replace(list.begin(), list.end(), ',', ' ');
  for (const std::string_view name : text::split_words(list)) {
    if (!variable_name(name)) return rejected(annotation, "not a variable's name: " + std::string(name.substr(0, 64)));
    if (policy::looks_like_secret(name, policy.env)) {
      return rejected(annotation, std::string(name) + " looks like a secret, and those are never kept");
    }
    auto& keep = policy.env.keep;
    if (std::find(keep.begin(), keep.end(), name) == keep.end()) keep.emplace_back(name);
  }
  return ok();
}

struct Setting {
  std::string_view name;
  std::size_t limit;
  Result<void> (*apply)(std::string_view name, const std::string& value, policy::Policy& policy);
  bool tightens;
};

constexpr std::array kSettings = {
    Setting{"org.agentrun.deadline", kValueLimit, set_deadline, true},
    Setting{"org.agentrun.memory", kValueLimit, set_memory, true},
    Setting{"org.agentrun.cpus", kValueLimit, set_cpus, true},
    Setting{"org.agentrun.pids", kValueLimit, set_pids, true},
    Setting{"org.agentrun.env.keep", kEnvKeepLimit, keep_env, false},
};

}  // namespace

Result<policy::Policy> resolve_policy(const Global& global, const oci::Annotations& annotations) {
  policy::Policy policy = TRY(base_policy(global.policy));
  auto& writable = policy.mounts.allow_writable;
  writable.insert(writable.end(), global.writable_sources.begin(), global.writable_sources.end());
  auto& empty = policy.workdir.empty;
  empty.insert(empty.end(), global.writable_directories.begin(), global.writable_directories.end());
  for (const auto& [name, value] : annotations) {
    if (!name.starts_with(kPrefix)) continue;
    const auto setting =
        std::find_if(kSettings.begin(), kSettings.end(), [&](const Setting& known) { return known.name == name; });
    // Ignored, a misspelt "deadlines" would be a job without the limit that its owner believes in.
    if (setting == kSettings.end()) return rejected(name, "unknown annotation, or not for callers to set here");
    TRY(check_text(name, value, setting->limit));
    TRY(setting->apply(name, value, policy));
    // A caller who asks for a limit gets it, under the policy that has none of its own too.
    if (setting->tightens) policy.change_nothing = false;
  }
  return policy;
}

}  // namespace agentrun::lifecycle
