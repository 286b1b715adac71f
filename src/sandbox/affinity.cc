#include "sandbox/affinity.h"

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace agentrun::sandbox {
namespace {

// The kernel's largest build (CONFIG_NR_CPUS) is 8192; cpu_set_t ends at 1024.
constexpr std::size_t kMostCpus = 8192;

struct FreeSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CpuSet = std::unique_ptr<cpu_set_t, FreeSet>;

std::size_t set_size() { return CPU_ALLOC_SIZE(kMostCpus); }

Result<CpuSet> empty_set() {
  CpuSet set(CPU_ALLOC(kMostCpus));
  if (!set) return os_error(ENOMEM, "allocate", "CPU set");
  CPU_ZERO_S(set_size(), set.get());
  return set;
}

Result<CpuSet> affinity_of(pid_t pid) {
  CpuSet set = TRY(empty_set());
  if (sched_getaffinity(pid, set_size(), set.get()) != 0) return errno_error("sched_getaffinity");
  return set;
}

Result<void> set_affinity_of(pid_t pid, const CpuSet& set) {
  if (sched_setaffinity(pid, set_size(), set.get()) != 0) return errno_error("sched_setaffinity");
  return ok();
}

}  // namespace

Result<std::vector<unsigned>> cpus_of(pid_t pid) {
  const CpuSet set = TRY(affinity_of(pid));
  std::vector<unsigned> cpus;
  for (unsigned cpu = 0; cpu < kMostCpus; ++cpu) {
    if (CPU_ISSET_S(cpu, set_size(), set.get())) cpus.push_back(cpu);
  }
  return cpus;
}

Result<void> set_cpus_of(pid_t pid, const std::vector<unsigned>& cpus) {
  CpuSet set = TRY(empty_set());
  for (const unsigned cpu : cpus) CPU_SET_S(cpu, set_size(), set.get());
  return set_affinity_of(pid, set);
}

std::vector<unsigned> least_used(const std::vector<unsigned>& allowed, std::size_t width,
                                 const std::map<unsigned, unsigned>& uses, unsigned last) {
  std::vector<unsigned> order = allowed;
  std::rotate(order.begin(), std::upper_bound(order.begin(), order.end(), last), order.end());
  const auto count = [&uses](unsigned cpu) {
    const auto found = uses.find(cpu);
    return found == uses.end() ? 0U : found->second;
  };
  std::stable_sort(order.begin(), order.end(), [&count](unsigned a, unsigned b) { return count(a) < count(b); });
  order.resize(std::min(width, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

Result<void> copy_affinity(pid_t from, pid_t to) {
  const CpuSet set = TRY(affinity_of(from));
  return set_affinity_of(to, set);
}

}  // namespace agentrun::sandbox
