#include "policy/policy.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/text.h"
#include "oci/json_reader.h"

namespace agentrun::policy {
namespace {

using oci::JsonReader;

constexpr std::size_t kSizeLimit = 1u << 20;  // bytes of a policy file
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

// What takes a bound away that the policy extended from has.
constexpr std::string_view kNone = "none";

// --- values: a text with a unit, or a number where the unit is clear ---

// The two ways to write a bound are told apart by type, so the error of the text is the one to show for a text.
template <typename Parse>
Result<std::optional<std::int64_t>> read_bound(const JsonReader& in, std::int64_t minimum, const Parse& parse,
                                               std::int64_t per_unit) {
  std::int64_t value = 0;
  if (const auto text = in.string(); text.has_value()) {
    if (*text == kNone) return std::optional<std::int64_t>();
    const auto parsed = parse(*text);
    if (parsed.has_error()) return in.error(parsed.error().reason + ", or \"none\"");
    value = *parsed;
  } else {
    if (per_unit == 0) return in.error("expected a text like \"10m\", or \"none\"");
    value = TRY(in.signed_integer(0, kLargest / per_unit)) * per_unit;
  }
  if (value < minimum) return in.error("too small");
  return std::optional<std::int64_t>(value);
}

struct Size {
  std::optional<std::int64_t>& value;
  std::int64_t minimum;
};
Result<void> from_json(const JsonReader& in, Size& out) {
  out.value = TRY(read_bound(in, out.minimum, text::parse_size, 1));
  return ok();
}

struct UnsignedSize {
  std::optional<std::uint64_t>& value;
  std::int64_t minimum;
};
Result<void> from_json(const JsonReader& in, UnsignedSize& out) {
  const auto size = TRY(read_bound(in, out.minimum, text::parse_size, 1));
  out.value = size ? std::optional(static_cast<std::uint64_t>(*size)) : std::nullopt;
  return ok();
}

struct Count {
  std::optional<std::int64_t>& value;
  std::int64_t maximum;
};
Result<void> from_json(const JsonReader& in, Count& out) {
  const auto parse = [](std::string_view text) -> Result<std::int64_t> {
    return refusal("parse number", std::string(text), "expected a number");
  };
  out.value = TRY(read_bound(in, 1, parse, 1));
  if (out.value && *out.value > out.maximum) return in.error("too large");
  return ok();
}

struct Cpus {
  std::optional<std::int64_t>& value;
};
Result<void> from_json(const JsonReader& in, Cpus& out) {
  // At least a hundredth: below the kernel's smallest quota (1 ms of 100 ms) nothing can be set.
  out.value = TRY(read_bound(in, 10, text::parse_cpus, 1000));
  constexpr std::int64_t kMost = 1'000'000 * 1000LL;
  if (out.value && *out.value > kMost) return in.error("too large");
  return ok();
}

struct Duration {
  std::optional<std::int64_t>& value;
};
Result<void> from_json(const JsonReader& in, Duration& out) {
  out.value = TRY(read_bound(in, 1, text::parse_duration, 0));
  // A deadline is added to a clock: ten years leave room.
  constexpr std::int64_t kMost = 10LL * 365 * 86'400 * 1'000'000;
  if (out.value && *out.value > kMost) return in.error("more than ten years: say \"none\"");
  return ok();
}

// --- lists: an array replaces what was inherited, {"add": [...]} adds to it ---

using Check = std::string (*)(const std::string&);

struct List {
  std::vector<std::string>& value;
  Check check;
};
Result<void> from_json(const JsonReader& in, List& out) {
  if (in.array_size().has_value()) return oci::from_json_checked(in, out.value, out.check);
  if (in.object_size().has_error()) return in.error("expected an array, or {\"add\": an array}");
  std::vector<std::string> more;
  TRY(in.require("add", more, out.check));
  for (auto& entry : more) {
    if (std::find(out.value.begin(), out.value.end(), entry) == out.value.end()) out.value.push_back(std::move(entry));
  }
  return ok();
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

std::string check_variable(const std::string& name) {
  if (name.empty()) return "expected a name";
  if (name.find('=') != std::string::npos || has_control(name))
    return "a name of a variable has no '=' or control character";
  return {};
}

std::string check_path(const std::string& path) {
  if (path.empty() || path.front() != '/') return "expected an absolute path";
  if (has_control(path)) return "a path with a control character";
  if (path != text::clean_path(path)) return "expected a path without \".\", \"..\", \"//\" and a final \"/\"";
  return {};
}

std::string check_capability(const std::string& name) {
  constexpr std::string_view kPrefix = "CAP_";
  const auto known = [](char c) { return (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9'); };
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size() || !std::all_of(name.begin(), name.end(), known)) {
    return "expected a capability like \"CAP_NET_BIND_SERVICE\"";
  }
  return {};
}

constexpr std::array<std::string_view, 7> kRequirements = {
    "seccomp", "namespaces", "apparmor", "cgroup.memory", "cgroup.pids", "cgroup.cpu", "cgroup.io"};

std::string check_requirement(const std::string& name) {
  if (std::find(kRequirements.begin(), kRequirements.end(), name) != kRequirements.end()) return {};
  std::string reason = "expected one of";
  for (const auto known : kRequirements) reason.append(" ").append(known);
  return reason;
}

// A name of a profile goes into a kernel file as it is: "&" would stack, a space would end it.
std::string check_label(const std::string& name) {
  const auto bad = [](char c) { return c == ' ' || c == '&' || static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  return std::any_of(name.begin(), name.end(), bad) ? "expected a name of a profile" : std::string();
}

std::string check_program(const std::string& name) {
  if (name.empty() || name == kNone || name == "strict") return {};
  return "expected \"strict\" or \"none\"";
}

std::string check_value(const std::string& value) {
  return value.find('\0') == std::string::npos ? std::string() : "a value with a NUL character";
}

Result<void> read_list(const JsonReader& in, std::string_view key, std::vector<std::string>& value, Check check) {
  List list{value, check};
  return in.read(key, list);
}

// A name, or "none" for the empty one.
Result<void> read_name(const JsonReader& in, std::string_view key, std::string& value, Check check) {
  TRY(in.read(key, value, check));
  if (value == kNone) value.clear();
  return ok();
}

}  // namespace

// --- sections: one function each, one line a key; declared in the namespace because the reader finds them by argument
// ---

static Result<void> from_json(const JsonReader& in, Env& out) {
  TRY(in.read("filter", out.filter));
  TRY(read_list(in, "keep", out.keep, check_variable));
  TRY(read_list(in, "secrets", out.secrets, check_variable));
  std::map<std::string, std::string> set;
  TRY(in.read_map("set", set, check_variable));
  for (auto& [name, value] : set) {
    if (std::string reason = check_value(value); !reason.empty()) return in.error_at("set", std::move(reason));
    out.set[name] = std::move(value);
  }
  return ok();
}

static Result<void> from_json(const JsonReader& in, Rootfs& out) { return in.read("readonly", out.readonly); }

static Result<void> read_backing(const JsonReader& in, Backing& out) {
  std::string word;
  TRY(in.read("backing", word));
  if (word == "memory") out = Backing::memory;
  if (word == "disk") out = Backing::disk;
  if (word == "disk-or-memory") out = Backing::disk_or_memory;
  if (in.has("backing") && word != "memory" && word != "disk" && word != "disk-or-memory") {
    return in.error_at("backing", "expected \"memory\", \"disk\" or \"disk-or-memory\"");
  }
  return ok();
}

static Result<void> from_json(const JsonReader& in, Workdir& out) {
  Size size{out.size, 4096};
  Count inodes{out.inodes, 1LL << 32};
  TRY(in.read("writable", out.writable));
  TRY(read_backing(in, out.backing));
  TRY(in.read("directory", out.directory, check_path));
  TRY(in.read("size", size));
  TRY(in.read("inodes", inodes));
  TRY(read_list(in, "empty", out.empty, check_path));
  TRY(in.read("home", out.home));
  TRY(in.read("cwd", out.cwd));
  return read_list(in, "never", out.never, check_path);
}

static Result<void> from_json(const JsonReader& in, Mounts& out) {
  TRY(in.read("restrict_binds", out.restrict_binds));
  TRY(read_list(in, "refuse_sources", out.refuse_sources, check_path));
  TRY(read_list(in, "allow_sources", out.allow_sources, check_path));
  TRY(read_list(in, "allow_writable", out.allow_writable, check_path));
  TRY(in.read("refuse_special", out.refuse_special));
  TRY(in.read("force_readonly", out.force_readonly));
  TRY(in.read("force_nosuid", out.force_nosuid));
  TRY(in.read("force_nodev", out.force_nodev));
  return in.read("restrict_types", out.restrict_types);
}

static Result<void> from_json(const JsonReader& in, Network& out) {
  std::string mode;
  TRY(in.read("mode", mode));
  if (mode.empty()) return ok();
  if (mode == "none") {
    out.mode = NetworkMode::none;
  } else if (mode == "inherit") {
    out.mode = NetworkMode::inherit;
  } else if (mode == "config") {
    out.mode = NetworkMode::config;
  } else if (mode == "allowlist") {
    return in.error_at("mode", "this version cannot let a container reach a list of hosts; \"none\" closes all");
  } else {
    return in.error_at("mode", "expected \"none\", \"config\" or \"inherit\"");
  }
  return ok();
}

static Result<void> from_json(const JsonReader& in, IoLimits& out) {
  Size read_bps{out.read_bps, 4096};
  Size write_bps{out.write_bps, 4096};
  Count read_iops{out.read_iops, UINT32_MAX};  // the kernel's counter has 32 bits
  Count write_iops{out.write_iops, UINT32_MAX};
  TRY(in.read("read_bps", read_bps));
  TRY(in.read("write_bps", write_bps));
  TRY(in.read("read_iops", read_iops));
  return in.read("write_iops", write_iops);
}

static Result<void> from_json(const JsonReader& in, Limits& out) {
  Size memory{out.memory, 512 << 10};  // below that no program starts
  Cpus cpus{out.cpus};
  Count pids{out.pids, 1LL << 22};  // the kernel's own largest (PID_MAX_LIMIT)
  UnsignedSize nofile{out.nofile, 3};
  UnsignedSize fsize{out.fsize, 0};
  UnsignedSize core{out.core, 0};
  TRY(in.read("memory", memory));
  TRY(in.read("no_swap", out.no_swap));
  TRY(in.read("cpus", cpus));
  TRY(in.read("cpu_mask", out.cpu_mask));
  TRY(in.read("pids", pids));
  TRY(in.read("nofile", nofile));
  TRY(in.read("fsize", fsize));
  TRY(in.read("core", core));
  TRY(in.read("io", out.io));
  TRY(in.read("no_hugepages", out.no_hugepages));
  return in.read("normal_priority", out.normal_priority);
}

static Result<void> from_json(const JsonReader& in, Deadline& out) {
  Duration container{out.container};
  Duration exec{out.exec};
  Duration created{out.created};
  TRY(in.read("container", container));
  TRY(in.read("exec", exec));
  return in.read("created", created);
}

static Result<void> from_json(const JsonReader& in, Namespaces& out) { return in.read("private_all", out.private_all); }

static Result<void> from_json(const JsonReader& in, User& out) {
  TRY(in.read("no_new_privileges", out.no_new_privileges));
  return in.read("refuse_root_with_capabilities", out.refuse_root_with_capabilities);
}

static Result<void> from_json(const JsonReader& in, Capabilities& out) {
  TRY(in.read("restrict", out.restrict));
  return read_list(in, "keep", out.keep, check_capability);
}

static Result<void> from_json(const JsonReader& in, Seccomp& out) {
  return read_name(in, "program", out.program, check_program);
}

static Result<void> from_json(const JsonReader& in, Apparmor& out) {
  return read_name(in, "profile", out.profile, check_label);
}

static Result<void> from_json(const JsonReader& in, Devices& out) {
  return in.read("standard_only", out.standard_only);
}
static Result<void> from_json(const JsonReader& in, Sysctl& out) {
  return in.read("namespaced_only", out.namespaced_only);
}

static Result<void> from_json(const JsonReader& in, Hooks& out) {
  TRY(in.read("refuse_config", out.refuse_config));
  return read_list(in, "directories", out.directories, check_path);
}

static Result<void> from_json(const JsonReader& in, Annotations& out) {
  return in.read("ignore_runtime", out.ignore_runtime);
}

static Result<void> from_json(const JsonReader& in, Masks& out) {
  TRY(read_list(in, "masked", out.masked, check_path));
  return read_list(in, "readonly", out.readonly, check_path);
}

static Result<void> from_json(const JsonReader& in, Audit& out) { return in.read("enable", out.enable); }

static Result<void> from_json(const JsonReader& in, Policy& out) {
  std::string schema;
  std::string description;
  TRY(in.read("$schema", schema));
  TRY(in.read("description", description));
  TRY(in.read("change_nothing", out.change_nothing));

  const std::size_t about = static_cast<std::size_t>(in.has("$schema")) + in.has("description") + in.has("extends");
  const bool has_sections = TRY(in.object_size()) > about + in.has("change_nothing");
  if (out.change_nothing && (has_sections || in.has("extends"))) {
    return in.error_at("change_nothing", "stands alone: a policy that changes something has sections");
  }
  if (out.change_nothing) return ok();

  std::string base = "strict";
  TRY(in.read("extends", base));
  auto extended = builtin_policy(base);
  if (extended.has_error()) return in.error_at("extends", "no built-in policy of that name");
  out = *std::move(extended);
  out.extends = base;
  if (has_sections) out.change_nothing = false;

  TRY(in.read("env", out.env));
  TRY(in.read("rootfs", out.rootfs));
  TRY(in.read("workdir", out.workdir));
  TRY(in.read("mounts", out.mounts));
  TRY(in.read("network", out.network));
  TRY(in.read("limits", out.limits));
  TRY(in.read("deadline", out.deadline));
  TRY(in.read("namespaces", out.namespaces));
  TRY(in.read("user", out.user));
  TRY(in.read("capabilities", out.capabilities));
  TRY(in.read("seccomp", out.seccomp));
  TRY(in.read("apparmor", out.apparmor));
  TRY(in.read("devices", out.devices));
  TRY(in.read("sysctl", out.sysctl));
  TRY(in.read("hooks", out.hooks));
  TRY(in.read("annotations", out.annotations));
  TRY(in.read("masks", out.masks));
  TRY(in.read("audit", out.audit));
  TRY(read_list(in, "require", out.require, check_requirement));

  // What cannot be enforced as it is written.
  if (out.workdir.writable && !out.workdir.size && !out.limits.memory) {
    return in.error_at("workdir", "writable needs a bound: workdir.size or limits.memory");
  }
  if (out.workdir.writable && out.workdir.backing != Backing::memory && !out.workdir.size) {
    return in.error_at("workdir", "a disk needs a size");
  }
  if (out.limits.cpu_mask && !out.limits.cpus) return in.error_at("limits", "cpu_mask needs cpus");
  if (out.limits.no_swap && !out.limits.memory) return in.error_at("limits", "no_swap needs memory");
  return ok();
}

Result<Policy> parse_policy(std::string_view json, std::string_view name) {
  const auto document = TRY(oci::JsonDocument::parse(json, name, kSizeLimit, oci::UnknownKeys::refused));
  Policy policy;
  TRY(document.read(policy));
  policy.name = name;
  return policy;
}

bool looks_like_secret(std::string_view variable, const Env& env) {
  // api_key is one as much as API_KEY is.
  const std::string lower = text::to_lower(variable);
  return std::any_of(env.secrets.begin(), env.secrets.end(),
                     [&](const std::string& glob) { return text::glob_match(text::to_lower(glob), lower); });
}

}  // namespace agentrun::policy
