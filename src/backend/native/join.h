// A process that joins a container (exec): every namespace of the container's first process by one setns on its pidfd
// (Linux 5.8), the container's root, and then the same last stretch as the first process had (become.h).
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "backend/native/launch.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "oci/config.h"
#include "policy/harden.h"
#include "sandbox/seccomp.h"

namespace agentrun::native {

struct JoinRequest {
  const oci::Process* process = nullptr;
  const oci::Linux* linux_config = nullptr;  // of the container
  pid_t target = 0;                          // the container's first process
  int target_pidfd = -1;
  UniqueFd cgroup;  // for CLONE_INTO_CGROUP, or invalid: `place` attaches
  std::function<Result<void>(pid_t pid)> place;
  UniqueFd programs;  // of sandbox::seal_programs; invalid where there are none
  const policy::LandlockRules* landlock = nullptr;
  std::string rootfs;       // of the container, on the host
  UniqueFd console_socket;  // or invalid: the terminal's master stays with us
  UniqueFd seccomp_listener;
  std::function<std::string(pid_t pid)> listener_message;  // for the agent of a seccomp listener
  unsigned preserve_fds = 0;
  unsigned listen_fds = 0;  // of those, the first so many are sockets of the caller's service manager
};

struct Joined {
  pid_t pid = 0;
  UniqueFd pidfd;
  UniqueFd console_master;
};

// Returns when the program runs, or with the error of its execve. On failure nothing of the process is left.
Result<Joined> join(JoinRequest& request);

}  // namespace agentrun::native
