// What linux.resources asks for, and the arithmetic between the v1 numbers of the specification and those of v2. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci/config.h"

namespace agentrun::sandbox {

// Controllers by their v2 names ("io" for blkio) whose limits are asked for; "net_cls" and "net_prio" have no v2 name.
// Device rules are no controller of v2 and not in it. An empty number of the config is no limit asked.
std::set<std::string> asked_controllers(const oci::Resources& resources);

// "io" is "blkio" on v1; the others have the same name.
std::string_view v1_name(std::string_view controller);

// Refuses what would write elsewhere than into the container's own limits: page sizes, device and interface names and
// keys of the unified map become file names and lines. {"cgroup.procs": "1"} would move the host's init into the
// container, so of the core's own files only the two limits are left.
Result<void> check_names(const oci::Resources& resources);

// cpu.weight of a v1 cpu.shares: 2 is 1, 1024 is 100, 262144 is 10000, and a curve through the three (what runc and
// crun use, so that containers of different runtimes share a host fairly). 0: not set.
std::uint64_t weight_of_shares(std::uint64_t shares);

// io.weight (1 to 10000) of a blkio weight (10 to 1000), linear; 0 where it is out of that range.
std::uint64_t io_weight_of_blkio(std::uint64_t weight);

// memory.swap.max of v1's memory+swap. `memory`: the limit in force, -1: none. -1: no limit of swap; nothing: leave it.
Result<std::optional<std::int64_t>> swap_on_v2(std::optional<std::int64_t> swap, std::optional<std::int64_t> memory);

// "max" for -1 and anything below 0.
std::string max_or(std::int64_t value);

// pids.max: 0 is a valid value of the specification (1.3), but with 0 the kernel refuses the clone of the container's
// own first process, so it becomes 1, as runc does. Reading it as "no limit" would loosen.
std::string pids_max(std::int64_t limit);

// "0-3,7" as the little-endian bit mask that systemd's AllowedCPUs wants.
Result<std::vector<std::uint8_t>> cpu_mask(std::string_view list);

}  // namespace agentrun::sandbox
