#include "judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

namespace agentrun::policy::testing {
namespace {

class Judge {
 public:
  void require(bool condition, const std::string& what) {
    if (!condition) complaints_.push_back(what);
  }
  void subset(const std::vector<std::string>& after, const std::vector<std::string>& before, const std::string& what) {
    for (const auto& entry : after) require(std::count(before.begin(), before.end(), entry) > 0, what + ": " + entry);
  }
  std::vector<std::string> complaints() && { return std::move(complaints_); }

 private:
  std::vector<std::string> complaints_;
};

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

double limit(std::optional<std::int64_t> value) {
  return !value || *value <= 0 ? kNoLimit : static_cast<double>(*value);
}

template <typename T>
T of(const std::optional<T>& value) {
  return value ? *value : T{};
}

void judge_environment(const std::vector<std::string>& before, const std::vector<std::string>& after,
                       const std::vector<std::string>& set, Judge& judge) {
  for (const auto& entry : after) {
    const std::string name = entry.substr(0, entry.find('='));
    if (std::count(set.begin(), set.end(), name) == 0) judge.subset({entry}, before, "env");
  }
}

void judge_identity(const oci::Process& before, const oci::Process& after, Judge& judge) {
  judge.require(before.args == after.args && before.cwd == after.cwd && before.user.uid == after.user.uid,
                "another program");
  judge.require(!before.no_new_privileges || after.no_new_privileges, "no_new_privs");
  if (before.capabilities) {
    judge.require(after.capabilities.has_value(), "capabilities");
    const auto a = of(after.capabilities);
    judge.subset(a.bounding, before.capabilities->bounding, "bounding");
    judge.subset(a.effective, before.capabilities->effective, "effective");
    judge.subset(a.inheritable, before.capabilities->inheritable, "inheritable");
    judge.subset(a.permitted, before.capabilities->permitted, "permitted");
    judge.subset(a.ambient, before.capabilities->ambient, "ambient");
  }
  judge.require(before.selinux_label == after.selinux_label, "SELinux label");
  const bool confined = !before.apparmor_profile.empty() && before.apparmor_profile != "unconfined";
  judge.require(!confined || after.apparmor_profile == before.apparmor_profile ||
                    after.apparmor_profile.starts_with(before.apparmor_profile + "//&"),
                "AppArmor profile");
}

void judge_process(const oci::Process& before, const oci::Process& after, Judge& judge) {
  judge_identity(before, after, judge);
  for (const auto& limit_before : before.rlimits) {
    const auto found = std::find_if(after.rlimits.begin(), after.rlimits.end(),
                                    [&](const auto& limit_after) { return limit_after.type == limit_before.type; });
    judge.require(found != after.rlimits.end() && found->hard <= limit_before.hard && found->soft <= limit_before.soft,
                  limit_before.type);
  }
  judge.require(!before.oom_score_adj || (after.oom_score_adj && *after.oom_score_adj >= *before.oom_score_adj),
                "oom score");
  if (after.scheduler) {
    judge.require(before.scheduler && before.scheduler->policy == after.scheduler->policy &&
                      after.scheduler->nice >= before.scheduler->nice &&
                      after.scheduler->priority <= before.scheduler->priority,
                  "scheduler");
  }
  if (after.io_priority) {
    judge.require(before.io_priority && before.io_priority->io_class == after.io_priority->io_class &&
                      after.io_priority->priority >= before.io_priority->priority,
                  "I/O priority");
  }
}

// The last option that says anything about a flag counts; one with "r" speaks for the submounts too.
bool flag(const std::vector<std::string>& options, const std::string& on, const std::string& off) {
  bool value = false;
  for (const auto& option : options) {
    if (option == on || option == "r" + on) value = true;
    if (option == off || option == "r" + off) value = false;
  }
  return value;
}

double tmpfs_size(const std::vector<std::string>& options) {
  double size = kNoLimit;
  for (const auto& option : options) {
    if (!option.starts_with("size=")) continue;
    std::size_t end = 0;
    size = static_cast<double>(std::stoull(option.substr(5), &end));
    const std::string unit = option.substr(5 + end);
    if (unit == "k") size *= 1024;
    if (unit == "m") size *= 1024 * 1024;
    if (unit == "g") size *= 1024 * 1024 * 1024;
    if (unit == "%" || size == 0) size = kNoLimit;
  }
  return size;
}

void judge_mounts(const std::vector<oci::Mount>& before, const std::vector<oci::Mount>& after, Judge& judge) {
  judge.require(before.size() == after.size(), "number of mounts");
  for (std::size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    const auto& b = before[i];
    const auto& a = after[i];
    judge.require(a.destination == b.destination, "mount " + b.destination + " moved");
    if (a.type != b.type || a.source != b.source) {
      // Only from the host's own to a new one of the same kind.
      judge.require(b.type == "bind" && a.type != "bind" && a.source == a.type, "mount " + b.destination + " replaced");
      judge.require(b.destination.starts_with("/sys") ? flag(a.options, "ro", "rw") : true, "mount " + b.destination);
      continue;
    }
    for (const auto& [on, off] :
         std::map<std::string, std::string>{{"ro", "rw"}, {"nosuid", "suid"}, {"nodev", "dev"}, {"noexec", "exec"}}) {
      judge.require(!flag(b.options, on, off) || flag(a.options, on, off), b.destination + " lost " + on);
    }
    for (const char* shared : {"shared", "rshared", "slave", "rslave"}) {
      judge.require(std::count(a.options.begin(), a.options.end(), shared) <=
                        std::count(b.options.begin(), b.options.end(), shared),
                    b.destination + " " + shared);
    }
    if (a.type == "tmpfs") judge.require(tmpfs_size(a.options) <= tmpfs_size(b.options), b.destination + " is larger");
  }
}

bool device_allowed(const std::vector<oci::DeviceRule>& rules, char type, int major, int minor, char access) {
  bool allowed = rules.empty();
  for (const auto& rule : rules) {
    if (rule.type != 'a' && rule.type != type) continue;
    if (rule.type != 'a' && ((rule.major && *rule.major != major) || (rule.minor && *rule.minor != minor))) continue;
    if (rule.access.find(access) != std::string::npos) allowed = rule.allow;
  }
  return allowed;
}

double cpus(const std::optional<oci::CpuResources>& cpu) {
  const double quota = limit(of(cpu).quota);
  return quota / static_cast<double>(of(cpu).period.value_or(100'000));
}

// For each device the least of what its entries say; none, or zero, is no limit.
void judge_throttles(const std::vector<oci::ThrottleDevice>& before, const std::vector<oci::ThrottleDevice>& after,
                     Judge& judge) {
  for (const auto& b : before) {
    const bool held = std::any_of(after.begin(), after.end(), [&](const auto& a) {
      return a.major == b.major && a.minor == b.minor && (b.rate == 0 || (a.rate != 0 && a.rate <= b.rate));
    });
    judge.require(held, "disk " + std::to_string(b.major) + ":" + std::to_string(b.minor));
  }
}

void judge_resources(const oci::Resources& before, const oci::Resources& after, Judge& judge) {
  const auto mb = of(before.memory);
  const auto ma = of(after.memory);
  judge.require(limit(ma.limit) <= limit(mb.limit), "memory");
  judge.require(limit(ma.swap) <= limit(mb.swap), "swap");
  judge.require(!ma.disable_oom_killer.value_or(false) || mb.disable_oom_killer.value_or(false), "OOM killer");
  judge.require(ma.reservation.value_or(0) <= mb.reservation.value_or(0), "reservation");
  judge.require(cpus(after.cpu) <= cpus(before.cpu) * 1.0001, "CPUs");
  judge.require(of(after.cpu).burst.value_or(0) <= of(before.cpu).burst.value_or(0), "burst");
  judge.require(of(after.cpu).shares.value_or(1024) <= of(before.cpu).shares.value_or(1024), "shares");
  judge.require(of(after.cpu).cpus == of(before.cpu).cpus, "cpuset");
  judge.require(!of(after.cpu).realtime_runtime || of(before.cpu).realtime_runtime, "real-time");
  judge.require(limit(after.pids_limit) <= limit(before.pids_limit), "pids");
  for (const auto& b : before.hugepage_limits) {
    judge.require(std::any_of(after.hugepage_limits.begin(), after.hugepage_limits.end(),
                              [&](const auto& a) { return a.page_size == b.page_size && a.limit <= b.limit; }),
                  "huge pages");
  }
  judge_throttles(of(before.block_io).read_bps, of(after.block_io).read_bps, judge);
  judge_throttles(of(before.block_io).write_bps, of(after.block_io).write_bps, judge);
  judge_throttles(of(before.block_io).read_iops, of(after.block_io).read_iops, judge);
  judge_throttles(of(before.block_io).write_iops, of(after.block_io).write_iops, judge);
  judge.require(of(before.block_io).weight == of(after.block_io).weight, "weight of block IO");
  for (const auto& [key, value] : after.unified) judge.require(before.unified.contains(key), "unified " + key);
  judge.require(!after.network || before.network, "network class");
  for (const char type : {'c', 'b'}) {
    for (const auto& [major, minor] : std::map<int, int>{{1, 3}, {5, 1}, {8, 0}, {10, 232}, {136, 4}}) {
      for (const char access : {'r', 'w', 'm'}) {
        judge.require(!device_allowed(after.devices, type, major, minor, access) ||
                          device_allowed(before.devices, type, major, minor, access),
                      std::string("device rule ") + type + std::to_string(major) + access);
      }
    }
  }
}

void judge_namespaces(const oci::Config& before, const oci::Config& after, Judge& judge) {
  for (const auto& ns : before.linux.namespaces) {
    const auto* found = oci::find_namespace(after, ns.type);
    judge.require(found != nullptr && (found->path.empty() || found->path == ns.path),
                  std::string("namespace ") + oci::name_of(ns.type));
  }
  for (const auto& ns : after.linux.namespaces) {
    const auto* found = oci::find_namespace(before, ns.type);
    judge.require(found != nullptr || ns.path.empty(), std::string("joins ") + oci::name_of(ns.type));
  }
}

bool has_host_root(const std::vector<oci::IdMapping>& mappings) {
  return std::any_of(mappings.begin(), mappings.end(), [](const auto& mapping) { return mapping.host_id == 0; });
}

// A user namespace may come, and one that has the host's root may go; ids of the host's own never appear.
void judge_ids(const oci::Config& before, const oci::Config& after, Judge& judge) {
  const auto same = [](const auto& a, const auto& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
      return x.container_id == y.container_id && x.host_id == y.host_id && x.size == y.size;
    });
  };
  const oci::Linux &b = before.linux, &a = after.linux;
  if (!same(b.uid_mappings, a.uid_mappings) || !same(b.gid_mappings, a.gid_mappings)) {
    judge.require(b.uid_mappings.empty() || has_host_root(b.uid_mappings) || has_host_root(b.gid_mappings),
                  "another user namespace");
    for (const auto* mappings : {&a.uid_mappings, &a.gid_mappings}) {
      for (const auto& mapping : *mappings) judge.require(mapping.host_id >= 65'536, "ids of the host");
    }
  }
  for (std::size_t i = 0; i < std::min(before.mounts.size(), after.mounts.size()); ++i) {
    const auto& mount = after.mounts[i];
    if (same(before.mounts[i].uid_mappings, mount.uid_mappings)) continue;
    bool readonly = false;
    for (const auto& option : mount.options) {
      if (option == "ro" || option == "rro") readonly = true;
      if (option == "rw" || option == "rrw") readonly = false;
    }
    for (const auto& mapping : mount.uid_mappings) {
      judge.require(mapping.container_id != 0 || readonly, "root of the host in a writable bind");
      judge.require(mapping.host_id >= 65'536, "ids of the host in a bind");
    }
  }
}

template <typename Map>
std::vector<std::string> keys(const Map& map) {
  std::vector<std::string> result;
  for (const auto& entry : map) result.push_back(entry.first);
  return result;
}

std::vector<std::string> hook_paths(const oci::Hooks& hooks) {
  std::vector<std::string> result;
  for (const auto* list : {&hooks.prestart, &hooks.create_runtime, &hooks.create_container, &hooks.start_container,
                           &hooks.poststart, &hooks.poststop}) {
    for (const auto& hook : *list) result.push_back(hook.path);
  }
  return result;
}

std::vector<std::string> device_paths(const std::vector<oci::Device>& devices) {
  std::vector<std::string> result;
  for (const auto& device : devices) result.push_back(device.path + std::to_string(device.major));
  return result;
}

void judge_linux(const oci::Linux& before, const oci::Linux& after, Judge& judge) {
  judge.subset(device_paths(after.devices), device_paths(before.devices), "device");
  judge.subset(keys(after.net_devices), keys(before.net_devices), "network device");
  judge.subset(keys(after.sysctl), keys(before.sysctl), "sysctl");
  judge.subset(before.masked_paths, after.masked_paths, "no longer masked");
  judge.subset(before.readonly_paths, after.readonly_paths, "no longer read-only");
  judge.require(before.seccomp.has_value() == after.seccomp.has_value(), "seccomp");
  if (before.seccomp && after.seccomp) {
    judge.require(before.seccomp->syscalls.size() == after.seccomp->syscalls.size() &&
                      before.seccomp->default_action == after.seccomp->default_action,
                  "seccomp rules");
    judge.subset(after.seccomp->flags, before.seccomp->flags, "seccomp flag");
  }
  judge.require(!after.personality || before.personality, "personality");
  judge.require(!after.intel_rdt || before.intel_rdt, "intelRdt");
  judge.require(!after.memory_policy || before.memory_policy, "memoryPolicy");
  judge.require(!after.rootfs_propagation.ends_with("shared") || before.rootfs_propagation.ends_with("shared"),
                "propagation");
}

}  // namespace

std::vector<std::string> loosened(const oci::Config& before, const oci::Config& after,
                                  const std::vector<std::string>& set) {
  Judge judge;
  judge.require(before.process.has_value() == after.process.has_value(), "process");
  judge.require(!before.root.readonly || after.root.readonly, "root");
  judge.require(before.root.path == after.root.path, "root path");
  if (before.process && after.process) {
    judge_environment(before.process->env, after.process->env, set, judge);
    judge_process(*before.process, *after.process, judge);
  }
  judge_mounts(before.mounts, after.mounts, judge);
  judge_namespaces(before, after, judge);
  judge_ids(before, after, judge);
  judge_resources(of(before.linux.resources), of(after.linux.resources), judge);
  judge_linux(before.linux, after.linux, judge);
  judge.subset(keys(after.annotations), keys(before.annotations), "annotation");
  judge.subset(hook_paths(after.hooks), hook_paths(before.hooks), "hook");
  return std::move(judge).complaints();
}

}  // namespace agentrun::policy::testing
