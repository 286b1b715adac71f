#include "lifecycle/sandbox_config.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"

namespace agentrun::lifecycle {
namespace {

constexpr std::int64_t kCpuPeriod = 100'000;  // microseconds

oci::Mount make_mount(std::string destination, std::string type, std::string source, std::vector<std::string> options) {
  oci::Mount mount;
  mount.destination = std::move(destination);
  mount.type = std::move(type);
  mount.source = std::move(source);
  mount.options = std::move(options);
  return mount;
}

oci::Mount make_bind(std::string source, std::string destination, bool writable) {
  std::vector<std::string> options{"rbind", "rprivate", "rnosuid", "rnodev"};
  if (!writable) options.insert(options.end(), {"ro", "rro"});
  return make_mount(std::move(destination), "bind", std::move(source), std::move(options));
}

// No sysfs, no cgroup file system: what describes the host's hardware is nobody's business, and programs that count
// CPUs read the affinity mask.
std::vector<oci::Mount> kernel_mounts() {
  return {
      make_mount("/proc", "proc", "proc", {"nosuid", "noexec", "nodev"}),
      make_mount("/dev", "tmpfs", "tmpfs", {"nosuid", "strictatime", "mode=755", "size=65536k"}),
      make_mount("/dev/pts", "devpts", "devpts", {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}),
      make_mount("/dev/shm", "tmpfs", "shm", {"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}),
      make_mount("/dev/mqueue", "mqueue", "mqueue", {"nosuid", "noexec", "nodev"}),
  };
}

std::vector<std::string> environment(const SandboxOptions& options) {
  std::vector<std::string> env{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                               std::string("HOME=") + kSandboxWorkdir,
                               "USER=sandbox",
                               "LOGNAME=sandbox",
                               "LANG=C.UTF-8",
                               "TERM=dumb",
                               "container=agentrun"};
  for (const std::string& entry : options.env) {
    const std::string name = entry.substr(0, entry.find('=') + 1);
    std::erase_if(env, [&](const std::string& other) { return other.starts_with(name); });
    env.push_back(entry);
  }
  return env;
}

oci::Annotations annotations(const SandboxOptions& options) {
  oci::Annotations result;
  if (options.timeout_us) result["org.agentrun.deadline"] = text::print_duration(*options.timeout_us);
  if (options.memory) result["org.agentrun.memory"] = std::to_string(*options.memory);
  if (options.pids) result["org.agentrun.pids"] = std::to_string(*options.pids);
  if (options.cpus) {
    const std::string thousandths = std::to_string(*options.cpus % 1000 + 1000).substr(1);
    result["org.agentrun.cpus"] = std::to_string(*options.cpus / 1000) + '.' + thousandths;
  }
  std::vector<std::string> names;
  for (const std::string& entry : options.env) names.push_back(entry.substr(0, entry.find('=')));
  if (!names.empty()) result["org.agentrun.env.keep"] = text::join(names, ",");
  return result;
}

oci::Resources resources(const SandboxOptions& options, const SandboxHost& host) {
  oci::Resources result;
  if (options.memory) {
    result.memory.emplace();
    result.memory->limit = options.memory;
  }
  if (options.cpus) {
    result.cpu.emplace();
    result.cpu->period = static_cast<std::uint64_t>(kCpuPeriod);
    result.cpu->quota = *options.cpus * kCpuPeriod / 1000;
  }
  result.pids_limit = options.pids;
  // In a user namespace nobody can make a device node, and an ordinary user cannot load the rules.
  if (!host.user_namespace) result.devices.push_back({false, 'a', std::nullopt, std::nullopt, "rwm"});
  return result;
}

oci::Process process(const SandboxOptions& options, const SandboxHost& host) {
  oci::Process result;
  result.user.uid = host.uid;
  result.user.gid = host.gid;
  result.args = options.args;
  result.env = environment(options);
  result.cwd = kSandboxWorkdir;
  result.capabilities.emplace();  // present and empty: none
  result.no_new_privileges = true;
  return result;
}

void map_own_id(oci::Linux& linux_config, const SandboxHost& host) {
  linux_config.namespaces.push_back({oci::NamespaceType::user, {}});
  linux_config.uid_mappings.push_back({host.uid, host.uid, 1});
  linux_config.gid_mappings.push_back({host.gid, host.gid, 1});
}

oci::Linux linux_part(const SandboxOptions& options, const SandboxHost& host) {
  oci::Linux result;
  for (const oci::NamespaceType type : {oci::NamespaceType::pid, oci::NamespaceType::network, oci::NamespaceType::mount,
                                        oci::NamespaceType::ipc, oci::NamespaceType::uts, oci::NamespaceType::cgroup}) {
    result.namespaces.push_back({type, {}});
  }
  if (host.user_namespace) map_own_id(result, host);
  result.resources = resources(options, host);
  result.masked_paths = {"/proc/acpi",       "/proc/asound",        "/proc/interrupts",  "/proc/kcore",
                         "/proc/keys",       "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
                         "/proc/timer_list", "/proc/timer_stats"};
  result.readonly_paths = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"};
  return result;
}

}  // namespace

Result<SandboxBind> parse_sandbox_bind(std::string_view text) {
  SandboxBind bind;
  std::vector<std::string_view> parts = text::split(text, ':');
  if (parts.size() == 3) {
    if (parts[2] != "rw" && parts[2] != "ro")
      return refusal("", "", "the third part must be rw or ro: " + std::string(text));
    bind.writable = parts[2] == "rw";
  }
  if (parts.size() > 3 || parts[0].empty()) return refusal("", "", "must be SRC[:DST[:rw]]: " + std::string(text));
  bind.source = parts[0];
  const std::string_view destination = parts.size() > 1 ? parts[1] : parts[0];
  if (!destination.starts_with('/')) {
    return refusal("", "", "needs an absolute path in the sandbox: " + std::string(text) + ":/...");
  }
  bind.destination = text::clean_path(destination);
  for (const std::string_view reserved : {"/proc", "/dev"}) {
    if (bind.destination == "/" || text::path_within(bind.destination, reserved)) {
      return refusal("", "", "cannot be over " + bind.destination);
    }
  }
  return bind;
}

oci::Config make_sandbox_config(const SandboxOptions& options, const SandboxHost& host) {
  oci::Config config;
  config.oci_version = "1.3.0";
  config.root.path = host.rootfs;
  config.root.readonly = true;
  config.hostname = "sandbox";
  config.annotations = annotations(options);
  config.process = process(options, host);
  config.linux = linux_part(options, host);
  for (const std::string& directory : host.system_directories) {
    config.mounts.push_back(make_bind(directory, directory, false));
  }
  const std::vector<oci::Mount> kernel = kernel_mounts();
  config.mounts.insert(config.mounts.end(), kernel.begin(), kernel.end());
  for (const SandboxBind& bind : options.binds) {
    config.mounts.push_back(make_bind(bind.source, bind.destination, bind.writable));
  }
  return config;
}

bool add_sandbox_user_namespace(oci::Config& config, const SandboxHost& host, const policy::Policy& policy) {
  if (policy.user.userns != policy::UserNamespace::automatic) return false;
  if (oci::find_namespace(config, oci::NamespaceType::user) != nullptr) return false;
  map_own_id(config.linux, host);
  return true;
}

std::vector<std::string> writable_sources(const SandboxOptions& options) {
  std::vector<std::string> sources;
  for (const SandboxBind& bind : options.binds) {
    if (bind.writable) sources.push_back(bind.source);
  }
  return sources;
}

std::string sandbox_passwd(std::uint32_t uid, std::uint32_t gid) {
  return "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
         "sandbox:x:" +
         std::to_string(uid) + ':' + std::to_string(gid) + ":sandbox:" + kSandboxWorkdir +
         ":/bin/sh\n"
         "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
}

std::string sandbox_group(std::uint32_t gid) {
  return "root:x:0:\nsandbox:x:" + std::to_string(gid) + ":\nnogroup:x:65534:\n";
}

}  // namespace agentrun::lifecycle
