// The scope of a container, made by systemd through our helper program (systemd_protocol.h).
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sandbox/cgroup.h"
#include "sandbox/cgroup_layout.h"
#include "sandbox/systemd_protocol.h"

namespace agentrun::sandbox {

// One run of the helper, connected to the bus of the system's or the user's manager. Ends with this object.
class SystemdHelper {
 public:
  static Result<std::unique_ptr<SystemdHelper>> start();
  ~SystemdHelper();
  SystemdHelper(const SystemdHelper&) = delete;
  SystemdHelper& operator=(const SystemdHelper&) = delete;

  Result<void> send(const UnitRequest& request);
  // The text of "ok"; the error of "error". systemd gets 30 seconds for a job, then this fails.
  Result<std::string> receive();

 private:
  SystemdHelper(UniqueFd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}
  UniqueFd socket_;
  pid_t pid_;
};

// The helper's file; the default is in libexecdir. For tests, and for a build that is not installed.
void set_systemd_helper(std::string path);

// Refuses with the reason where there is no systemd to talk to, or no helper.
Result<void> check_systemd();

// Where the manager of the calling user has its units, relative to the mount: its own controllers are what he can get.
std::string user_manager_path(const CgroupLayout& layout);

// Unit, slice and directories of the scope of `request`.
Result<CgroupLocation> plan_scope(const CgroupRequest& request, const CgroupLayout& layout);

// The request that starts the scope with `pid` as its first process.
Result<UnitRequest> scope_request(const CgroupLocation& location, const CgroupRequest& request, pid_t pid,
                                  const oci::Resources* resources);

// Starts the helper early: it connects to the bus while other things are done. `take_helper` gives that one, or a new
// one.
void prepare_helper();
Result<std::unique_ptr<SystemdHelper>> take_helper();

Result<void> set_scope_limits(const CgroupLocation& location, const oci::Resources& resources);
Result<void> stop_scope(const CgroupLocation& location);

}  // namespace agentrun::sandbox
