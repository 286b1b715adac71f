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
};

// Errors: the cgroup is gone.
Result<CgroupMetrics> read_metrics(const CgroupLocation& location);

}  // namespace agentrun::sandbox
