#include "sandbox/cgroup_v2.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "sandbox/cgroup_common.h"
#include "sandbox/cgroup_file.h"
#include "sandbox/cgroup_limits.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

// What is handed down where it can be had, asked for or not.
constexpr const char* kUseful[] = {"cpuset", "cpu", "io", "memory", "hugetlb", "pids", "rdma", "misc", "dmem"};

std::string parent_of(const std::string& directory) { return directory.substr(0, directory.rfind('/')); }

Result<std::set<std::string>> read_set(const std::string& path) {
  const std::string content = TRY(sys::read_file(path));
  std::set<std::string> result;
  for (const std::string_view word : text::split_words(content)) result.emplace(word);
  return result;
}

Result<void> make_one(const std::string& directory) {
  if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) return errno_error("mkdir", directory);
  return ok();
}

Result<bool> has_processes(const std::string& directory) {
  const std::string processes = TRY(sys::read_file(directory + "/cgroup.procs"));
  return !text::trim(processes).empty();
}

Error explain_hand_down(Error error, const std::string& parent, const std::string& controllers) {
  error.operation = "hand down controllers (" + controllers + ") in";
  error.object = parent + "/cgroup.subtree_control";
  if (error.code == EBUSY) {
    error.reason =
        "the cgroup has processes of its own, and cgroup v2 gives controllers only to the children of a cgroup "
        "without processes: move them into a child cgroup, or choose another linux.cgroupsPath";
  }
  return error;
}

// Writes "+a +b" in one go, which is the fast way; where that is refused, one by one, so that a useful one does not
// take a required one down with it.
Result<void> enable(const std::string& parent, const std::set<std::string>& wanted,
                    const std::set<std::string>& required) {
  if (wanted.empty()) return ok();
  // With processes of its own the kernel lets only the threaded controllers (cpu, pids) down, and by that makes each
  // child "domain invalid": no process could be in it (cgroup-v2.rst, "Threads"). The root alone may have both.
  if (has_file(parent, "cgroup.type") && TRY(has_processes(parent))) {
    for (const std::string& name : wanted) {
      if (required.contains(name)) return explain_hand_down(os_error(EBUSY, {}, {}), parent, name);
    }
    return ok();
  }
  const std::string file = parent + "/cgroup.subtree_control";
  std::string all;
  for (const std::string& name : wanted) all += (all.empty() ? "+" : " +") + name;
  if (sys::write_file(file, all)) return ok();
  for (const std::string& name : wanted) {
    auto written = sys::write_file(file, "+" + name);
    if (!written && required.contains(name)) return explain_hand_down(std::move(written).error(), parent, name);
  }
  return ok();
}

// `wanted` in the subtree_control of `parent`, asking further up for what `parent` itself does not have. Ends at the
// top of what this mount shows.
Result<void> hand_down(const std::string& parent, const std::set<std::string>& wanted,
                       const std::set<std::string>& required) {
  const std::string control = parent + "/cgroup.subtree_control";
  if (access(control.c_str(), F_OK) != 0) return ok();
  const std::set<std::string> enabled = TRY(read_set(control));
  std::set<std::string> missing;
  std::set_difference(wanted.begin(), wanted.end(), enabled.begin(), enabled.end(),
                      std::inserter(missing, missing.end()));
  if (missing.empty()) return ok();
  const auto split_by = [&](const std::set<std::string>& offered) {
    std::pair<std::set<std::string>, std::set<std::string>> parts;  // can be enabled here; cannot
    for (const std::string& name : missing) (offered.contains(name) ? parts.first : parts.second).insert(name);
    return parts;
  };
  auto [here, above] = split_by(TRY(read_set(parent + "/cgroup.controllers")));
  if (!above.empty()) {
    TRY(hand_down(parent_of(parent), above, required));
    std::tie(here, above) = split_by(TRY(read_set(parent + "/cgroup.controllers")));
  }
  return enable(parent, here, required);
}

Result<void> check_memory_usage(const std::string& directory, std::int64_t limit, std::optional<std::int64_t> total) {
  const std::uint64_t memory = read_number(directory, "memory.current").value_or(0);
  if (limit >= 0 && static_cast<std::uint64_t>(limit) < memory) {
    return refusal("set", directory + "/memory.max",
                   "rejecting memory limit " + std::to_string(limit) + " < usage " + std::to_string(memory));
  }
  const std::uint64_t swap = read_number(directory, "memory.swap.current").value_or(0);
  if (total && *total > 0 && static_cast<std::uint64_t>(*total) < memory + swap) {
    return refusal(
        "set", directory + "/memory.swap.max",
        "rejecting memory+swap limit " + std::to_string(*total) + " < usage " + std::to_string(memory + swap));
  }
  return ok();
}

// A kernel without swap has no memory.swap.max: every limit of swap holds there. With swap but without its accounting
// none does.
Result<void> write_swap(const std::string& directory, std::int64_t swap) {
  if (!has_file(directory, "memory.swap.max") && (swap < 0 || access("/proc/swaps", F_OK) != 0)) return ok();
  return write_limit(directory, "memory.swap.max", max_or(swap));
}

Result<void> refuse_v1_only(const std::string& directory, const oci::MemoryResources& memory) {
  const auto no = [&](const char* field) {
    return refusal("set linux.resources.memory." + std::string(field) + " in", directory,
                   "cgroup v2 has no such setting");
  };
  if (memory.swappiness) return no("swappiness");
  if (memory.disable_oom_killer.value_or(false)) return no("disableOOMKiller");
  if (memory.kernel_tcp) return no("kernelTCP");
  if (!memory.use_hierarchy.value_or(true)) return no("useHierarchy");
  return ok();
}

Result<void> limit_memory(const std::string& directory, const oci::MemoryResources& memory) {
  TRY(refuse_v1_only(directory, memory));
  if (memory.limit && *memory.limit == 0) {
    return refusal("set", directory + "/memory.max", "a limit of 0 bytes: nothing runs in that; no limit is -1");
  }
  std::optional<std::int64_t> in_force = memory.limit;
  if (!in_force && memory.swap) {
    if (const auto now = read_number(directory, "memory.max")) in_force = static_cast<std::int64_t>(*now);
  }
  if (memory.check_before_update.value_or(false) && memory.limit) {
    TRY(check_memory_usage(directory, *memory.limit, memory.swap));
  }
  if (const std::optional<std::int64_t> swap = TRY(swap_on_v2(memory.swap, in_force))) {
    // A -1 that only follows from an unlimited memory is no wish for accounting of swap.
    if (memory.swap || has_file(directory, "memory.swap.max")) TRY(write_swap(directory, *swap));
  }
  if (memory.limit) TRY(write_limit(directory, "memory.max", max_or(*memory.limit)));
  if (memory.reservation) TRY(write_limit(directory, "memory.low", max_or(*memory.reservation)));
  return ok();
}

// One write of both: in two, one of them could break a rule that both together keep. What is not asked for stays.
Result<void> write_cpu_max(const std::string& directory, const oci::CpuResources& cpu) {
  const std::int64_t quota = cpu.quota.value_or(0);
  const std::uint64_t period = cpu.period.value_or(0);
  if (quota == 0 && period == 0) return ok();
  std::string value;
  if (quota != 0) {
    value = max_or(quota);
  } else {
    const std::string now = TRY(sys::read_file(directory + "/cpu.max"));
    value = now.substr(0, now.find(' '));
  }
  if (period != 0) value += " " + std::to_string(period);
  return write_limit(directory, "cpu.max", value);
}

Result<void> limit_cpu(const std::string& directory, const oci::CpuResources& cpu) {
  if (cpu.realtime_runtime.value_or(0) != 0 || cpu.realtime_period.value_or(0) != 0) {
    return refusal("set linux.resources.cpu.realtimeRuntime in", directory, "cgroup v2 has no such setting");
  }
  if (cpu.idle) TRY(write_limit(directory, "cpu.idle", std::to_string(*cpu.idle)));
  // An idle cgroup has a fixed weight: writing another is EINVAL.
  const std::uint64_t weight = weight_of_shares(cpu.shares.value_or(0));
  if (weight != 0 && cpu.idle.value_or(0) == 0) TRY(write_limit(directory, "cpu.weight", std::to_string(weight)));
  // The burst may not exceed the quota: before it where it shrinks, after it where it grows.
  bool burst_left = cpu.burst.has_value();
  if (cpu.burst && write_limit(directory, "cpu.max.burst", std::to_string(*cpu.burst))) burst_left = false;
  TRY(write_cpu_max(directory, cpu));
  if (burst_left) TRY(write_limit(directory, "cpu.max.burst", std::to_string(*cpu.burst)));
  return ok();
}

Result<void> limit_cpuset(const std::string& directory, const oci::CpuResources& cpu) {
  if (!cpu.cpus.empty()) TRY(write_limit(directory, "cpuset.cpus", cpu.cpus));
  if (!cpu.mems.empty()) TRY(write_limit(directory, "cpuset.mems", cpu.mems));
  return ok();
}

std::string device_of(std::int64_t major, std::int64_t minor) {
  return std::to_string(major) + ":" + std::to_string(minor);
}

Result<void> limit_io_weight(const std::string& directory, const oci::BlockIoResources& io) {
  if (io.leaf_weight.value_or(0) != 0) {
    return refusal("set linux.resources.blockIO.leafWeight in", directory, "cgroup v2 has no such setting");
  }
  const bool bfq = has_file(directory, "io.bfq.weight");
  const auto convert = [&](std::uint64_t weight) -> Result<std::string> {
    if (bfq) return std::to_string(weight);
    const std::uint64_t converted = io_weight_of_blkio(weight);
    if (converted == 0) return refusal("set", directory + "/io.weight", "a blockIO weight is from 10 to 1000");
    return std::to_string(converted);
  };
  const char* file = bfq ? "io.bfq.weight" : "io.weight";
  if (io.weight.value_or(0) != 0) {
    const std::string weight = TRY(convert(*io.weight));
    TRY(write_limit(directory, file, weight));
  }
  for (const oci::WeightDevice& device : io.weight_devices) {
    if (device.leaf_weight.value_or(0) != 0) {
      return refusal("set linux.resources.blockIO.weightDevice.leafWeight in", directory,
                     "cgroup v2 has no such setting");
    }
    if (device.weight.value_or(0) == 0) continue;
    const std::string weight = TRY(convert(*device.weight));
    TRY(write_limit(directory, file, device_of(device.major, device.minor) + " " + weight));
  }
  return ok();
}

Result<void> limit_io(const std::string& directory, const oci::BlockIoResources& io) {
  TRY(limit_io_weight(directory, io));
  const auto throttle = [&](const char* key, const std::vector<oci::ThrottleDevice>& devices) -> Result<void> {
    for (const oci::ThrottleDevice& device : devices) {
      // 0 took a v1 limit away; v2 says "max" for that.
      const std::string rate = device.rate == 0 ? "max" : std::to_string(device.rate);
      TRY(write_limit(directory, "io.max", device_of(device.major, device.minor) + " " + key + "=" + rate));
    }
    return ok();
  };
  TRY(throttle("rbps", io.read_bps));
  TRY(throttle("wbps", io.write_bps));
  TRY(throttle("riops", io.read_iops));
  return throttle("wiops", io.write_iops);
}

}  // namespace

Result<void> make_v2(const std::vector<std::string>& parents, const std::string& directory) {
  for (const std::string& parent : parents) TRY(make_one(parent));
  TRY(make_one(directory));
  // Absent in the root. "domain invalid" is what a child of a threaded cgroup is born as.
  const auto type = sys::read_file(directory + "/cgroup.type");
  if (type && text::trim(*type) != "domain" && text::trim(*type) != "domain threaded") {
    return refusal(
        "use the cgroup", directory,
        "it is \"" + std::string(text::trim(*type)) + "\": a parent is threaded, and processes cannot be in it");
  }
  return ok();
}

Result<void> hand_down_controllers(const std::string& directory, const std::set<std::string>& required, bool useful) {
  std::set<std::string> wanted = required;
  if (useful) wanted.insert(std::begin(kUseful), std::end(kUseful));
  if (wanted.empty()) return ok();
  const std::string parent = parent_of(directory);
  auto handed = hand_down(parent, wanted, required);
  if (!handed && !required.empty()) return handed;
  if (required.empty()) return ok();
  const std::set<std::string> offered = TRY(read_set(directory + "/cgroup.controllers"));
  for (const std::string& name : required) {
    if (offered.contains(name)) continue;
    return refusal("limit by the controller \"" + name + "\" in", directory + "/cgroup.controllers",
                   "controller `" + name + "` is not available under " + parent);
  }
  return ok();
}

Result<void> limit_v2(const std::string& directory, std::string_view controller, const oci::Resources& resources) {
  if (controller == "memory" && resources.memory) return limit_memory(directory, *resources.memory);
  if (controller == "cpu" && resources.cpu) return limit_cpu(directory, *resources.cpu);
  if (controller == "cpuset" && resources.cpu) return limit_cpuset(directory, *resources.cpu);
  if (controller == "pids" && resources.pids_limit) {
    return write_limit(directory, "pids.max", pids_max(*resources.pids_limit));
  }
  if (controller == "io" && resources.block_io) return limit_io(directory, *resources.block_io);
  if (controller == "hugetlb") return limit_hugetlb(directory, resources.hugepage_limits, "max");
  if (controller == "rdma") return limit_rdma(directory, resources);
  if (controller == "net_cls" || controller == "net_prio") {
    return refusal("set linux.resources.network in", directory, "network limits are not supported on cgroup v2");
  }
  return ok();  // a controller that only the unified map names
}

Result<void> write_unified(const std::string& directory, const oci::Resources& resources) {
  for (const auto& [key, value] : resources.unified) {
    // An empty value is one: it takes a cpuset.cpus away.
    if (text::trim(value).empty()) TRY(write_limit(directory, key, "\n"));
    for (const std::string_view line : text::split(value, '\n')) {
      if (!text::trim(line).empty()) TRY(write_limit(directory, key, std::string(text::trim(line))));
    }
  }
  return ok();
}

Result<void> attach_to(const std::string& directory, pid_t pid) {
  auto written = sys::write_file(directory + "/cgroup.procs", std::to_string(pid));
  if (written) return ok();
  Error error = std::move(written).error();
  error.operation = "add process " + std::to_string(pid) + " to";
  if (error.code == EBUSY) {
    error.reason = "the cgroup hands controllers down to its children, so it can have no processes of its own";
  }
  return error;
}

}  // namespace agentrun::sandbox
