// The config.json to begin with, as `runc spec` and `crun spec` write it.
#include <utility>

#include "oci/config.h"
#include "oci/features.h"
#include "oci/print.h"
#include "oci/state.h"

namespace agentrun::oci {

namespace {

Process shell() {
  Process process;
  process.terminal = true;
  process.args = {"sh"};
  process.env = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TERM=xterm"};
  process.cwd = "/";
  // Not inheritable, not ambient: CVE-2022-29162 and its kin.
  const std::vector<std::string> names = {"CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE"};
  process.capabilities.emplace();
  process.capabilities->bounding = names;
  process.capabilities->effective = names;
  process.capabilities->permitted = names;
  process.rlimits = {{"RLIMIT_NOFILE", 1024, 1024}};
  process.no_new_privileges = true;
  return process;
}

Mount mount(std::string destination, std::string type, std::string source, std::vector<std::string> options) {
  Mount entry;
  entry.destination = std::move(destination);
  entry.type = std::move(type);
  entry.source = std::move(source);
  entry.options = std::move(options);
  return entry;
}

std::vector<Mount> mounts(bool rootless) {
  std::vector<Mount> list;
  list.push_back(mount("/proc", "proc", "proc", {}));
  list.push_back(mount("/dev", "tmpfs", "tmpfs", {"nosuid", "strictatime", "mode=755", "size=65536k"}));
  std::vector<std::string> pts = {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"};
  if (!rootless) pts.push_back("gid=5");  // not among the ids that a rootless container has
  list.push_back(mount("/dev/pts", "devpts", "devpts", std::move(pts)));
  list.push_back(mount("/dev/shm", "tmpfs", "shm", {"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}));
  list.push_back(mount("/dev/mqueue", "mqueue", "mqueue", {"nosuid", "noexec", "nodev"}));
  if (rootless) {
    // sysfs can only be mounted by who owns the network namespace, and that one stays the host's.
    list.push_back(mount("/sys", "none", "/sys", {"rbind", "nosuid", "noexec", "nodev", "ro"}));
  } else {
    list.push_back(mount("/sys", "sysfs", "sysfs", {"nosuid", "noexec", "nodev", "ro"}));
    list.push_back(mount("/sys/fs/cgroup", "cgroup", "cgroup", {"nosuid", "noexec", "nodev", "relatime", "ro"}));
  }
  return list;
}

Linux linux_part(bool rootless, unsigned uid, unsigned gid) {
  Linux part;
  part.namespaces = {{NamespaceType::pid, {}},
                     {NamespaceType::ipc, {}},
                     {NamespaceType::uts, {}},
                     {NamespaceType::mount, {}},
                     {NamespaceType::cgroup, {}}};
  if (rootless) {
    part.namespaces.push_back({NamespaceType::user, {}});
    part.uid_mappings = {{0, uid, 1}};
    part.gid_mappings = {{0, gid, 1}};
  } else {
    part.namespaces.push_back({NamespaceType::network, {}});
    DeviceRule deny_all;
    deny_all.access = "rwm";
    part.resources.emplace().devices = {deny_all};
  }
  part.masked_paths = {"/proc/acpi",        "/proc/asound",        "/proc/interrupts", "/proc/kcore",
                       "/proc/keys",        "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
                       "/proc/sched_debug", "/proc/scsi",          "/sys/firmware",    "/sys/devices/virtual/powercap"};
  part.readonly_paths = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"};
  return part;
}

}  // namespace

std::string spec_template(bool rootless, unsigned uid, unsigned gid) {
  Config config;
  config.oci_version = kVersion;
  config.process = shell();
  config.root = {"rootfs", true};
  config.hostname = "agentrun";
  config.mounts = mounts(rootless);
  config.linux = linux_part(rootless, uid, gid);
  return print_config(config, Layout::indented);
}

}  // namespace agentrun::oci
