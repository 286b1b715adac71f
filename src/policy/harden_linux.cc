#include <algorithm>
#include <array>
#include <tuple>

#include "base/text.h"
#include "policy/harden_parts.h"

namespace agentrun::policy {
namespace {

bool contains(const std::vector<std::string>& list, std::string_view value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// --- namespaces ---

// Which of those that private_all asks for may be another container's (of the same pod), joined by path.
bool may_be_joined(oci::NamespaceType type) {
  switch (type) {
    case oci::NamespaceType::pid:
    case oci::NamespaceType::ipc:
    case oci::NamespaceType::uts:
    case oci::NamespaceType::network:
      return true;
    default:
      return false;
  }
}

void make_private(std::vector<oci::Namespace>& namespaces, oci::NamespaceType type, bool may_join,
                  std::string_view rule, const Context& context) {
  const auto found =
      std::find_if(namespaces.begin(), namespaces.end(), [&](const auto& ns) { return ns.type == type; });
  const char* name = oci::name_of(type);
  if (found == namespaces.end()) {
    namespaces.push_back({type, ""});
    context.log.changed("/linux/namespaces/-", "", json_object({{"type", json_text(name)}}), rule);
    return;
  }
  if (found->path.empty() || (may_join && !contains(context.facts.namespaces_of_host, name))) return;
  context.log.set(found->path, std::string(),
                  "/linux/namespaces/" + std::to_string(found - namespaces.begin()) + "/path", rule);
}

// --- devices ---

std::string device_text(const oci::Device& device) {
  return json_object({{"type", json_text(std::string(1, device.type))},
                      {"path", json_text(device.path)},
                      {"major", json_text(device.major)},
                      {"minor", json_text(device.minor)},
                      {"fileMode", json_text(device.file_mode)},
                      {"uid", json_text(device.uid)},
                      {"gid", json_text(device.gid)}});
}

void cut_devices(std::vector<oci::Device>& devices, const Context& context) {
  std::vector<oci::Device> kept;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const std::string path = text::clean_path(devices[i].path);
    const bool in_dev = text::path_within(path, "/dev") && path.find('/', 5) == std::string::npos && path != "/dev";
    if (in_dev && standard_device(devices[i].type, devices[i].major, devices[i].minor)) {
      kept.push_back(std::move(devices[i]));
    } else {
      context.log.changed("/linux/devices/" + std::to_string(i), device_text(devices[i]), "", "/devices/standard_only");
    }
  }
  devices = std::move(kept);
}

// --- sysctls ---

// Those of the IPC namespace (ipc_namespaces(7)) and of the network namespace. A key may have dots or slashes for
// separators, so "net/../kernel/core_pattern" is a way to the host: no part may be empty, as ".." is after the change.
bool is_namespaced(std::string_view key, bool own_network) {
  std::string dotted(key);
  std::replace(dotted.begin(), dotted.end(), '/', '.');
  const auto parts = text::split(dotted, '.');
  if (std::any_of(parts.begin(), parts.end(), [](std::string_view part) { return part.empty(); })) return false;
  if (parts[0] == "net") return own_network && parts.size() > 1;
  if (parts[0] == "fs") return parts.size() > 2 && parts[1] == "mqueue";
  constexpr std::array<std::string_view, 11> kKernel = {"msgmax", "msgmnb",          "msgmni",     "msg_next_id",
                                                        "sem",    "sem_next_id",     "shmall",     "shmmax",
                                                        "shmmni", "shm_rmid_forced", "shm_next_id"};
  return parts.size() == 2 && parts[0] == "kernel" &&
         std::find(kKernel.begin(), kKernel.end(), parts[1]) != kKernel.end();
}

void cut_sysctls(oci::Config& config, const Context& context) {
  const oci::Namespace* network = oci::find_namespace(config, oci::NamespaceType::network);
  const bool own_network =
      network != nullptr && (network->path.empty() || !contains(context.facts.namespaces_of_host, "network"));
  std::erase_if(config.linux.sysctl, [&](const auto& entry) {
    if (is_namespaced(entry.first, own_network)) return false;
    context.log.changed("/linux/sysctl/" + pointer_key(entry.first), json_text(entry.second), "",
                        "/sysctl/namespaced_only");
    return true;
  });
}

// --- masks ---

void add_paths(std::vector<std::string>& paths, const std::vector<std::string>& more, const char* pointer,
               std::string_view rule, ChangeLog& log) {
  for (const auto& path : more) {
    if (contains(paths, path)) continue;
    paths.push_back(path);
    log.changed(std::string(pointer) + "/-", "", json_text(path), rule);
  }
}

// --- what reaches out of the container, or changes the kernel's defences ---

template <typename T>
void drop(std::optional<T>& field, const char* pointer, std::string before, std::string_view rule, ChangeLog& log) {
  if (!field) return;
  field.reset();
  log.changed(pointer, std::move(before), "", rule);
}

void drop_priorities(oci::Linux& linux_config, ChangeLog& log) {
  constexpr std::string_view kRule = "/limits/normal_priority";
  if (const auto& rdt = linux_config.intel_rdt) {
    // closID joins a group of the host by name; a new one takes cache from all others.
    drop(linux_config.intel_rdt, "/linux/intelRdt", json_object({{"closID", json_text(rdt->clos_id)}}), kRule, log);
  }
  if (const auto& memory = linux_config.memory_policy) {
    drop(linux_config.memory_policy, "/linux/memoryPolicy",
         json_object({{"mode", json_text(memory->mode)}, {"nodes", json_text(memory->nodes)}}), kRule, log);
  }
}

void drop_net_devices(std::map<std::string, oci::NetDevice>& devices, const Context& context) {
  const Policy& policy = context.policy;
  const bool none = policy.network.mode == NetworkMode::none;
  if (!none && !(policy.namespaces.private_all && policy.network.mode == NetworkMode::config)) return;
  for (const auto& [host_name, device] : devices) {
    const std::string name = device.name.empty() ? std::string() : json_text(device.name);
    context.log.changed("/linux/netDevices/" + pointer_key(host_name), json_object({{"name", name}}), "",
                        none ? "/network/mode" : "/namespaces/private_all");
  }
  devices.clear();
}

void harden_seccomp(oci::Linux& linux_config, ChangeLog& log) {
  constexpr std::string_view kRule = "/seccomp/program";
  if (const auto& personality = linux_config.personality) {
    // READ_IMPLIES_EXEC and ADDR_NO_RANDOMIZE come in by it; our program refuses personality(2) for the same reason.
    drop(linux_config.personality, "/linux/personality", json_object({{"domain", json_text(personality->domain)}}),
         kRule, log);
  }
  if (linux_config.seccomp) {
    // It turns off the mitigation of speculative store bypass that a filter comes with.
    auto flags = linux_config.seccomp->flags;
    std::erase(flags, "SECCOMP_FILTER_FLAG_SPEC_ALLOW");
    log.set(linux_config.seccomp->flags, std::move(flags), "/linux/seccomp/flags", kRule);
  }
}

// --- annotations ---

// What other runtimes act on, and what anyone who may run a container can set (notes of crun(1), runsc, libkrun).
constexpr std::array<std::string_view, 7> kRuntimePrefixes = {
    "run.oci.", "org.systemd.property.", "org.criu.", "dev.gvisor.", "krun.", "module.wasm.", "io.kubernetes.",
};

// Podman sets these two for every container of a systemd host. A signal by number; at most systemd's own default.
bool harmless_unit_property(std::string_view key, std::string_view value) {
  if (key == "org.systemd.property.KillSignal") {
    const auto signal = text::parse_unsigned(value);
    return signal && *signal >= 1 && *signal <= 64;
  }
  if (key == "org.systemd.property.TimeoutStopUSec") {
    constexpr std::string_view kType = "uint64 ";
    constexpr std::uint64_t kLongest = 90'000'000;
    if (!value.starts_with(kType)) return false;
    const auto timeout = text::parse_unsigned(value.substr(kType.size()));
    return timeout && *timeout <= kLongest;
  }
  return false;
}

}  // namespace

void harden_namespaces(oci::Config& config, const Context& context) {
  const Policy& policy = context.policy;
  auto& namespaces = config.linux.namespaces;
  if (policy.namespaces.private_all) {
    constexpr std::string_view kRule = "/namespaces/private_all";
    using enum oci::NamespaceType;
    for (const auto type : {pid, mount, ipc, uts, cgroup}) {
      make_private(namespaces, type, may_be_joined(type), kRule, context);
    }
    if (policy.network.mode == NetworkMode::config) make_private(namespaces, network, true, kRule, context);
  }
  // An engine's namespace has its interfaces in it: under none it is never joined.
  if (policy.network.mode == NetworkMode::none) {
    make_private(namespaces, oci::NamespaceType::network, false, "/network/mode", context);
  }
}

void harden_linux(oci::Config& config, const Context& context) {
  const Policy& policy = context.policy;
  oci::Linux& linux_config = config.linux;
  if (policy.devices.standard_only) cut_devices(linux_config.devices, context);
  drop_net_devices(linux_config.net_devices, context);
  if (policy.limits.normal_priority) drop_priorities(linux_config, context.log);
  if (policy.sysctl.namespaced_only) cut_sysctls(config, context);
  if (!policy.seccomp.program.empty()) harden_seccomp(linux_config, context.log);
  auto& propagation = linux_config.rootfs_propagation;
  if (policy.mounts.restrict_binds && (propagation == "shared" || propagation == "rshared")) {
    context.log.set(propagation, propagation == "shared" ? "private" : "rprivate", "/linux/rootfsPropagation",
                    "/mounts/restrict_binds");
  }
  add_paths(linux_config.masked_paths, policy.masks.masked, "/linux/maskedPaths", "/masks/masked", context.log);
  add_paths(linux_config.readonly_paths, policy.masks.readonly, "/linux/readonlyPaths", "/masks/readonly", context.log);
}

void harden_hooks(oci::Hooks& hooks, const Context& context) {
  if (!context.policy.hooks.refuse_config) return;
  const auto allowed = [&](const oci::Hook& hook) {
    const std::string path = text::clean_path(hook.path);
    // "/a/hooks/x" of the directory "/a/hooks", not "/a/hooks" itself, and nothing that ".." or a link could turn into
    // another: the runner opens it below the directory.
    return path == hook.path && std::any_of(context.policy.hooks.directories.begin(),
                                            context.policy.hooks.directories.end(), [&](const std::string& directory) {
                                              return path != directory && text::path_within(path, directory);
                                            });
  };
  const std::array<std::pair<const char*, std::vector<oci::Hook>*>, 6> lists = {{
      {"prestart", &hooks.prestart},
      {"createRuntime", &hooks.create_runtime},
      {"createContainer", &hooks.create_container},
      {"startContainer", &hooks.start_container},
      {"poststart", &hooks.poststart},
      {"poststop", &hooks.poststop},
  }};
  for (const auto& [name, list] : lists) {
    std::vector<oci::Hook> kept;
    for (std::size_t i = 0; i < list->size(); ++i) {
      if (allowed((*list)[i])) {
        kept.push_back(std::move((*list)[i]));
      } else {
        context.log.changed("/hooks/" + std::string(name) + "/" + std::to_string(i),
                            json_object({{"path", json_text((*list)[i].path)}}), "", "/hooks/refuse_config");
      }
    }
    *list = std::move(kept);
  }
}

void harden_annotations(oci::Annotations& annotations, const Context& context) {
  if (!context.policy.annotations.ignore_runtime) return;
  std::erase_if(annotations, [&](const auto& entry) {
    const auto& [key, value] = entry;
    const bool runtimes = std::any_of(kRuntimePrefixes.begin(), kRuntimePrefixes.end(),
                                      [&key = key](std::string_view prefix) { return key.starts_with(prefix); });
    if (!runtimes || harmless_unit_property(key, value)) return false;
    context.log.changed("/annotations/" + pointer_key(key), json_text(value), "", "/annotations/ignore_runtime");
    return true;
  });
}

}  // namespace agentrun::policy
