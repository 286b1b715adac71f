// A policy: what agentrun enforces whatever the config asks. agentrun-policy(5) is the reference of the language.
//
// Every field is a bound, never a wish: harden() takes the stricter of config and policy. `std::nullopt` and `false`
// mean that the policy has no opinion, so that `oci` is a Policy with everything at its default.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace agentrun::policy {

struct Env {
  bool filter = false;               // keep only `keep`
  std::vector<std::string> keep;     // names or globs ("LC_*")
  std::vector<std::string> secrets;  // globs that a caller's org.agentrun.env.keep may never name
  std::map<std::string, std::string> set;
};

struct Rootfs {
  bool readonly = false;
};

enum class Backing {
  memory,          // a tmpfs
  disk,            // a file system in a file of a fixed size; where that cannot be, create fails
  disk_or_memory,  // where that cannot be, memory, which is less, and the report says so
};

struct Workdir {
  bool writable = false;  // file system for /tmp /var/tmp /run, overlays over HOME and cwd
  Backing backing = Backing::memory;
  std::string directory = "/var/lib/agentrun/disks";  // where the files of such disks are; made where it is missing
  std::optional<std::int64_t> size;                   // bytes; in memory at most half of the memory limit all the same
  std::optional<std::int64_t> inodes;
  std::vector<std::string> empty;  // directories that are replaced by empty ones: /tmp ...
  bool home = false, cwd = false;  // overlays
  std::vector<std::string> never;  // never over these: / /etc /usr /proc /sys /dev
};

struct Mounts {
  bool restrict_binds = false;              // the rules below
  std::vector<std::string> refuse_sources;  // this path, what is above it, and what is below it: create fails
  std::vector<std::string> allow_sources;   // globs: these (and below), below a refused one, may be bound all the same
  std::vector<std::string> allow_writable;  // sources (and below) that the administrator lists: not refused either
  bool refuse_special = false;              // sockets, devices, FIFOs as sources
  bool force_readonly = false, force_nosuid = false, force_nodev = false;
  bool restrict_types = false;  // only bind, proc, sysfs, tmpfs, devpts, mqueue, cgroup
};

enum class NetworkMode { config, none, inherit };

struct Network {
  NetworkMode mode = NetworkMode::config;  // config: as config.json says
};

// Of each disk of the host, per second.
struct IoLimits {
  std::optional<std::int64_t> read_bps, write_bps;    // bytes
  std::optional<std::int64_t> read_iops, write_iops;  // operations
};

// Below it no program starts.
inline constexpr std::int64_t kLeastMemory = 512 << 10;  // bytes

struct Limits {
  std::optional<std::int64_t> memory;  // bytes
  bool no_swap = false;
  std::optional<std::int64_t> cpus;  // milliCPU
  bool cpu_mask = false;             // an affinity mask ceil(cpus) wide
  std::optional<std::int64_t> pids;
  std::optional<std::uint64_t> nofile, fsize, core;
  IoLimits io;
  bool no_hugepages = false;
  bool normal_priority = false;  // no real-time, no niceness below 0, no OOM protection, no cache or NUMA claims
};

struct Deadline {
  std::optional<std::int64_t> container;  // microseconds from start
  std::optional<std::int64_t> exec;       // microseconds; at most what is left of the container's
  std::optional<std::int64_t> created;    // microseconds from create to start
};

struct Namespaces {
  bool private_all = false;  // pid mount ipc uts cgroup network are new; a host's is replaced
};

enum class UserNamespace { config, automatic };

struct User {
  bool no_new_privileges = false;
  bool refuse_root_with_capabilities = false;
  UserNamespace userns = UserNamespace::config;  // config: as config.json says; automatic: "auto", private ids
};

struct Capabilities {
  bool restrict = false;  // all five sets are cut to `keep`
  std::vector<std::string> keep;
};

struct Seccomp {
  std::string program;  // "strict": ours, stacked on the config's; empty: none
};

struct Apparmor {
  std::string profile;  // stacked on the config's when it is loaded; empty: none

  // As part of a stack. A profile takes signals only from a peer each of whose names it knows, and the engine's knows
  // only itself: under engine//&ours no process could signal its own child. What is in another namespace of AppArmor is
  // not seen.
  std::string stacked() const { return profile.starts_with(':') ? profile : ":agentrun:" + profile; }
};

// What Landlock adds to the mounts and namespaces; where the kernel has none the report says so.
struct Landlock {
  bool files = false;   // a write, a new file, a rename only below what is mounted writable, /dev and /proc
  bool scopes = false;  // no signal and no abstract socket out of the container, where it shares the namespace
  bool exec = false;    // a process that joins is held too, and then sees less of the others (see landlock.h)
  std::optional<std::vector<std::uint16_t>> tcp_connect, tcp_bind;  // the only ports; always for exec too
};

struct Devices {
  bool standard_only = false;
};

struct Sysctl {
  bool namespaced_only = false;
};

struct Hooks {
  bool refuse_config = false;            // hooks of config.json do not run (reported)
  std::vector<std::string> directories;  // but for executables in these root-owned directories
};

struct Annotations {
  bool ignore_runtime = false;  // run.oci.*, org.systemd.property.* ...: dropped and reported
};

struct Masks {
  std::vector<std::string> masked, readonly;  // added to the config's
};

struct Audit {
  bool enable = false;
};

struct Policy {
  std::string name;             // "strict", or the file
  std::string extends;          // resolved by the loader
  bool change_nothing = false;  // oci
  Env env;
  Rootfs rootfs;
  Workdir workdir;
  Mounts mounts;
  Network network;
  Limits limits;
  Deadline deadline;
  Namespaces namespaces;
  User user;
  Capabilities capabilities;
  Seccomp seccomp;
  Apparmor apparmor;
  Landlock landlock;
  Devices devices;
  Sysctl sysctl;
  Hooks hooks;
  Annotations annotations;
  Masks masks;
  Audit audit;
  std::vector<std::string> require;  // "seccomp" "namespaces" "landlock" "cgroup.memory" ...
};

// A policy of the administrator's own: its text, and the file for errors.
struct PolicyText {
  std::string json, file;
};
// Where `extends` finds one by its name. Errors: there is none, or it is not to be trusted.
using FindPolicy = std::function<Result<PolicyText>(const std::string& name)>;

// Parses one policy file. `name` stands in errors for the file, and becomes the policy's. Unknown keys, wrong types,
// negative and overflowing numbers are refused with the JSON pointer. `extends` names a built-in policy, or one that
// `find` has, whose values it starts from; a circle, and more than eight, are errors. Without it that is strict, so
// that a forgotten line never makes an open policy.
Result<Policy> parse_policy(std::string_view json, std::string_view name, const FindPolicy& find = {});

// The whole policy, nothing inherited: parse_policy(print_policy(p), p.name) is p. It is what a container's directory
// keeps, for exec and update.
std::string print_policy(const Policy& policy);

// Whether a name of an environment variable is of the kind that org.agentrun.env.keep may never name.
bool looks_like_secret(std::string_view variable, const Env& env);

// The policies that are built in, from policies/*.json of the source tree.
Result<Policy> builtin_policy(std::string_view name);
std::vector<std::string> builtin_names();
std::string_view builtin_text(std::string_view name);  // its JSON; empty where there is none

}  // namespace agentrun::policy
