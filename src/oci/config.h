// config.json as types: OCI runtime specification 1.3.0, config.md and config-linux.md. Every field that Linux has is
// here, in the specification's order and by its names; what a field means is said there, not here.
//
// A Config that `parse_config` returned is well-formed: numbers in range, enumerations known, ids 32 bits, paths
// without NUL. No later code checks a string again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace agentrun::oci {

using Annotations = std::map<std::string, std::string>;

struct Root {
  std::string path;  // as written; relative to the bundle
  bool readonly = false;
};

struct IdMapping {
  std::uint32_t container_id = 0;
  std::uint32_t host_id = 0;
  std::uint32_t size = 0;  // never 0
};

struct Mount {
  std::string destination;  // as written; relative ones are relative to / (1.2.0)
  std::string type;
  std::string source;
  std::vector<std::string> options;
  std::vector<IdMapping> uid_mappings;
  std::vector<IdMapping> gid_mappings;
};

struct ConsoleSize {
  std::uint16_t height = 0;
  std::uint16_t width = 0;
};

struct User {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::optional<std::uint32_t> umask;
  std::vector<std::uint32_t> additional_gids;
};

// Names as in capabilities(7), upper case with CAP_; unknown ones were refused or, where the specification says so,
// dropped with a notice.
struct Capabilities {
  std::vector<std::string> bounding;
  std::vector<std::string> effective;
  std::vector<std::string> inheritable;
  std::vector<std::string> permitted;
  std::vector<std::string> ambient;
};

struct Rlimit {
  std::string type;  // "RLIMIT_NOFILE"
  std::uint64_t hard = 0;
  std::uint64_t soft = 0;
};

struct Scheduler {
  std::string policy;  // "SCHED_OTHER"
  std::int32_t nice = 0;
  std::int32_t priority = 0;
  std::vector<std::string> flags;
  std::uint64_t runtime = 0, deadline = 0, period = 0;  // nanoseconds
};

struct IoPriority {
  std::string io_class;  // "IOPRIO_CLASS_BE"
  std::int32_t priority = 0;
};

struct ExecCpuAffinity {
  std::string initial;  // "0-3,7"
  std::string final;
};

struct Process {
  bool terminal = false;
  std::optional<ConsoleSize> console_size;
  User user;
  std::vector<std::string> args;
  std::vector<std::string> env;
  std::string cwd;
  std::optional<Capabilities> capabilities;
  std::vector<Rlimit> rlimits;
  bool no_new_privileges = false;
  std::string apparmor_profile;
  std::optional<std::int32_t> oom_score_adj;
  std::optional<Scheduler> scheduler;
  std::string selinux_label;
  std::optional<IoPriority> io_priority;
  std::optional<ExecCpuAffinity> exec_cpu_affinity;
};

struct Hook {
  std::string path;  // absolute
  std::vector<std::string> args;
  std::vector<std::string> env;
  std::optional<std::int32_t> timeout;  // seconds, more than 0
};

struct Hooks {
  std::vector<Hook> prestart, create_runtime, create_container, start_container, poststart, poststop;
};

enum class NamespaceType { pid, network, mount, ipc, uts, user, cgroup, time };

struct Namespace {
  NamespaceType type = NamespaceType::pid;
  std::string path;  // empty: a new one
};

struct Device {
  char type = 'c';  // 'c' 'b' 'u' 'p'
  std::string path;
  std::int64_t major = 0;
  std::int64_t minor = 0;
  std::optional<std::uint32_t> file_mode;
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
};

struct NetDevice {
  std::string name;  // inside; empty: as outside
};

struct DeviceRule {
  bool allow = false;
  char type = 'a';                           // 'a' 'b' 'c'
  std::optional<std::int64_t> major, minor;  // none: all
  std::string access;                        // of "rwm"
};

struct MemoryResources {
  std::optional<std::int64_t> limit, reservation, swap, kernel, kernel_tcp;  // bytes; -1: none
  std::optional<std::uint64_t> swappiness;
  std::optional<bool> disable_oom_killer, use_hierarchy, check_before_update;
};

struct CpuResources {
  std::optional<std::uint64_t> shares;
  std::optional<std::int64_t> quota;    // microseconds
  std::optional<std::uint64_t> burst;   // microseconds
  std::optional<std::uint64_t> period;  // microseconds
  std::optional<std::int64_t> realtime_runtime;
  std::optional<std::uint64_t> realtime_period;
  std::string cpus, mems;
  std::optional<std::int64_t> idle;
};

struct ThrottleDevice {
  std::int64_t major = 0, minor = 0;
  std::uint64_t rate = 0;
};

struct WeightDevice {
  std::int64_t major = 0, minor = 0;
  std::optional<std::uint16_t> weight, leaf_weight;
};

struct BlockIoResources {
  std::optional<std::uint16_t> weight, leaf_weight;
  std::vector<WeightDevice> weight_devices;
  std::vector<ThrottleDevice> read_bps, write_bps, read_iops, write_iops;
};

struct HugepageLimit {
  std::string page_size;  // "2MB"
  std::uint64_t limit = 0;
};

struct NetworkPriority {
  std::string name;
  std::uint32_t priority = 0;
};

struct NetworkResources {
  std::optional<std::uint32_t> class_id;
  std::vector<NetworkPriority> priorities;
};

struct RdmaLimit {
  std::optional<std::uint32_t> hca_handles, hca_objects;
};

struct Resources {
  std::vector<DeviceRule> devices;
  std::optional<MemoryResources> memory;
  std::optional<CpuResources> cpu;
  std::optional<std::int64_t> pids_limit;  // -1: none
  std::optional<BlockIoResources> block_io;
  std::vector<HugepageLimit> hugepage_limits;
  std::optional<NetworkResources> network;
  std::map<std::string, RdmaLimit> rdma;
  std::map<std::string, std::string> unified;
};

struct SeccompArg {
  std::uint32_t index = 0;
  std::uint64_t value = 0, value_two = 0;
  std::string op;  // "SCMP_CMP_EQ"
};

struct SeccompRule {
  std::vector<std::string> names;  // never empty
  std::string action;
  std::optional<std::uint32_t> errno_ret;
  std::vector<SeccompArg> args;
};

struct Seccomp {
  std::string default_action;
  std::optional<std::uint32_t> default_errno_ret;
  std::vector<std::string> architectures;
  std::vector<std::string> flags;
  std::string listener_path, listener_metadata;
  std::vector<SeccompRule> syscalls;
};

struct Personality {
  std::string domain;  // "LINUX" or "LINUX32"
  std::vector<std::string> flags;
};

struct IntelRdt {
  std::string clos_id, l3_cache_schema, mem_bw_schema;
  std::vector<std::string> schemata;
  bool enable_monitoring = false;
};

struct MemoryPolicy {
  std::string mode;   // "MPOL_BIND"
  std::string nodes;  // "0-1"
  std::vector<std::string> flags;
};

struct TimeOffset {
  std::int64_t secs = 0;
  std::uint32_t nanosecs = 0;
};

struct Linux {
  std::vector<Namespace> namespaces;  // no type twice
  std::vector<IdMapping> uid_mappings, gid_mappings;
  std::map<std::string, TimeOffset> time_offsets;  // "monotonic", "boottime"
  std::vector<Device> devices;
  std::map<std::string, NetDevice> net_devices;
  std::string cgroups_path;
  std::optional<Resources> resources;
  std::optional<IntelRdt> intel_rdt;
  std::optional<MemoryPolicy> memory_policy;
  std::map<std::string, std::string> sysctl;
  std::optional<Seccomp> seccomp;
  std::string rootfs_propagation;  // "private", ...; empty: the default
  std::vector<std::string> masked_paths, readonly_paths;
  std::string mount_label;
  std::optional<Personality> personality;
};

struct Config {
  std::string oci_version;
  Root root;
  std::optional<Process> process;  // none: create works, start fails
  std::string hostname, domainname;
  std::vector<Mount> mounts;
  Hooks hooks;
  Annotations annotations;
  Linux linux;
};

// nullptr where the config has no namespace of that type.
const Namespace* find_namespace(const Config& config, NamespaceType type);

const char* name_of(NamespaceType type);  // "pid", "network", ... as in config.json

}  // namespace agentrun::oci
