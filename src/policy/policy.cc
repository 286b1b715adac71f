#include "policy/policy.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "oci/json_reader.h"
#include "policy/values.h"

namespace agentrun::policy {
namespace {

using oci::JsonReader;

constexpr std::size_t kSizeLimit = 1u << 20;  // bytes of a policy file
constexpr std::size_t kExtendsLimit = 8;      // files, one extending the other

// Ports, or "none" for no opinion. An empty list is one: not a single port.
struct Ports {
  std::optional<std::vector<std::uint16_t>>& value;
};
Result<void> from_json(const JsonReader& in, Ports& out) {
  if (const auto text = in.string(); text.has_value() && *text == kNone) {
    out.value.reset();
    return ok();
  }
  if (in.array_size().has_error()) return in.error("expected an array of ports, or \"none\"");
  std::vector<std::uint16_t> ports;
  TRY(oci::from_json(in, ports));
  out.value = std::move(ports);
  return ok();
}

std::string check_capability(const std::string& name) {
  constexpr std::string_view kPrefix = "CAP_";
  const auto known = [](char c) { return (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9'); };
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size() || !std::all_of(name.begin(), name.end(), known)) {
    return "expected a capability like \"CAP_NET_BIND_SERVICE\"";
  }
  return {};
}

constexpr std::array<std::string_view, 12> kRequirements = {
    "seccomp",     "namespaces", "apparmor",       "selinux",     "landlock",  "cgroup.memory",
    "cgroup.pids", "cgroup.cpu", "cgroup.hugetlb", "cgroup.kill", "cgroup.io", "systemd",
};

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
  Size memory{out.memory, kLeastMemory};
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
  TRY(in.read("refuse_root_with_capabilities", out.refuse_root_with_capabilities));
  std::string userns;
  TRY(in.read("userns", userns));
  if (userns == "auto") {
    out.userns = UserNamespace::automatic;
  } else if (userns == "config") {
    out.userns = UserNamespace::config;
  } else if (in.has("userns")) {
    return in.error_at("userns", "expected \"auto\" or \"config\"");
  }
  return ok();
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

static Result<void> from_json(const JsonReader& in, Landlock& out) {
  Ports connect{out.tcp_connect};
  Ports bind{out.tcp_bind};
  TRY(in.read("files", out.files));
  TRY(in.read("scopes", out.scopes));
  TRY(in.read("exec", out.exec));
  TRY(in.read("tcp_connect", connect));
  return in.read("tcp_bind", bind);
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

static Result<void> check_whole(const JsonReader& in, const Policy& out);

// A policy with where its `extends` finds others, and the names of those that have led to it.
struct PolicyDocument {
  Policy& policy;
  const FindPolicy& find;
  const std::vector<std::string>& chain;
};

static Result<Policy> parse_document(std::string_view json, std::string_view name, const FindPolicy& find,
                                     const std::vector<std::string>& chain);

static Result<Policy> extended_policy(const JsonReader& in, const std::string& base, const PolicyDocument& document) {
  if (!builtin_text(base).empty()) return builtin_policy(base);
  if (!document.find) return in.error_at("extends", "no built-in policy of that name");
  std::vector<std::string> chain = document.chain;
  const bool circle = std::find(chain.begin(), chain.end(), base) != chain.end();
  chain.push_back(base);
  if (circle) return in.error_at("extends", "a circle: " + text::join(chain, " extends "));
  if (chain.size() > kExtendsLimit) {
    return in.error_at("extends", "more than " + std::to_string(kExtendsLimit) + " policies, one extending the other");
  }
  const Result<PolicyText> found = document.find(base);
  if (!found) return in.error_at("extends", found.error().message());
  return parse_document(found->json, found->file, document.find, chain);
}

static Result<void> from_json(const JsonReader& in, PolicyDocument& document) {
  Policy& out = document.policy;
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
  TRY(in.read("extends", base, check_policy_name));
  out = TRY(extended_policy(in, base, document));
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
  TRY(in.read("landlock", out.landlock));
  TRY(in.read("devices", out.devices));
  TRY(in.read("sysctl", out.sysctl));
  TRY(in.read("hooks", out.hooks));
  TRY(in.read("annotations", out.annotations));
  TRY(in.read("masks", out.masks));
  TRY(in.read("audit", out.audit));
  TRY(read_list(in, "require", out.require, check_requirement));

  return check_whole(in, out);
}

// What cannot be enforced as it is written.
static Result<void> check_whole(const JsonReader& in, const Policy& out) {
  if (out.workdir.writable && !out.workdir.size && !out.limits.memory) {
    return in.error_at("workdir", "writable needs a bound: workdir.size or limits.memory");
  }
  if (out.workdir.writable && out.workdir.backing != Backing::memory && !out.workdir.size) {
    return in.error_at("workdir", "a disk needs a size");
  }
  if (out.limits.cpu_mask && !out.limits.cpus) return in.error_at("limits", "cpu_mask needs cpus");
  if (out.limits.no_swap && !out.limits.memory) return in.error_at("limits", "no_swap needs memory");
  const Landlock& landlock = out.landlock;
  const bool ports = landlock.tcp_connect || landlock.tcp_bind;
  if ((landlock.files || landlock.scopes || ports) && !out.user.no_new_privileges) {
    return in.error_at("landlock", "needs user.no_new_privileges");
  }
  // The rules go by port alone: 127.0.0.1, all that there is, would be forbidden with the rest.
  if (ports && out.network.mode == NetworkMode::none) {
    return in.error_at("landlock", "ports are for a network; network.mode is \"none\"");
  }
  return ok();
}

static Result<Policy> parse_document(std::string_view json, std::string_view name, const FindPolicy& find,
                                     const std::vector<std::string>& chain) {
  const auto parsed = TRY(oci::JsonDocument::parse(json, name, kSizeLimit, oci::UnknownKeys::refused));
  Policy policy;
  PolicyDocument document{policy, find, chain};
  TRY(parsed.read(document));
  policy.name = name;
  return policy;
}

Result<Policy> parse_policy(std::string_view json, std::string_view name, const FindPolicy& find) {
  return parse_document(json, name, find, {std::string(name)});
}

bool looks_like_secret(std::string_view variable, const Env& env) {
  // api_key is one as much as API_KEY is.
  const std::string lower = text::to_lower(variable);
  return std::any_of(env.secrets.begin(), env.secrets.end(),
                     [&](const std::string& glob) { return text::glob_match(text::to_lower(glob), lower); });
}

}  // namespace agentrun::policy
