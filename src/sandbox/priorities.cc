// The other half of identity.h: schedulers, CPUs, memory nodes, personality. By system call: glibc 2.36 wraps none of
// them but sched_setaffinity.
#include <linux/ioprio.h>
#include <linux/mempolicy.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "sandbox/identity.h"

#ifndef MPOL_PREFERRED_MANY
#define MPOL_PREFERRED_MANY 5  // Linux 5.15
#endif
#ifndef MPOL_F_NUMA_BALANCING
#define MPOL_F_NUMA_BALANCING (1 << 13)  // Linux 5.12
#endif

namespace agentrun::sandbox {
namespace {

constexpr int kWeightedInterleave = 6;  // MPOL_WEIGHTED_INTERLEAVE, Linux 6.9
constexpr unsigned kMostCpus = 8192, kMostNodes = 1024;

using Name = std::pair<std::string_view, std::uint64_t>;

template <std::size_t N>
Result<std::uint64_t> lookup(const std::array<Name, N>& names, const std::string& name, const char* what) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const Name& entry) { return entry.first == name; });
  if (found == names.end()) return refusal(what, name, "unknown");
  return found->second;
}

template <std::size_t N>
Result<std::uint64_t> flags_of(const std::array<Name, N>& names, const std::vector<std::string>& list,
                               const char* what) {
  std::uint64_t flags = 0;
  for (const std::string& name : list) flags |= TRY(lookup(names, name, what));
  return flags;
}

constexpr std::array<Name, 6> kPolicies = {{{"SCHED_OTHER", 0},
                                            {"SCHED_FIFO", 1},
                                            {"SCHED_RR", 2},
                                            {"SCHED_BATCH", 3},
                                            {"SCHED_IDLE", 5},
                                            {"SCHED_DEADLINE", 6}}};
constexpr std::array<Name, 7> kSchedulerFlags = {{{"SCHED_FLAG_RESET_ON_FORK", 0x01},
                                                  {"SCHED_FLAG_RECLAIM", 0x02},
                                                  {"SCHED_FLAG_DL_OVERRUN", 0x04},
                                                  {"SCHED_FLAG_KEEP_POLICY", 0x08},
                                                  {"SCHED_FLAG_KEEP_PARAMS", 0x10},
                                                  {"SCHED_FLAG_UTIL_CLAMP_MIN", 0x20},
                                                  {"SCHED_FLAG_UTIL_CLAMP_MAX", 0x40}}};
constexpr std::array<Name, 3> kIoClasses = {{{"IOPRIO_CLASS_RT", 1}, {"IOPRIO_CLASS_BE", 2}, {"IOPRIO_CLASS_IDLE", 3}}};
constexpr std::array<Name, 7> kMemoryModes = {{{"MPOL_DEFAULT", MPOL_DEFAULT},
                                               {"MPOL_PREFERRED", MPOL_PREFERRED},
                                               {"MPOL_BIND", MPOL_BIND},
                                               {"MPOL_INTERLEAVE", MPOL_INTERLEAVE},
                                               {"MPOL_LOCAL", MPOL_LOCAL},
                                               {"MPOL_PREFERRED_MANY", MPOL_PREFERRED_MANY},
                                               {"MPOL_WEIGHTED_INTERLEAVE", kWeightedInterleave}}};
constexpr std::array<Name, 3> kMemoryFlags = {{{"MPOL_F_NUMA_BALANCING", MPOL_F_NUMA_BALANCING},
                                               {"MPOL_F_RELATIVE_NODES", MPOL_F_RELATIVE_NODES},
                                               {"MPOL_F_STATIC_NODES", MPOL_F_STATIC_NODES}}};

// struct sched_attr of sched_setattr(2), version 0.
struct SchedulerAttributes {
  std::uint32_t size = sizeof(SchedulerAttributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0, deadline = 0, period = 0;
};
static_assert(sizeof(SchedulerAttributes) == 48);

}  // namespace

Result<std::vector<unsigned>> parse_number_list(const std::string& text, unsigned limit, const std::string& what) {
  std::vector<unsigned> numbers;
  for (const std::string_view part : text::split(text, ',')) {
    const std::size_t dash = part.find('-');
    const auto first = text::parse_unsigned(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : text::parse_unsigned(part.substr(dash + 1));
    if (!first || !last || *first > *last || *last >= limit) return refusal(what, text, "not a list like 0-3,7");
    for (std::uint64_t number = *first; number <= *last; ++number) numbers.push_back(static_cast<unsigned>(number));
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

Result<void> set_scheduler(const oci::Scheduler& scheduler) {
  SchedulerAttributes attributes;
  attributes.policy = static_cast<std::uint32_t>(TRY(lookup(kPolicies, scheduler.policy, "scheduler policy")));
  attributes.flags = TRY(flags_of(kSchedulerFlags, scheduler.flags, "scheduler flag"));
  attributes.nice = scheduler.nice;
  if (scheduler.priority < 0) return refusal("scheduler priority", std::to_string(scheduler.priority), "negative");
  attributes.priority = static_cast<std::uint32_t>(scheduler.priority);
  attributes.runtime = scheduler.runtime;
  attributes.deadline = scheduler.deadline;
  attributes.period = scheduler.period;
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) != 0) return errno_error("set scheduler", scheduler.policy);
  return ok();
}

Result<void> set_io_priority(const oci::IoPriority& priority) {
  const std::uint64_t io_class = TRY(lookup(kIoClasses, priority.io_class, "I/O priority class"));
  if (priority.priority < 0 || priority.priority > 7) {
    return refusal("I/O priority", std::to_string(priority.priority), "not of 0 to 7");
  }
  const long value = static_cast<long>(io_class << IOPRIO_CLASS_SHIFT) | priority.priority;
  if (syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, value) != 0) {
    return errno_error("set I/O priority", priority.io_class);
  }
  return ok();
}

Result<void> set_personality(const oci::Personality& personality) {
  constexpr std::array<Name, 2> kDomains = {{{"LINUX", PER_LINUX}, {"LINUX32", PER_LINUX32}}};
  const std::uint64_t domain = TRY(lookup(kDomains, personality.domain, "personality domain"));
  // config-linux.md: "Currently no flag values are supported." ADDR_NO_RANDOMIZE is one of them.
  if (!personality.flags.empty()) return refusal("personality flag", personality.flags.front(), "unknown");
  if (::personality(static_cast<unsigned long>(domain)) < 0) return errno_error("set personality", personality.domain);
  return ok();
}

Result<void> set_memory_policy(const oci::MemoryPolicy& policy) {
  const auto invalid = [](Error error) {
    error.operation = "invalid memory policy: " + error.operation;
    return error;
  };
  const auto mode = lookup(kMemoryModes, policy.mode, "mode");
  if (!mode) return invalid(mode.error());
  const auto flags = flags_of(kMemoryFlags, policy.flags, "flag");
  if (!flags) return invalid(flags.error());
  std::array<unsigned long, kMostNodes / (CHAR_BIT * sizeof(unsigned long))> mask{};
  if (!policy.nodes.empty()) {
    const auto nodes = parse_number_list(policy.nodes, kMostNodes, "nodes");
    if (!nodes) return invalid(nodes.error());
    constexpr unsigned kWord = CHAR_BIT * sizeof(unsigned long);
    for (const unsigned node : *nodes) mask[node / kWord] |= 1ul << (node % kWord);
  }
  const bool any = !policy.nodes.empty();
  // The kernel reads one bit less than it is told (set_mempolicy(2), BUGS).
  if (syscall(SYS_set_mempolicy, static_cast<long>(*mode | *flags), any ? mask.data() : nullptr,
              any ? kMostNodes + 1ul : 0ul) != 0) {
    return errno_error("set memory policy", policy.mode);
  }
  return ok();
}

Result<void> set_affinity(const std::string& cpus) {
  const std::vector<unsigned> numbers = TRY(parse_number_list(cpus, kMostCpus, "CPU affinity"));
  constexpr std::size_t kSize = CPU_ALLOC_SIZE(kMostCpus);
  std::array<cpu_set_t, (kSize + sizeof(cpu_set_t) - 1) / sizeof(cpu_set_t)> set{};
  for (const unsigned cpu : numbers) CPU_SET_S(cpu, sizeof set, set.data());
  if (sched_setaffinity(0, sizeof set, set.data()) != 0) return errno_error("set CPU affinity", cpus);
  return ok();
}

}  // namespace agentrun::sandbox
