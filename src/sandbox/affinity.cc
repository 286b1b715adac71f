#include "sandbox/affinity.h"

#include <sched.h>

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

Result<void> narrow_affinity(pid_t pid, std::int64_t width) {
  const CpuSet allowed = TRY(affinity_of(pid));
  std::vector<std::size_t> cpus;
  for (std::size_t cpu = 0; cpu < kMostCpus; ++cpu) {
    if (CPU_ISSET_S(cpu, set_size(), allowed.get())) cpus.push_back(cpu);
  }
  if (width < 1 || static_cast<std::size_t>(width) >= cpus.size()) return ok();
  CpuSet chosen = TRY(empty_set());
  const std::size_t first = static_cast<std::size_t>(pid) % cpus.size();
  for (std::size_t i = 0; i < static_cast<std::size_t>(width); ++i) {
    CPU_SET_S(cpus[(first + i) % cpus.size()], set_size(), chosen.get());
  }
  return set_affinity_of(pid, chosen);
}

Result<void> copy_affinity(pid_t from, pid_t to) {
  const CpuSet set = TRY(affinity_of(from));
  return set_affinity_of(to, set);
}

}  // namespace agentrun::sandbox
