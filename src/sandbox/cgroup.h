// Control groups: where the container's is, how it is made, limited, frozen, killed and removed (cgroups(7), the
// kernel's cgroup-v2.rst and cgroup-v1). Three layouts: v2 alone; hybrid (v1 controllers and a v2 tree beside them, in
// which the container gets a cgroup too, for cgroup.kill and "populated"); v1 alone.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "oci/config.h"
#include "sandbox/rootfs.h"

namespace agentrun::sandbox {

enum class CgroupManager { cgroupfs, systemd, disabled };

// Everything that finds the cgroup again: it is in the intent record before the first mkdir, and in the state.
struct CgroupLocation {
  CgroupManager manager = CgroupManager::cgroupfs;
  std::string v2;                         // absolute path of the directory; empty: none
  std::map<std::string, std::string> v1;  // controller list ("cpu,cpuacct") to absolute directory
  std::vector<std::string> parents;       // directories above that create makes, topmost first: removed where empty
  bool is_child = false;                  // of the container's, for an exec: no limits of its own
  std::string unit, slice;                // systemd
  std::uint64_t inode = 0;  // of the v2 (else the first v1) directory once made: not a later one of that name
};

struct CgroupRequest {
  std::string id;  // of the container
  CgroupManager manager = CgroupManager::cgroupfs;
  std::string cgroups_path;                 // linux.cgroupsPath; empty: /agentrun/<id>, or agentrun-<id>.scope
  oci::Annotations annotations;             // org.systemd.property.*, already filtered by policy
  std::optional<std::int64_t> deadline_us;  // RuntimeMaxUSec of a scope: deadline plus a grace
};

// Where it will be. Makes nothing. Errors: cgroupsPath not usable for this manager, a path that climbs, no cgroup
// hierarchy mounted, an existing cgroup of that name with processes in it.
Result<CgroupLocation> plan_cgroup(const CgroupRequest& request);

// Which limits can be set here at all; for an ordinary user, in the place that `cgroups_path` (may be empty) means.
struct CgroupControllers {
  bool memory = false, cpu = false, pids = false, cpuset = false, io = false, hugetlb = false, rdma = false;
  bool unified = false;  // v2 alone
  bool kill = false;     // there is a v2 tree, with cgroup.kill
};
Result<CgroupControllers> available_controllers(CgroupManager manager, const std::string& cgroups_path = {});

// Makes the directories and writes the limits and the device rules (BPF on v2). For systemd, whose scope needs a first
// process, it only checks that the scope can be asked for and starts the helper: the rest is `attach_process`'s. A
// limit that the kernel refuses, or whose controller is not there, is an error that names the file; what was made until
// then is removed.
Result<void> create_cgroup(CgroupLocation& location, const CgroupRequest& request, const oci::Resources* resources);

// What a mount of type "cgroup" needs to know: rootfs.h. `namespaced` is the caller's to set.
Result<CgroupView> cgroup_view(const CgroupLocation& location);

// An fd for CLONE_INTO_CGROUP, or an invalid one where the process has to be attached after the clone (v1, systemd).
Result<UniqueFd> clone_target(const CgroupLocation& location);

// Puts `pid` in: each v1 hierarchy, the v2 directory unless it was cloned into it, or StartTransientUnit with it.
// Limits that need the unit to be there first are written after it.
Result<void> attach_process(CgroupLocation& location, const CgroupRequest& request, pid_t pid, bool cloned_into,
                            const oci::Resources* resources);

// The same in two steps, so that systemd's job (milliseconds) runs while the child builds its root: call `begin_attach`
// right after the clone and `finish` before the child may unshare its cgroup namespace. For cgroupfs the first does
// all.
class SystemdHelper;
class Attachment {
 public:
  Attachment();
  explicit Attachment(std::unique_ptr<SystemdHelper> helper, pid_t pid);
  Attachment(Attachment&& other) noexcept;
  Attachment& operator=(Attachment&& other) noexcept;
  ~Attachment();

  Result<void> finish(CgroupLocation& location, const oci::Resources* resources);

 private:
  std::unique_ptr<SystemdHelper> helper_;  // null: done
  pid_t pid_ = 0;
};
Result<Attachment> begin_attach(CgroupLocation& location, const CgroupRequest& request, pid_t pid, bool cloned_into,
                                const oci::Resources* resources);

// `exec`: puts `pid` into what is there already. `cloned_into`: it is in the v2 directory.
Result<void> join_cgroup(const CgroupLocation& location, pid_t pid, bool cloned_into);

Result<void> update_cgroup(const CgroupLocation& location, const oci::Resources& resources);

Result<void> freeze_cgroup(const CgroupLocation& location);
Result<void> thaw_cgroup(const CgroupLocation& location);
Result<bool> is_frozen(const CgroupLocation& location);

// Kills every process in it and below it, whatever it does: cgroup.kill on v2 (Linux 5.14); on v1 freeze, SIGKILL to
// each, thaw, again until it is empty. Returns whether it is empty within `timeout_us`: false is "kill pending" (a
// process in uninterruptible sleep).
Result<bool> kill_cgroup(const CgroupLocation& location, std::int64_t timeout_us);

Result<void> signal_cgroup(const CgroupLocation& location, int signal);  // kill --all
Result<bool> is_populated(const CgroupLocation& location);
Result<std::vector<pid_t>> cgroup_processes(const CgroupLocation& location);  // recursive

// Removes it, its children, and the parents that create made where they are empty. Missing is success, and a later
// cgroup of that name is left alone. Waits at most 10 seconds for the last process to be gone, by poll on cgroup.events
// (v1: on pidfds); kills nothing.
Result<void> remove_cgroup(const CgroupLocation& location);

// An fd whose readiness (POLLPRI) says that cgroup.events changed; invalid on v1.
Result<UniqueFd> watch_populated(const CgroupLocation& location);

// For `exec`: the place of a child cgroup where that is legal (v2 alone, no delegation to the container), else the
// container's own (same `v2`). `create_cgroup` makes it, with no limits of its own; one that is there already (exec
// --cgroup) is returned with its inode.
Result<CgroupLocation> child_cgroup(const CgroupLocation& location, const std::string& name);

// How often the kernel killed in it for memory (memory.events oom_kill, v1 memory.oom_control).
Result<std::uint64_t> oom_kills(const CgroupLocation& location);

// The file of that counter, kept open: systemd removes a scope, and the counter with it, as soon as the last process is
// gone, so whoever wants to know must look while it is there. Readiness (POLLPRI) says that the counter changed; an
// error of `read_oom_kills`, that the cgroup is gone. Invalid where memory is not on v2: nobody removes that cgroup but
// us.
Result<UniqueFd> watch_oom_kills(const CgroupLocation& location);
Result<std::uint64_t> read_oom_kills(int events);

}  // namespace agentrun::sandbox
