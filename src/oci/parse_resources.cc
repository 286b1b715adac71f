// config-linux.md, resources: what `update --resources` takes too. Much of it is written into files of a cgroup, so
// whatever becomes a file's name or a word of its line is checked for what it is.
#include "oci/checks.h"
#include "oci/parse_parts.h"

namespace agentrun::oci {

// A limit where -1 stands for none.
static std::string limit_or_none(std::int64_t value) { return value < -1 ? "expected -1 or more" : ""; }

// Absent, and -1 as Docker and CRI write it: all devices.
static Result<void> read_wildcard(const JsonReader& in, std::string_view key, std::int64_t limit,
                                  std::optional<std::int64_t>& number) {
  TRY(in.read(key, number, between{-1, limit}));
  if (number == -1) number.reset();
  return ok();
}

static Result<void> from_json(const JsonReader& in, DeviceRule& rule) {
  TRY(in.require("allow", rule.allow));
  std::string type = "a";
  TRY(in.read("type", type, [](const std::string& value) {
    return value.empty() || value == "a" || value == "b" || value == "c" ? "" : invalid("device type", value);
  }));
  rule.type = type.empty() ? 'a' : type[0];
  TRY(read_wildcard(in, "major", kMajorLimit, rule.major));
  TRY(read_wildcard(in, "minor", kMinorLimit, rule.minor));
  TRY(in.read("access", rule.access, [](const std::string& value) {
    return value.find_first_not_of("rwm") == std::string::npos ? "" : invalid("device access", value);
  }));
  // Nothing said: a denial is of everything; what is allowed has to be said.
  if (rule.access.empty() && rule.allow) return in.error_at("access", "missing");
  if (rule.access.empty()) rule.access = "rwm";
  return ok();
}

static Result<void> from_json(const JsonReader& in, MemoryResources& memory) {
  TRY(in.read("limit", memory.limit, limit_or_none));
  TRY(in.read("reservation", memory.reservation, limit_or_none));
  TRY(in.read("swap", memory.swap, limit_or_none));
  TRY(in.read("kernel", memory.kernel, limit_or_none));
  TRY(in.read("kernelTCP", memory.kernel_tcp, limit_or_none));
  TRY(in.read("swappiness", memory.swappiness));
  TRY(in.read("disableOOMKiller", memory.disable_oom_killer));
  TRY(in.read("useHierarchy", memory.use_hierarchy));
  TRY(in.read("checkBeforeUpdate", memory.check_before_update));
  return ok();
}

static Result<void> from_json(const JsonReader& in, CpuResources& cpu) {
  TRY(in.read("shares", cpu.shares));
  TRY(in.read("quota", cpu.quota, limit_or_none));
  TRY(in.read("burst", cpu.burst));
  TRY(in.read("period", cpu.period));
  TRY(in.read("realtimeRuntime", cpu.realtime_runtime));
  TRY(in.read("realtimePeriod", cpu.realtime_period));
  TRY(in.read("cpus", cpu.cpus, cpu_list));
  TRY(in.read("mems", cpu.mems, cpu_list));
  TRY(in.read("idle", cpu.idle));
  return ok();
}

// An object of the text, one number of ours. (Not in an unnamed namespace: its from_json is looked up by argument.)
struct PidsResources {
  std::optional<std::int64_t> limit;
};

static Result<void> from_json(const JsonReader& in, PidsResources& pids) {
  TRY(in.read("limit", pids.limit, limit_or_none));
  return ok();
}

static Result<void> from_json(const JsonReader& in, ThrottleDevice& device) {
  TRY(read_device_number(in, device.major, device.minor));
  TRY(in.require("rate", device.rate));
  return ok();
}

static Result<void> from_json(const JsonReader& in, WeightDevice& device) {
  TRY(read_device_number(in, device.major, device.minor));
  TRY(in.read("weight", device.weight));
  TRY(in.read("leafWeight", device.leaf_weight));
  return ok();
}

static Result<void> from_json(const JsonReader& in, BlockIoResources& block_io) {
  TRY(in.read("weight", block_io.weight));
  TRY(in.read("leafWeight", block_io.leaf_weight));
  TRY(in.read("weightDevice", block_io.weight_devices));
  TRY(in.read("throttleReadBpsDevice", block_io.read_bps));
  TRY(in.read("throttleWriteBpsDevice", block_io.write_bps));
  TRY(in.read("throttleReadIOPSDevice", block_io.read_iops));
  TRY(in.read("throttleWriteIOPSDevice", block_io.write_iops));
  return ok();
}

static Result<void> from_json(const JsonReader& in, HugepageLimit& limit) {
  TRY(in.require("pageSize", limit.page_size, page_size));
  TRY(in.require("limit", limit.limit));
  return ok();
}

static Result<void> from_json(const JsonReader& in, NetworkPriority& priority) {
  TRY(in.require("name", priority.name, interface_name));
  TRY(in.require("priority", priority.priority));
  return ok();
}

static Result<void> from_json(const JsonReader& in, NetworkResources& network) {
  TRY(in.read("classID", network.class_id));
  TRY(in.read("priorities", network.priorities));
  return ok();
}

static Result<void> from_json(const JsonReader& in, RdmaLimit& limit) {
  TRY(in.read("hcaHandles", limit.hca_handles));
  TRY(in.read("hcaObjects", limit.hca_objects));
  return ok();
}

Result<void> from_json(const JsonReader& in, Resources& resources) {
  TRY(in.read("devices", resources.devices));
  TRY(in.read("memory", resources.memory));
  TRY(in.read("cpu", resources.cpu));
  PidsResources pids;
  TRY(in.read("pids", pids));
  resources.pids_limit = pids.limit;
  TRY(in.read("blockIO", resources.block_io));
  TRY(in.read("hugepageLimits", resources.hugepage_limits));
  TRY(in.read("network", resources.network));
  TRY(in.read_map("rdma", resources.rdma, plain_word));
  TRY(in.read_map("unified", resources.unified, unified_key));
  return ok();
}

}  // namespace agentrun::oci
