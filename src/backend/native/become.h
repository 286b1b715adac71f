// The last stretch of a process that is to run a container's program, the same for the container's first process and
// for one that joins it: labels, limits, groups, user, capabilities, filters, execve.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "oci/config.h"
#include "policy/harden.h"
#include "sandbox/capabilities.h"
#include "sandbox/last_step.h"
#include "sandbox/seccomp.h"

namespace agentrun::native {

struct BecomeRequest {
  const oci::Process* process = nullptr;
  const oci::Linux* linux_config = nullptr;  // personality, memory policy, labels
  sandbox::CapabilitySets capabilities;
  const sandbox::LastStep* last_step = nullptr;
  std::string executable;  // of find_executable
  std::vector<std::string> env;
  int programs = -1;  // of seal_programs; or -1 where there are none
  const policy::LandlockRules* landlock = nullptr;
  std::string rootfs;  // as RootRequest has it: for old callers' destinations of mounts
  bool joins = false;  // programs of the container run already
  int procfs = -1;     // a procfs of this process's pid namespace; -1 where no label is set
  int error_fd = -1;
  int listener_fd = -1;
  std::string listener_message;  // goes over listener_fd with the filter's listener
  unsigned preserve_fds = 0;
};

// Whether `become` needs a procfs.
bool wants_procfs(const oci::Process& process);

// Does not return on success.
Error become(const BecomeRequest& request);

// The environment of the program: the config's, with HOME where it has none (from the container's /etc/passwd, else /),
// as engines expect; `added` takes the place of what has the same name.
std::vector<std::string> program_environment(const oci::Process& process, const std::vector<std::string>& added = {});

// What sd_listen_fds(3) looks for, where `count` of the descriptors that are passed on are sockets of the caller's
// service manager. In the process itself: LISTEN_PID is its pid as it sees it.
std::vector<std::string> listen_environment(unsigned count);

}  // namespace agentrun::native
