// config-linux.md of the specification, but for resources.
#include <array>

#include "oci/checks.h"
#include "oci/names.h"
#include "oci/parse_parts.h"

namespace agentrun::oci {

static Result<void> from_json(const JsonReader& in, NamespaceType& type) {
  constexpr std::array kTypes = {NamespaceType::pid,    NamespaceType::network, NamespaceType::mount,
                                 NamespaceType::ipc,    NamespaceType::uts,     NamespaceType::user,
                                 NamespaceType::cgroup, NamespaceType::time};
  const std::string_view text = TRY(in.string());
  for (const NamespaceType candidate : kTypes) {
    if (text == name_of(candidate)) {
      type = candidate;
      return ok();
    }
  }
  return in.error(invalid("namespace type", text));
}

static std::string absolute_or_empty(const std::string& path) { return path.empty() ? "" : absolute_path(path); }

static Result<void> from_json(const JsonReader& in, Namespace& entry) {
  TRY(in.require("type", entry.type));
  // Empty is what runc and crun take for "a new one", as if it were absent.
  TRY(in.read("path", entry.path, absolute_or_empty));
  return ok();
}

static Result<void> from_json(const JsonReader& in, TimeOffset& offset) {
  TRY(in.read("secs", offset.secs));
  TRY(in.read("nanosecs", offset.nanosecs, between{0, 999999999}));
  return ok();
}

Result<void> read_device_number(const JsonReader& in, std::int64_t& major, std::int64_t& minor) {
  TRY(in.require("major", major, between{0, kMajorLimit}));
  TRY(in.require("minor", minor, between{0, kMinorLimit}));
  return ok();
}

// One of the characters of `types`.
static Result<char> read_device_type(const JsonReader& in, std::string_view types) {
  std::string type;
  TRY(in.require("type", type, [types](const std::string& value) {
    return value.size() == 1 && types.find(value[0]) != std::string_view::npos ? "" : invalid("device type", value);
  }));
  return type[0];
}

static Result<void> from_json(const JsonReader& in, Device& device) {
  device.type = TRY(read_device_type(in, "cbup"));
  TRY(in.require("path", device.path, not_empty));
  if (device.type != 'p') TRY(read_device_number(in, device.major, device.minor));
  TRY(in.read("fileMode", device.file_mode));
  // Engines leave the file type in (0020666), Go's os.FileMode has bits of its own: only permissions are of use.
  if (device.file_mode) *device.file_mode &= 07777;
  TRY(in.read("uid", device.uid, usable_id));
  TRY(in.read("gid", device.gid, usable_id));
  return ok();
}

static Result<void> from_json(const JsonReader& in, NetDevice& device) {
  TRY(in.read("name", device.name, [](const std::string& name) { return name.empty() ? "" : interface_name(name); }));
  return ok();
}

static bool takes_errno(const std::string& action) { return action == "SCMP_ACT_ERRNO" || action == "SCMP_ACT_TRACE"; }

// Only the low 16 bits reach the kernel, so 65536 would turn "refuse" into "pretend success".
static constexpr between kSeccompErrno{0, 65535};

static Result<void> from_json(const JsonReader& in, SeccompArg& arg) {
  TRY(in.require("index", arg.index, between{0, 5}));
  TRY(in.require("value", arg.value));
  TRY(in.read("valueTwo", arg.value_two));
  TRY(in.require("op", arg.op, known{names::kSeccompOperators, "seccomp operator"}));
  return ok();
}

static Result<void> from_json(const JsonReader& in, SeccompRule& rule) {
  TRY(in.read("names", rule.names, not_empty));
  if (rule.names.empty()) return in.error_at("names", "must not be empty");
  TRY(in.require("action", rule.action, known{names::kSeccompActions, "seccomp action"}));
  TRY(in.read("errnoRet", rule.errno_ret, kSeccompErrno));
  if (rule.errno_ret && !takes_errno(rule.action)) return in.error_at("errnoRet", rule.action + " has no errno");
  TRY(in.read("args", rule.args));
  return ok();
}

static Result<void> from_json(const JsonReader& in, Seccomp& seccomp) {
  TRY(in.require("defaultAction", seccomp.default_action, known{names::kSeccompActions, "seccomp action"}));
  TRY(in.read("defaultErrnoRet", seccomp.default_errno_ret, kSeccompErrno));
  if (seccomp.default_errno_ret && !takes_errno(seccomp.default_action)) {
    return in.error_at("defaultErrnoRet", seccomp.default_action + " has no errno");
  }
  TRY(in.read("architectures", seccomp.architectures, known{names::kSeccompArchitectures, "seccomp architecture"}));
  TRY(in.read("flags", seccomp.flags, known{names::kSeccompFlags, "seccomp flag"}));
  TRY(in.read("listenerPath", seccomp.listener_path, absolute_or_empty));
  TRY(in.read("listenerMetadata", seccomp.listener_metadata));
  if (!seccomp.listener_metadata.empty() && seccomp.listener_path.empty()) {
    return in.error_at("listenerMetadata", "without listenerPath");
  }
  TRY(in.read("syscalls", seccomp.syscalls));
  return ok();
}

static Result<void> from_json(const JsonReader& in, Personality& personality) {
  TRY(in.require("domain", personality.domain, known{names::kPersonalities, "personality"}));
  // The specification has the key and not one value for it.
  TRY(in.read("flags", personality.flags, known{{}, "personality flag"}));
  return ok();
}

static Result<void> from_json(const JsonReader& in, IntelRdt& rdt) {
  // A directory below /sys/fs/resctrl.
  TRY(in.read("closID", rdt.clos_id, file_name));
  TRY(in.read("schemata", rdt.schemata));
  TRY(in.read("l3CacheSchema", rdt.l3_cache_schema));
  TRY(in.read("memBwSchema", rdt.mem_bw_schema));
  TRY(in.read("enableMonitoring", rdt.enable_monitoring));
  return ok();
}

static Result<void> from_json(const JsonReader& in, MemoryPolicy& policy) {
  const known mode{names::kMemoryModes, "memory policy mode"};
  TRY(in.read("mode", policy.mode, mode));
  if (policy.mode.empty()) return in.error_at("mode", mode(policy.mode));
  TRY(in.read("nodes", policy.nodes, [](const std::string& nodes) {
    return count_list(nodes) < 0 ? invalid("memory policy nodes", nodes) : "";
  }));
  TRY(in.read("flags", policy.flags, known{names::kMemoryFlags, "memory policy flag"}));
  const int nodes = count_list(policy.nodes);
  if (nodes > 0 && (policy.mode == "MPOL_DEFAULT" || policy.mode == "MPOL_LOCAL")) {
    return in.error_at("nodes", policy.mode + " mode requires 0 nodes but got " + std::to_string(nodes));
  }
  return ok();
}

Result<void> from_json(const JsonReader& in, Linux& linux) {
  TRY(in.read("namespaces", linux.namespaces));
  TRY(refuse_twice(in, "namespaces", linux.namespaces, &Namespace::type));
  TRY(in.read("uidMappings", linux.uid_mappings));
  TRY(in.read("gidMappings", linux.gid_mappings));
  TRY(in.read_map("timeOffsets", linux.time_offsets, known{names::kClocks, "clock"}));
  TRY(in.read("devices", linux.devices));
  TRY(in.read_map("netDevices", linux.net_devices, interface_name));
  TRY(in.read("cgroupsPath", linux.cgroups_path));
  TRY(in.read("resources", linux.resources));
  TRY(in.read("intelRdt", linux.intel_rdt));
  TRY(in.read("memoryPolicy", linux.memory_policy));
  TRY(in.read_map("sysctl", linux.sysctl, plain_word));
  TRY(in.read("seccomp", linux.seccomp));
  TRY(in.read("rootfsPropagation", linux.rootfs_propagation, [](const std::string& value) {
    return value.empty() ? "" : known{names::kPropagations, "rootfs propagation"}(value);
  }));
  TRY(in.read("maskedPaths", linux.masked_paths, absolute_path));
  TRY(in.read("readonlyPaths", linux.readonly_paths, absolute_path));
  TRY(in.read("mountLabel", linux.mount_label));
  TRY(in.read("personality", linux.personality));
  return ok();
}

}  // namespace agentrun::oci
