#include "sandbox/cgroup_v1.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "base/text.h"
#include "sandbox/cgroup_common.h"
#include "sandbox/cgroup_file.h"
#include "sandbox/cgroup_limits.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

Result<void> inherit_cpuset(const std::string& directory) {
  const std::string parent = directory.substr(0, directory.rfind('/'));
  for (const char* file : {"/cpuset.cpus", "/cpuset.mems"}) {
    if (!text::trim(TRY(sys::read_file(directory + file))).empty()) continue;
    const std::string value = TRY(sys::read_file(parent + file));
    TRY(sys::write_file(directory + file, value));
  }
  return ok();
}

Result<void> make_one(const std::string& directory, bool is_cpuset) {
  if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) return errno_error("mkdir", directory);
  return is_cpuset ? inherit_cpuset(directory) : ok();
}

// memory may not be more than memory and swap together at any moment: the one that grows goes last, the one that
// shrinks first, and the kernel knows which (EINVAL).
Result<void> write_memory_and_swap(const std::string& directory, std::optional<std::int64_t> memory,
                                   std::optional<std::int64_t> swap) {
  const char* memory_file = "memory.limit_in_bytes";
  const char* swap_file = "memory.memsw.limit_in_bytes";
  if (!memory) return write_limit(directory, swap_file, std::to_string(*swap));
  if (!swap) return write_limit(directory, memory_file, std::to_string(*memory));
  auto first = write_limit(directory, memory_file, std::to_string(*memory));
  if (!first && first.error().code != EINVAL) return first;
  TRY(write_limit(directory, swap_file, std::to_string(*swap)));
  return first ? ok() : write_limit(directory, memory_file, std::to_string(*memory));
}

// memory.memsw.limit_in_bytes of what the config says. 0 means no swap at all, as on v2.
Result<std::optional<std::int64_t>> swap_limit(const std::string& directory, const oci::MemoryResources& memory) {
  const std::string file = directory + "/memory.memsw.limit_in_bytes";
  const bool accounted = access(file.c_str(), F_OK) == 0;
  std::optional<std::int64_t> swap = memory.swap;
  if (!swap && memory.limit && *memory.limit < 0 && accounted) swap = -1;
  if (!swap) return swap;
  if (*swap == 0) {
    if (!memory.limit) return refusal("set", file, "no swap (0) needs a memory limit");
    swap = memory.limit;
  }
  // Without swap in the kernel every limit of it holds; with swap but without its accounting none does.
  if (!accounted && (*swap < 0 || access("/proc/swaps", F_OK) != 0)) return std::optional<std::int64_t>();
  return swap;
}

Result<void> limit_memory(const std::string& directory, const oci::MemoryResources& memory) {
  if (memory.limit && *memory.limit == 0) {
    return refusal("set", directory + "/memory.limit_in_bytes",
                   "a limit of 0 bytes: nothing runs in that; no limit is -1");
  }
  const std::optional<std::int64_t> swap = TRY(swap_limit(directory, memory));
  if (memory.limit || swap) TRY(write_memory_and_swap(directory, memory.limit, swap));
  if (memory.use_hierarchy) TRY(write_limit(directory, "memory.use_hierarchy", *memory.use_hierarchy ? "1" : "0"));
  if (memory.reservation.value_or(0) != 0) {
    TRY(write_limit(directory, "memory.soft_limit_in_bytes", std::to_string(*memory.reservation)));
  }
  if (memory.kernel_tcp) {
    TRY(write_limit(directory, "memory.kmem.tcp.limit_in_bytes", std::to_string(*memory.kernel_tcp)));
  }
  if (memory.swappiness) TRY(write_limit(directory, "memory.swappiness", std::to_string(*memory.swappiness)));
  if (memory.disable_oom_killer.value_or(false)) TRY(write_limit(directory, "memory.oom_control", "1"));
  return ok();
}

// Period, quota and burst check one another and the parent's: what is refused as invalid is tried again when the others
// are in place.
Result<void> write_bandwidth(const std::string& directory, const oci::CpuResources& cpu) {
  struct Setting {
    const char* file;
    std::string value;
  };
  std::vector<Setting> settings;
  if (cpu.period.value_or(0) != 0) settings.push_back({"cpu.cfs_period_us", std::to_string(*cpu.period)});
  if (cpu.quota.value_or(0) != 0) settings.push_back({"cpu.cfs_quota_us", std::to_string(*cpu.quota)});
  if (cpu.burst) settings.push_back({"cpu.cfs_burst_us", std::to_string(*cpu.burst)});
  std::vector<Setting> again;
  for (const Setting& setting : settings) {
    auto written = write_limit(directory, setting.file, setting.value);
    if (written) continue;
    if (written.error().code != EINVAL || settings.size() == 1) return written;
    again.insert(again.begin(), setting);
  }
  for (const Setting& setting : again) TRY(write_limit(directory, setting.file, setting.value));
  return ok();
}

Result<void> limit_cpu(const std::string& directory, const oci::CpuResources& cpu) {
  if (cpu.idle) TRY(write_limit(directory, "cpu.idle", std::to_string(*cpu.idle)));
  if (cpu.shares.value_or(0) != 0 && cpu.idle.value_or(0) == 0) {
    TRY(write_limit(directory, "cpu.shares", std::to_string(*cpu.shares)));
  }
  TRY(write_bandwidth(directory, cpu));
  const std::int64_t runtime = cpu.realtime_runtime.value_or(0);
  const std::uint64_t period = cpu.realtime_period.value_or(0);
  bool period_left = period != 0;
  if (period_left && write_limit(directory, "cpu.rt_period_us", std::to_string(period))) period_left = false;
  if (runtime != 0) TRY(write_limit(directory, "cpu.rt_runtime_us", std::to_string(runtime)));
  if (period_left) TRY(write_limit(directory, "cpu.rt_period_us", std::to_string(period)));
  return ok();
}

Result<void> limit_cpuset(const std::string& directory, const oci::CpuResources& cpu) {
  if (!cpu.cpus.empty()) TRY(write_limit(directory, "cpuset.cpus", cpu.cpus));
  if (!cpu.mems.empty()) TRY(write_limit(directory, "cpuset.mems", cpu.mems));
  return ok();
}

std::string device_line(std::int64_t major, std::int64_t minor, std::uint64_t value) {
  return std::to_string(major) + ":" + std::to_string(minor) + " " + std::to_string(value);
}

Result<void> limit_blkio(const std::string& directory, const oci::BlockIoResources& io) {
  // CFQ's files until Linux 5.0, BFQ's since.
  const bool bfq = !has_file(directory, "blkio.weight");
  const auto file = [&](const char* name) { return std::string(bfq ? "blkio.bfq." : "blkio.") + name; };
  if (io.weight.value_or(0) != 0) TRY(write_limit(directory, file("weight"), std::to_string(*io.weight)));
  if (io.leaf_weight.value_or(0) != 0) {
    TRY(write_limit(directory, file("leaf_weight"), std::to_string(*io.leaf_weight)));
  }
  for (const oci::WeightDevice& device : io.weight_devices) {
    if (device.weight.value_or(0) != 0) {
      TRY(write_limit(directory, file("weight_device"), device_line(device.major, device.minor, *device.weight)));
    }
    if (device.leaf_weight.value_or(0) != 0) {
      TRY(write_limit(directory, file("leaf_weight_device"),
                      device_line(device.major, device.minor, *device.leaf_weight)));
    }
  }
  const auto throttle = [&](const char* name, const std::vector<oci::ThrottleDevice>& devices) -> Result<void> {
    for (const oci::ThrottleDevice& device : devices) {
      TRY(write_limit(directory, name, device_line(device.major, device.minor, device.rate)));
    }
    return ok();
  };
  TRY(throttle("blkio.throttle.read_bps_device", io.read_bps));
  TRY(throttle("blkio.throttle.write_bps_device", io.write_bps));
  TRY(throttle("blkio.throttle.read_iops_device", io.read_iops));
  return throttle("blkio.throttle.write_iops_device", io.write_iops);
}

Result<void> limit_network(const std::string& directory, std::string_view controller,
                           const oci::NetworkResources& network) {
  if (controller == "net_cls" && network.class_id.value_or(0) != 0) {
    TRY(write_limit(directory, "net_cls.classid", std::to_string(*network.class_id)));
  }
  if (controller == "net_prio") {
    for (const oci::NetworkPriority& priority : network.priorities) {
      TRY(write_limit(directory, "net_prio.ifpriomap", priority.name + " " + std::to_string(priority.priority)));
    }
  }
  return ok();
}

}  // namespace

Result<void> make_v1(const std::vector<std::string>& parents, const std::string& directory, bool is_cpuset) {
  for (const std::string& parent : parents) TRY(make_one(parent, is_cpuset));
  return make_one(directory, is_cpuset);
}

Result<void> limit_v1(const std::string& directory, std::string_view controller, const oci::Resources& resources) {
  if (controller == "memory" && resources.memory) return limit_memory(directory, *resources.memory);
  if (controller == "cpu" && resources.cpu) return limit_cpu(directory, *resources.cpu);
  if (controller == "cpuset" && resources.cpu) return limit_cpuset(directory, *resources.cpu);
  if (controller == "pids" && resources.pids_limit) {
    return write_limit(directory, "pids.max", pids_max(*resources.pids_limit));
  }
  if (controller == "io" && resources.block_io) return limit_blkio(directory, *resources.block_io);
  if (controller == "hugetlb") return limit_hugetlb(directory, resources.hugepage_limits, "limit_in_bytes");
  if (controller == "rdma") return limit_rdma(directory, resources);
  if (resources.network) return limit_network(directory, controller, *resources.network);
  return ok();
}

}  // namespace agentrun::sandbox
