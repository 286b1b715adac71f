#include <algorithm>
#include <array>

#include "policy/harden_parts.h"

namespace agentrun::policy {
namespace {

constexpr std::uint64_t kDefaultPeriod = 100'000;  // microseconds; the kernel's own
constexpr std::uint64_t kShortestPeriod = 1'000, kLongestPeriod = 1'000'000;
constexpr std::uint64_t kNormalShares = 1'024;

// Zero and less mean "no limit" to every engine.
bool unlimited(const std::optional<std::int64_t>& value) { return !value || *value <= 0; }

void harden_memory(std::optional<oci::MemoryResources>& memory, Missing missing, const Context& context) {
  const Limits& limits = context.policy.limits;
  ChangeLog& log = context.log;
  if (!limits.memory) return;
  constexpr std::string_view kRule = "/limits/memory";
  const bool add = missing == Missing::add && context.facts.cgroup_memory;
  if (missing == Missing::add && !context.facts.cgroup_memory) {
    log.note("no memory controller here: " + log.rule_name(kRule) + " has no effect");
  }
  if (!memory && !add) return;
  oci::MemoryResources result = memory.value_or(oci::MemoryResources());

  if ((result.limit || add) && (unlimited(result.limit) || *result.limit > *limits.memory)) {
    log.set(result.limit, limits.memory, "/linux/resources/memory/limit", kRule);
  }
  const std::int64_t most = result.limit.value_or(*limits.memory);
  if (limits.no_swap) {
    // The specification's swap is memory and swap together.
    constexpr std::string_view kSwapRule = "/limits/no_swap";
    if (result.limit && (unlimited(result.swap) || *result.swap > most)) {
      log.set(result.swap, result.limit, "/linux/resources/memory/swap", kSwapRule);
    } else if (!result.limit) {
      log.set(result.swap, std::nullopt, "/linux/resources/memory/swap", kSwapRule);
    }
  }
  // On v2 it is memory.low, which takes memory away from others.
  if (result.reservation && (*result.reservation < 0 || *result.reservation > most)) {
    log.set(result.reservation, std::optional(most), "/linux/resources/memory/reservation", kRule);
  }
  if (result.disable_oom_killer.value_or(false)) {
    log.set(result.disable_oom_killer, std::nullopt, "/linux/resources/memory/disableOOMKiller", kRule);
  }
  memory = result;
}

// Whether quota and period are worth more than `limit` milliCPU, or are nothing that the kernel takes.
bool exceeds(std::optional<std::int64_t> quota, std::uint64_t period, std::int64_t limit) {
  if (unlimited(quota) || period < kShortestPeriod || period > kLongestPeriod) return true;
  return *quota > limit * static_cast<std::int64_t>(period) / 1000;  // no overflow: limit is at most 10^9
}

void harden_cpu_quota(oci::CpuResources& cpu, Missing missing, bool add, const Context& context) {
  constexpr std::string_view kRule = "/limits/cpus";
  constexpr const char* kQuota = "/linux/resources/cpu/quota";
  constexpr const char* kPeriod = "/linux/resources/cpu/period";
  const std::int64_t limit = *context.policy.limits.cpus;
  if (cpu.quota || add) {
    if (exceeds(cpu.quota, cpu.period.value_or(kDefaultPeriod), limit)) {
      context.log.set(cpu.quota, std::optional(limit * static_cast<std::int64_t>(kDefaultPeriod) / 1000), kQuota,
                      kRule);
      context.log.set(cpu.period, std::optional(kDefaultPeriod), kPeriod, kRule);
    } else if (missing == Missing::leave) {
      // The cgroup may have another period than the one by which this quota was judged.
      context.log.set(cpu.period, std::optional(cpu.period.value_or(kDefaultPeriod)), kPeriod, kRule);
    }
  } else if (missing == Missing::leave) {
    // A shorter period under the quota that is there would be worth more CPUs.
    context.log.set(cpu.period, std::nullopt, kPeriod, kRule);
  }
  if (cpu.burst.value_or(0) > 0) context.log.set(cpu.burst, std::nullopt, "/linux/resources/cpu/burst", kRule);
}

void harden_cpu(std::optional<oci::CpuResources>& cpu, Missing missing, const Context& context) {
  const Limits& limits = context.policy.limits;
  ChangeLog& log = context.log;
  const bool add = missing == Missing::add && limits.cpus && context.facts.cgroup_cpu;
  if (missing == Missing::add && limits.cpus && !context.facts.cgroup_cpu) {
    log.note("no cpu controller here: " + log.rule_name("/limits/cpus") + " is a mask at most");
  }
  if (!cpu && !add) return;
  oci::CpuResources result = cpu.value_or(oci::CpuResources());
  if (limits.cpus) harden_cpu_quota(result, missing, add, context);
  if (limits.normal_priority) {
    constexpr std::string_view kRule = "/limits/normal_priority";
    log.set(result.realtime_runtime, std::nullopt, "/linux/resources/cpu/realtimeRuntime", kRule);
    log.set(result.realtime_period, std::nullopt, "/linux/resources/cpu/realtimePeriod", kRule);
    if (result.shares.value_or(0) > kNormalShares) {
      log.set(result.shares, std::optional(kNormalShares), "/linux/resources/cpu/shares", kRule);
    }
  }
  cpu = result;
}

void harden_pids(oci::Resources& resources, Missing missing, const Context& context) {
  constexpr std::string_view kRule = "/limits/pids";
  const auto& limit = context.policy.limits.pids;
  if (!limit) return;
  if (missing == Missing::add && !context.facts.cgroup_pids) {
    context.log.note("no pids controller here: " + context.log.rule_name(kRule) + " has no effect");
  }
  const bool add = missing == Missing::add && context.facts.cgroup_pids;
  if ((resources.pids_limit || add) && (unlimited(resources.pids_limit) || *resources.pids_limit > *limit)) {
    context.log.set(resources.pids_limit, limit, "/linux/resources/pids/limit", kRule);
  }
}

// As the kernel names the files: hugetlb.2MB.max, hugetlb.64KB.max.
std::string page_size_name(std::uint64_t bytes) {
  if (bytes >= 1u << 30) return std::to_string(bytes >> 30) + "GB";
  if (bytes >= 1u << 20) return std::to_string(bytes >> 20) + "MB";
  return std::to_string(bytes >> 10) + "KB";
}

void harden_huge_pages(std::vector<oci::HugepageLimit>& limits, Missing missing, const Context& context) {
  constexpr std::string_view kRule = "/limits/no_hugepages";
  for (std::size_t i = 0; i < limits.size(); ++i) {
    context.log.set(limits[i].limit, 0u, "/linux/resources/hugepageLimits/" + std::to_string(i) + "/limit", kRule);
  }
  if (missing == Missing::leave) return;
  if (!context.facts.cgroup_hugetlb) {
    if (context.facts.huge_page_sizes.empty()) return;
    return context.log.note("no hugetlb controller here: " + context.log.rule_name(kRule) + " has no effect");
  }
  for (const std::uint64_t bytes : context.facts.huge_page_sizes) {
    const std::string name = page_size_name(bytes);
    if (std::any_of(limits.begin(), limits.end(), [&](const auto& limit) { return limit.page_size == name; })) continue;
    limits.push_back({name, 0});
    context.log.changed("/linux/resources/hugepageLimits/-", "",
                        json_object({{"pageSize", json_text(name)}, {"limit", "0"}}), kRule);
  }
}

void drop_network(std::optional<oci::NetworkResources>& network, const Context& context) {
  if (!network) return;
  // A class that the host's packet filter may trust, a priority among the host's packets.
  std::string priorities;
  for (const auto& entry : network->priorities) {
    priorities += (priorities.empty() ? "[" : ",") +
                  json_object({{"name", json_text(entry.name)}, {"priority", json_text(entry.priority)}});
  }
  if (!priorities.empty()) priorities += ']';
  context.log.changed("/linux/resources/network",
                      json_object({{"classID", json_text(network->class_id)}, {"priorities", priorities}}), "",
                      "/network/mode");
  network.reset();
}

// Any key may be there, memory.max among them, and it is written after the limits.
void drop_unified(std::map<std::string, std::string>& unified, const Context& context) {
  const Limits& limits = context.policy.limits;
  const bool has_io = limits.io.read_bps || limits.io.write_bps || limits.io.read_iops || limits.io.write_iops;
  if (unified.empty() || (!limits.memory && !limits.cpus && !limits.pids && !limits.no_hugepages && !has_io)) return;
  for (const auto& [key, value] : unified) {
    context.log.changed("/linux/resources/unified/" + pointer_key(key), json_text(value), "",
                        limits.memory ? "/limits/memory" : "/limits");
  }
  unified.clear();
}

std::string rule_text(const oci::DeviceRule& rule) {
  return json_object({{"allow", json_text(rule.allow)},
                      {"type", json_text(std::string(1, rule.type))},
                      {"major", json_text(rule.major)},
                      {"minor", json_text(rule.minor)},
                      {"access", rule.access.empty() ? std::string() : json_text(rule.access)}});
}

std::string rules_text(const std::vector<oci::DeviceRule>& rules) {
  std::string result = "[";
  for (const auto& rule : rules) {
    if (result.size() > 1) result += ',';
    result += rule_text(rule);
  }
  return result + "]";
}

bool denies_all(const oci::DeviceRule& rule) {
  return !rule.allow && rule.type == 'a' && !rule.major && !rule.minor && rule.access.find('r') != std::string::npos &&
         rule.access.find('w') != std::string::npos && rule.access.find('m') != std::string::npos;
}

}  // namespace

bool standard_device(char type, std::int64_t major, std::optional<std::int64_t> minor) {
  // Linux's devices.txt: null zero full random urandom; tty ptmx. Not console (5:1): that is the host's.
  constexpr std::array<std::pair<std::int64_t, std::int64_t>, 7> kStandard = {
      {{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {5, 0}, {5, 2}}};
  if (type != 'c' && type != 'u') return false;
  constexpr std::int64_t kTerminals = 136;  // pts: those of the container's own devpts are all that it can open
  if (major == kTerminals) return true;
  return minor && std::find(kStandard.begin(), kStandard.end(), std::pair(major, *minor)) != kStandard.end();
}

void harden_device_rules(std::vector<oci::DeviceRule>& rules, Missing missing, const Context& context) {
  if (!context.policy.devices.standard_only || (missing == Missing::leave && rules.empty())) return;
  std::vector<oci::DeviceRule> cut;
  if (rules.empty() || !denies_all(rules.front())) cut.push_back({false, 'a', std::nullopt, std::nullopt, "rwm"});
  for (const auto& rule : rules) {
    if (!rule.allow || (rule.major && standard_device(rule.type, *rule.major, rule.minor))) cut.push_back(rule);
  }
  if (cut.size() == rules.size() && (rules.empty() || denies_all(rules.front()))) return;
  context.log.changed("/linux/resources/devices", rules.empty() ? std::string() : rules_text(rules), rules_text(cut),
                      "/devices/standard_only");
  rules = std::move(cut);
}

void harden_resources(std::optional<oci::Resources>& resources, Missing missing, const Context& context) {
  const Policy& policy = context.policy;
  oci::Resources result = resources.value_or(oci::Resources());
  const std::size_t before = context.log.size();
  harden_device_rules(result.devices, missing, context);
  harden_memory(result.memory, missing, context);
  harden_cpu(result.cpu, missing, context);
  harden_pids(result, missing, context);
  harden_io(result.block_io, missing, context);
  if (policy.limits.no_hugepages) harden_huge_pages(result.hugepage_limits, missing, context);
  if (policy.network.mode == NetworkMode::none) drop_network(result.network, context);
  drop_unified(result.unified, context);
  if (resources || context.log.size() != before) resources = std::move(result);
}

std::optional<std::int64_t> quota_width(const oci::Config& config) {
  const auto& resources = config.linux.resources;
  if (!resources || !resources->cpu || unlimited(resources->cpu->quota)) return std::nullopt;
  const auto period = static_cast<std::int64_t>(
      std::clamp(resources->cpu->period.value_or(kDefaultPeriod), kShortestPeriod, kLongestPeriod));
  return (*resources->cpu->quota - 1) / period + 1;
}

std::optional<std::int64_t> half_of_memory(const oci::Config& config) {
  const auto& resources = config.linux.resources;
  if (!resources || !resources->memory || unlimited(resources->memory->limit)) return std::nullopt;
  return *resources->memory->limit / 2;
}

}  // namespace agentrun::policy
