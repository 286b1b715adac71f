// Readings of a container's cgroup for `events`, `stats` and the audit record: v2's files, or v1's with their numbers
// brought to the same units. What a hierarchy does not offer is left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sandbox/cgroup.h"

namespace agentrun::sandbox {

struct IoMetrics {
  std::uint64_t major = 0, minor = 0;
  std::uint64_t read_bytes = 0, write_bytes = 0, reads = 0, writes = 0;
};

struct HugepageMetrics {
  std::string page_size;                              // "2MB"
  std::optional<std::uint64_t> usage, peak, refused;  // bytes, bytes (v1 only), how often
};

struct CgroupMetrics {
  // microseconds
  std::optional<std::uint64_t> cpu_usage_us, cpu_user_us, cpu_system_us, throttled_us;
  std::optional<std::uint64_t> periods, throttled_periods;
  // bytes; a limit is left out where there is none
  std::optional<std::uint64_t> memory_current, memory_peak, memory_limit;
  std::optional<std::uint64_t> swap_current, swap_limit;  // of swap alone
  std::optional<std::uint64_t> memory_file, memory_anon;  // page cache; anonymous
  std::optional<std::uint64_t> memory_inactive_file;      // what "docker stats" takes off
  std::optional<std::uint64_t> page_faults, major_page_faults;
  std::optional<std::uint64_t> memory_limit_hits;      // how often the limit made somebody reclaim or fail
  std::optional<std::uint64_t> oom_events, oom_kills;  // the first on v2 only
  std::optional<std::uint64_t> pids_current, pids_limit, pids_refused;
  std::vector<IoMetrics> io;
  std::vector<HugepageMetrics> hugepages;  // of each page size that the kernel has
};

// Errors: the cgroup is gone.
Result<CgroupMetrics> read_metrics(const CgroupLocation& location);

// What becomes ready when the kernel may have killed in the cgroup for memory: v2's memory.events for POLLPRI, v1's
// eventfd (the kernel's cgroup-v1/memory.rst, "OOM Control") for POLLIN. `fd` is invalid where there is no such
// controller.
struct OomEvents {
  UniqueFd fd;
  short events = 0;
};
Result<OomEvents> watch_oom(const CgroupLocation& location);
void acknowledge(const OomEvents& watch);  // until the next one

}  // namespace agentrun::sandbox
