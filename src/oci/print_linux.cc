// config-linux.md of the specification.
#include "oci/print_parts.h"

namespace agentrun::oci {

static void to_json(JsonWriter& out, const Namespace& entry) {
  out.begin_object();
  out.member("type", name_of(entry.type));
  out.member_if_set("path", entry.path);
  out.end_object();
}

static void to_json(JsonWriter& out, const TimeOffset& offset) {
  out.begin_object();
  out.member("secs", offset.secs);
  out.member("nanosecs", offset.nanosecs);
  out.end_object();
}

static void to_json(JsonWriter& out, const Device& device) {
  out.begin_object();
  out.member("path", device.path);
  out.member("type", device.type);
  if (device.type != 'p') {
    out.member("major", device.major);
    out.member("minor", device.minor);
  }
  out.member_if_set("fileMode", device.file_mode);
  out.member_if_set("uid", device.uid);
  out.member_if_set("gid", device.gid);
  out.end_object();
}

static void to_json(JsonWriter& out, const NetDevice& device) {
  out.begin_object();
  out.member_if_set("name", device.name);
  out.end_object();
}

static void to_json(JsonWriter& out, const DeviceRule& rule) {
  out.begin_object();
  out.member("allow", rule.allow);
  out.member("type", rule.type);
  out.member_if_set("major", rule.major);
  out.member_if_set("minor", rule.minor);
  out.member("access", rule.access);
  out.end_object();
}

static void to_json(JsonWriter& out, const MemoryResources& memory) {
  out.begin_object();
  out.member_if_set("limit", memory.limit);
  out.member_if_set("reservation", memory.reservation);
  out.member_if_set("swap", memory.swap);
  out.member_if_set("kernel", memory.kernel);
  out.member_if_set("kernelTCP", memory.kernel_tcp);
  out.member_if_set("swappiness", memory.swappiness);
  out.member_if_set("disableOOMKiller", memory.disable_oom_killer);
  out.member_if_set("useHierarchy", memory.use_hierarchy);
  out.member_if_set("checkBeforeUpdate", memory.check_before_update);
  out.end_object();
}

static void to_json(JsonWriter& out, const CpuResources& cpu) {
  out.begin_object();
  out.member_if_set("shares", cpu.shares);
  out.member_if_set("quota", cpu.quota);
  out.member_if_set("burst", cpu.burst);
  out.member_if_set("period", cpu.period);
  out.member_if_set("realtimeRuntime", cpu.realtime_runtime);
  out.member_if_set("realtimePeriod", cpu.realtime_period);
  out.member_if_set("cpus", cpu.cpus);
  out.member_if_set("mems", cpu.mems);
  out.member_if_set("idle", cpu.idle);
  out.end_object();
}

static void to_json(JsonWriter& out, const ThrottleDevice& device) {
  out.begin_object();
  out.member("major", device.major);
  out.member("minor", device.minor);
  out.member("rate", device.rate);
  out.end_object();
}

static void to_json(JsonWriter& out, const WeightDevice& device) {
  out.begin_object();
  out.member("major", device.major);
  out.member("minor", device.minor);
  out.member_if_set("weight", device.weight);
  out.member_if_set("leafWeight", device.leaf_weight);
  out.end_object();
}

static void to_json(JsonWriter& out, const BlockIoResources& block_io) {
  out.begin_object();
  out.member_if_set("weight", block_io.weight);
  out.member_if_set("leafWeight", block_io.leaf_weight);
  out.member_if_set("weightDevice", block_io.weight_devices);
  out.member_if_set("throttleReadBpsDevice", block_io.read_bps);
  out.member_if_set("throttleWriteBpsDevice", block_io.write_bps);
  out.member_if_set("throttleReadIOPSDevice", block_io.read_iops);
  out.member_if_set("throttleWriteIOPSDevice", block_io.write_iops);
  out.end_object();
}

static void to_json(JsonWriter& out, const HugepageLimit& limit) {
  out.begin_object();
  out.member("pageSize", limit.page_size);
  out.member("limit", limit.limit);
  out.end_object();
}

static void to_json(JsonWriter& out, const NetworkPriority& priority) {
  out.begin_object();
  out.member("name", priority.name);
  out.member("priority", priority.priority);
  out.end_object();
}

static void to_json(JsonWriter& out, const NetworkResources& network) {
  out.begin_object();
  out.member_if_set("classID", network.class_id);
  out.member_if_set("priorities", network.priorities);
  out.end_object();
}

static void to_json(JsonWriter& out, const RdmaLimit& limit) {
  out.begin_object();
  out.member_if_set("hcaHandles", limit.hca_handles);
  out.member_if_set("hcaObjects", limit.hca_objects);
  out.end_object();
}

void to_json(JsonWriter& out, const Resources& resources) {
  out.begin_object();
  out.member_if_set("devices", resources.devices);
  out.member_if_set("memory", resources.memory);
  out.member_if_set("cpu", resources.cpu);
  if (resources.pids_limit) {
    out.key("pids");
    out.begin_object();
    out.member("limit", resources.pids_limit);
    out.end_object();
  }
  out.member_if_set("blockIO", resources.block_io);
  out.member_if_set("hugepageLimits", resources.hugepage_limits);
  out.member_if_set("network", resources.network);
  out.member_if_set("rdma", resources.rdma);
  out.member_if_set("unified", resources.unified);
  out.end_object();
}

static void to_json(JsonWriter& out, const SeccompArg& arg) {
  out.begin_object();
  out.member("index", arg.index);
  out.member("value", arg.value);
  out.member("valueTwo", arg.value_two);
  out.member("op", arg.op);
  out.end_object();
}

static void to_json(JsonWriter& out, const SeccompRule& rule) {
  out.begin_object();
  out.member("names", rule.names);
  out.member("action", rule.action);
  out.member_if_set("errnoRet", rule.errno_ret);
  out.member_if_set("args", rule.args);
  out.end_object();
}

static void to_json(JsonWriter& out, const Seccomp& seccomp) {
  out.begin_object();
  out.member("defaultAction", seccomp.default_action);
  out.member_if_set("defaultErrnoRet", seccomp.default_errno_ret);
  out.member_if_set("architectures", seccomp.architectures);
  out.member_if_set("flags", seccomp.flags);
  out.member_if_set("listenerPath", seccomp.listener_path);
  out.member_if_set("listenerMetadata", seccomp.listener_metadata);
  out.member_if_set("syscalls", seccomp.syscalls);
  out.end_object();
}

static void to_json(JsonWriter& out, const Personality& personality) {
  out.begin_object();
  out.member("domain", personality.domain);
  out.member_if_set("flags", personality.flags);
  out.end_object();
}

static void to_json(JsonWriter& out, const IntelRdt& rdt) {
  out.begin_object();
  out.member_if_set("closID", rdt.clos_id);
  out.member_if_set("schemata", rdt.schemata);
  out.member_if_set("l3CacheSchema", rdt.l3_cache_schema);
  out.member_if_set("memBwSchema", rdt.mem_bw_schema);
  out.member_if_set("enableMonitoring", rdt.enable_monitoring);
  out.end_object();
}

static void to_json(JsonWriter& out, const MemoryPolicy& policy) {
  out.begin_object();
  out.member("mode", policy.mode);
  out.member_if_set("nodes", policy.nodes);
  out.member_if_set("flags", policy.flags);
  out.end_object();
}

void to_json(JsonWriter& out, const Linux& linux) {
  out.begin_object();
  out.member_if_set("namespaces", linux.namespaces);
  out.member_if_set("uidMappings", linux.uid_mappings);
  out.member_if_set("gidMappings", linux.gid_mappings);
  out.member_if_set("timeOffsets", linux.time_offsets);
  out.member_if_set("devices", linux.devices);
  out.member_if_set("netDevices", linux.net_devices);
  out.member_if_set("cgroupsPath", linux.cgroups_path);
  out.member_if_set("resources", linux.resources);
  out.member_if_set("intelRdt", linux.intel_rdt);
  out.member_if_set("memoryPolicy", linux.memory_policy);
  out.member_if_set("sysctl", linux.sysctl);
  out.member_if_set("seccomp", linux.seccomp);
  out.member_if_set("rootfsPropagation", linux.rootfs_propagation);
  out.member_if_set("maskedPaths", linux.masked_paths);
  out.member_if_set("readonlyPaths", linux.readonly_paths);
  out.member_if_set("mountLabel", linux.mount_label);
  out.member_if_set("personality", linux.personality);
  out.end_object();
}

}  // namespace agentrun::oci
