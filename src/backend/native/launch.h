// The container's first process, made by one clone3 in all its new namespaces. The parent writes id maps, cgroups and
// filters while the child builds the root: the two meet at the few points of protocol.h.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "oci/config.h"
#include "policy/harden.h"
#include "sandbox/last_step.h"
#include "sandbox/namespaces.h"
#include "sandbox/rootfs.h"
#include "sandbox/seccomp.h"

namespace agentrun::native {

// What the parent does while the child builds. Each runs in the runtime's own namespaces.
struct ParentWork {
  // The process is there: put it into its cgroups, set its oom score. Runs before the child looks at its cgroup.
  std::function<Result<void>(pid_t pid)> place;
  // The filters to load, in order; compiled here because it is slow.
  std::function<Result<UniqueFd>()> programs;  // of sandbox::seal_programs
  // prestart and createRuntime hooks; empty where there are none.
  std::function<Result<void>(pid_t pid)> runtime_hooks;
  // Whatever else can be done meanwhile (writing the state).
  std::function<Result<void>(pid_t pid)> meanwhile;
};

// What the child calls back, in the container's namespaces.
struct ChildWork {
  std::function<Result<void>(pid_t pid)> container_hooks;  // createContainer, before the root is entered
  std::function<Result<void>(pid_t pid)> start_hooks;  // startContainer, in the entered root, right before the program
  std::function<std::string(pid_t pid)> listener_message;  // for the agent of a seccomp listener
};

struct LaunchRequest {
  const policy::Effective* effective = nullptr;
  std::string id, bundle, rootfs;  // absolute
  sandbox::BindSources* sources = nullptr;
  sandbox::NamespacePlan* plan = nullptr;
  sandbox::CgroupView cgroups;
  UniqueFd rootfs_fd;         // O_PATH
  UniqueFd cgroup;            // for CLONE_INTO_CGROUP, or invalid: `place` attaches
  UniqueFd start_listener;    // where it waits for `start`; invalid: `start` comes over the socketpair
  UniqueFd console_socket;    // where the terminal's master goes; invalid: it stays with the runtime (run)
  UniqueFd seccomp_listener;  // connected to listenerPath, or invalid
  bool pivot = true;
  bool new_keyring = true;
  bool maps_by_user = false;  // set by `launch`: not by root of the host
  unsigned preserve_fds = 0;
  unsigned listen_fds = 0;         // of those, the first so many are sockets of the caller's service manager
  std::vector<std::string> extra;  // variables of the runtime's own for the program
  ParentWork parent;
  ChildWork child;
};

struct Launched {
  pid_t pid = 0;
  UniqueFd pidfd;
  UniqueFd socket;          // our end; end of file: the program runs, or the process is gone
  std::string console;      // "/dev/pts/0"
  UniqueFd console_master;  // where there was no console socket
  UniqueFd programs;
};

// Until the root is built and entered and the process waits. On failure the process is killed and reaped, and nothing
// of it is left.
Result<Launched> launch(LaunchRequest& request);

// Lets it wait at its start socket (create), or run now and reports what its execve said (run).
Result<void> leave_waiting(Launched& launched);
Result<void> start_now(Launched& launched);

// `start`: connects to the socket where the process waits and reads what its execve said.
Result<void> start_waiting(int container_directory);

inline constexpr const char* kStartSocket = "start.sock";

}  // namespace agentrun::native
