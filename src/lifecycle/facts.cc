#include "lifecycle/facts.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/text.h"
#include "lifecycle/owner.h"
#include "lifecycle/resolve.h"
#include "sandbox/disk_store.h"
#include "sandbox/labels.h"
#include "sandbox/namespaces.h"
#include "sys/file.h"
#include "sys/landlock.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

// /sys/kernel/mm/hugepages/hugepages-2048kB
std::vector<std::uint64_t> huge_page_sizes() {
  std::vector<std::uint64_t> sizes;
  const auto names = sys::list_directory(AT_FDCWD, "/sys/kernel/mm/hugepages");
  if (!names) return sizes;  // a kernel without them
  for (std::string_view name : *names) {
    constexpr std::string_view kPrefix = "hugepages-", kSuffix = "kB";
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    name.remove_prefix(kPrefix.size());
    name.remove_suffix(kSuffix.size());
    if (const auto kilobytes = text::parse_unsigned(name)) sizes.push_back(*kilobytes * 1024);
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

// Whole disks: a limit of a partition is not to be had. What is memory or a file of the host is no disk.
std::vector<policy::Disk> find_disks() {
  std::vector<policy::Disk> disks;
  const auto names = sys::list_directory(AT_FDCWD, "/sys/block");
  if (!names) return disks;
  for (const std::string& name : *names) {
    if (name.starts_with("loop") || name.starts_with("ram") || name.starts_with("zram")) continue;
    const auto size = sys::read_file("/sys/block/" + name + "/size");
    const auto numbers = sys::read_file("/sys/block/" + name + "/dev");
    if (!size || text::trim(*size) == "0" || !numbers) continue;
    const auto parts = text::split(text::trim(*numbers), ':');
    const auto major = text::parse_unsigned(parts.front()), minor = text::parse_unsigned(parts.back());
    if (parts.size() == 2 && major && minor) {
      disks.push_back({static_cast<std::int64_t>(*major), static_cast<std::int64_t>(*minor)});
    }
  }
  std::sort(disks.begin(), disks.end(),
            [](const auto& a, const auto& b) { return std::pair(a.major, a.minor) < std::pair(b.major, b.minor); });
  return disks;
}

std::string find_disk_missing(const policy::Workdir& workdir) {
  if (!workdir.writable || workdir.backing == policy::Backing::memory) return {};
  if (!sys::is_host_root()) return "an ordinary user cannot have a disk made for him";
  return sandbox::disk_store_missing(workdir.directory, workdir.size.value_or(0));
}

std::string directory_from(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && value[0] == '/' ? text::clean_path(value) : std::string();
}

UserDirectories user_directories() {
  UserDirectories directories;
  directories.run = directory_from("XDG_RUNTIME_DIR");
  directories.data = directory_from("XDG_DATA_HOME");
  if (!directories.data.empty()) return directories;
  const std::string home = home_directory();
  if (!home.empty()) directories.data = home + "/.local/share";
  return directories;
}

}  // namespace

sandbox::CgroupManager manager_for_caller(sandbox::CgroupManager asked) {
  if (asked != sandbox::CgroupManager::cgroupfs || sys::is_host_root()) return asked;
  const auto controllers = sandbox::available_controllers(asked);
  if (controllers && controllers->memory && controllers->pids) return asked;
  const std::string run = directory_from("XDG_RUNTIME_DIR");
  const bool has_systemd =
      access("/run/systemd/system", F_OK) == 0 && !run.empty() && access((run + "/systemd/private").c_str(), W_OK) == 0;
  return has_systemd ? sandbox::CgroupManager::systemd : asked;
}

policy::Facts host_facts(sandbox::CgroupManager manager, const std::string& cgroups_path) {
  policy::Facts facts;
  facts.as_root = sys::is_host_root();
  facts.cgroup_memory = facts.cgroup_pids = facts.cgroup_cpu = facts.cgroup_hugetlb = false;
  facts.cgroup_kill = facts.cgroup_io = false;
  // No hierarchy at all is no controller: a policy that requires one refuses, one that does not goes on.
  if (const auto controllers = sandbox::available_controllers(manager, cgroups_path)) {
    facts.cgroup_memory = controllers->memory;
    facts.cgroup_pids = controllers->pids;
    facts.cgroup_cpu = controllers->cpu;
    // A size whose controller is not there has no file that a limit could be written to.
    facts.cgroup_hugetlb = controllers->hugetlb;
    facts.cgroup_io = controllers->io;
    facts.cgroup_v1_io = controllers->io && !controllers->unified;
    facts.cgroup_kill = controllers->kill;
  }
  facts.landlock_abi = sys::landlock_abi();
  facts.huge_page_sizes = huge_page_sizes();
  facts.selinux_enabled = sandbox::selinux_enabled();
  facts.systemd_scope = manager == sandbox::CgroupManager::systemd;
  return facts;
}

std::vector<std::string> engine_stores(const UserDirectories* user) {
  if (user == nullptr) {
    // Podman and CRI-O; containerd's CRI plugin and bundles; Docker.
    return {"/var/lib/containers/storage",
            "/run/containers/storage",
            "/var/lib/containerd",
            "/run/containerd",
            "/var/lib/docker",
            "/run/docker"};
  }
  std::vector<std::string> stores;
  if (!user->data.empty()) {
    for (const char* const below : {"/containers/storage", "/containerd", "/docker"}) {
      stores.push_back(user->data + below);
    }
  }
  if (!user->run.empty()) {
    for (const char* const below : {"/containers", "/containerd", "/docker"}) stores.push_back(user->run + below);
  }
  return stores;
}

Result<policy::Facts> gather_facts(const Global& global, const oci::Config& config, const std::string& bundle,
                                   const sandbox::BindSources& sources, const policy::Policy& policy) {
  policy::Facts facts = host_facts(global.cgroup_manager, config.linux.cgroups_path);
  facts.bundle = bundle;
  for (const auto& [index, source] : sources) facts.sources.emplace_hint(facts.sources.end(), index, source.facts);
  const UserDirectories user = user_directories();
  facts.trusted_sources = engine_stores(sys::is_host_root() ? nullptr : &user);
  const policy::IoLimits& io = policy.limits.io;
  if (io.read_bps || io.write_bps || io.read_iops || io.write_iops) facts.disks = find_disks();
  facts.disk_missing = find_disk_missing(policy.workdir);
  facts.namespaces_of_host = sandbox::joined_from_host(config);
  if (facts.as_root && policy.user.userns == policy::UserNamespace::automatic &&
      TRY(sandbox::joins_host_root(config))) {
    facts.namespaces_of_host.emplace_back("user");
  }
  facts.apparmor_loaded = sandbox::apparmor_enabled() && sandbox::apparmor_profile_loaded(policy.apparmor);
  return facts;
}

}  // namespace agentrun::lifecycle
