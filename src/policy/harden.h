// The heart: config and policy in, a config out that is the stricter of both in every field, with a list of what
// changed. Pure: what has to be known of the host comes in as Facts.
//
// Three laws, tested with generated configs: it never loosens; applying it twice is applying it once; every difference
// between what came in and what goes out has its line in the report.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "oci/config.h"
#include "policy/policy.h"

namespace agentrun::policy {

enum class FileKind { missing, directory, regular, symlink, socket, fifo, character_device, block_device, other };

// What the source of a bind mount really is: after all symlinks, as the kernel resolved it, from an fd that the mount
// itself will use.
struct SourceFacts {
  FileKind kind = FileKind::missing;
  std::string real_path;
  std::uint32_t uid = 0, gid = 0;  // its owner
};

// Ids of the host that one container has for itself: id n of the container is `uid` + n, or `gid` + n.
struct PrivateIds {
  std::uint32_t uid = 0, gid = 0, size = 65536;
  bool operator==(const PrivateIds&) const = default;
};

struct Disk {
  std::int64_t major = 0, minor = 0;
};

struct Facts {
  std::string bundle;                          // absolute
  bool as_root = true;                         // the caller is root of the host
  std::map<std::size_t, SourceFacts> sources;  // by index in config.mounts; binds only
  std::vector<std::string>
      trusted_sources;  // directories of the engine itself (its container storage and run directory)
  std::vector<std::string> namespaces_of_host;  // of "network" "pid" ...: those that a path in the config joins and
                                                // that are the host's own
  bool apparmor_loaded = false;                 // policy.apparmor.profile, as itself and in the namespace of stacks
  bool cgroup_memory = true, cgroup_pids = true, cgroup_cpu = true, cgroup_hugetlb = true;  // controllers to be had
  int landlock_abi = 7;                        // the version of Landlock that the kernel has; 0: none
  std::vector<std::uint64_t> huge_page_sizes;  // bytes; those that the host has
  std::optional<PrivateIds> private_ids;       // where wants_private_ids: what was reserved for the container
  std::string no_private_ids;                  // or why there are none, as a sentence
  bool selinux_enabled = false;
  bool cgroup_kill = true;     // the container has a place in a cgroup v2 tree
  bool systemd_scope = false;  // it will be a scope of systemd, which ends it too when its time is over
  bool cgroup_io = true;       // the io (v1: blkio) controller
  bool cgroup_v1_io = false;   // it is v1's, which does not see writes that go through the page cache
  std::vector<Disk> disks;     // of the host; where policy.limits.io has a bound
  std::string disk_missing;    // why no disk can hold the writable directories, a sentence; empty: one can
};

// Of an environment variable `before` and `after` are its name only, of a hook its path: values may be secrets.
struct Change {
  std::string pointer;  // JSON pointer into config.json as it came in; "/-" for what is added to the end of a list
  std::string before;   // JSON; empty: was not there
  std::string after;    // JSON; empty: is gone
  std::string rule;     // "strict /mounts/force_readonly": what asked for it
};

struct Report {
  std::string policy;
  std::vector<Change> changes;
  std::vector<std::string> notes;  // what people should know though the config did not change: "the working directory /
                                   // stays read-only", "no cpu controller here: ..."
};

std::string print_report(const Report& report);  // JSON
Result<Report> parse_report(std::string_view json, std::string_view name);
std::string explain_report(const Report& report);  // a table for people

// What the container may write to when its root is read-only. One file system of `size` holds all of it: a tmpfs, or an
// ext4 in a file of `directory` on a disk of the host.
struct Writable {
  bool disk = false;
  std::string directory;  // absolute
  std::int64_t size = 0;  // bytes
  std::int64_t inodes = 0;
  std::vector<std::string> empty;     // become empty directories, mode 1777 (/run: 0755)
  std::vector<std::string> overlays;  // keep the image's content below
};

// The first version of Landlock that is used for files: under the one before, no file can be renamed to another
// directory.
inline constexpr int kLandlockFiles = 2;

// What Landlock holds for one process and its descendants; never more than the kernel's version of it can.
struct LandlockRules {
  int abi = 0;
  bool files = false;               // writes only below:
  std::vector<std::string> places;  // mounts, with everything in them
  std::vector<std::string> procfs;  // mounts of procfs: files only, since nothing is made there
  bool device_nodes = false;        // may be made in `places`
  bool signals = false;             // only to processes that are held by the same rules
  bool abstract_sockets = false;    // the same for connections to them
  std::optional<std::vector<std::uint16_t>> tcp_connect, tcp_bind;
  bool operator==(const LandlockRules&) const = default;
};

// Everything that create enforces, beyond what a config can say.
struct Effective {
  oci::Config config;
  Report report;
  std::string policy;  // its name
  std::optional<Writable> writable;
  // Indices of config.mounts: directories that the engine made for this container. They become read-only when all
  // mounts are in place: its other mounts have their places in them (Podman's --secret in /run/secrets).
  std::vector<std::size_t> sealed_last;
  bool empty_network = false;   // look at the interfaces again at start, and unshare again if there is more than lo
  std::string seccomp_program;  // stacked after the config's own; empty: none
  std::optional<std::int64_t> cpu_mask_width;                             // CPUs
  std::optional<std::int64_t> deadline, exec_deadline, created_deadline;  // microseconds
  bool audit = false;
  std::optional<LandlockRules> landlock;
  std::optional<PrivateIds> private_ids;  // those of facts, where the config got them: the root has to be mapped too
};

// Whether harden will need Facts::private_ids: user.userns is "auto", the caller is root of the host, and the config
// has no user namespace, or one in which root of the host is mapped.
bool wants_private_ids(const oci::Config& config, const Policy& policy, const Facts& facts);

// Takes the id map of a bind away again that harden has given it, because its file system cannot have one or because it
// is mapped already, and says so in the report. What the host's ids own there is nobody's then: never more than before.
void withdraw_idmap(Effective& effective, std::size_t mount, const std::string& reason);

// Errors: what the policy refuses (a bind of /, a socket), one sentence with the pointer; what it requires and the
// facts do not have.
Result<Effective> harden(const oci::Config& config, const Policy& policy, const Facts& facts);

// The same for a process that enters the container later: never more than the container's own.
Result<oci::Process> harden_exec(const oci::Process& process, const oci::Config& container, const Policy& policy,
                                 Report& report);

// What Landlock holds for such a process, where it does. `container`: as harden() gave it.
Result<std::optional<LandlockRules>> landlock_for_exec(const oci::Config& container, const Policy& policy,
                                                       const Facts& facts);

// The same for `update`: no limit above the policy's.
Result<oci::Resources> harden_update(const oci::Resources& resources, const Policy& policy, const Facts& facts,
                                     Report& report);

}  // namespace agentrun::policy
