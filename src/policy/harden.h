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
  bool apparmor_loaded = false;                 // policy.apparmor.profile can be used
  bool cgroup_memory = true, cgroup_pids = true, cgroup_cpu = true, cgroup_hugetlb = true;  // controllers to be had
  std::vector<std::uint64_t> huge_page_sizes;  // bytes; those that the host has
  bool cgroup_io = true;                       // the io (v1: blkio) controller
  bool cgroup_v1_io = false;                   // it is v1's, which does not see writes that go through the page cache
  std::vector<Disk> disks;                     // of the host; where policy.limits.io has a bound
  std::string disk_missing;  // why no disk can hold the writable directories, a sentence; empty: one can
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

// Everything that create enforces, beyond what a config can say.
struct Effective {
  oci::Config config;
  Report report;
  std::string policy;  // its name
  std::optional<Writable> writable;
  bool empty_network = false;   // look at the interfaces again at start, and unshare again if there is more than lo
  std::string seccomp_program;  // stacked after the config's own; empty: none
  std::optional<std::int64_t> cpu_mask_width;                             // CPUs
  std::optional<std::int64_t> deadline, exec_deadline, created_deadline;  // microseconds
  bool audit = false;
};

// Errors: what the policy refuses (a bind of /, a socket), one sentence with the pointer; what it requires and the
// facts do not have.
Result<Effective> harden(const oci::Config& config, const Policy& policy, const Facts& facts);

// The same for a process that enters the container later: never more than the container's own.
Result<oci::Process> harden_exec(const oci::Process& process, const oci::Config& container, const Policy& policy,
                                 Report& report);

// The same for `update`: no limit above the policy's.
Result<oci::Resources> harden_update(const oci::Resources& resources, const Policy& policy, const Facts& facts,
                                     Report& report);

}  // namespace agentrun::policy
