// exec: a process that joins a running container under the container's own stored policy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lifecycle/options.h"

namespace agentrun::lifecycle {

struct ExecOptions {
  std::string id;
  std::string process_file;  // --process; else the fields below
  std::vector<std::string> args, env, capabilities;
  std::string cwd, user, apparmor, process_label;  // user: "uid[:gid]"
  std::vector<std::string> additional_gids;
  bool tty = false, no_new_privileges = false, detach = false, ignore_paused = false;
  std::string pid_file, console_socket, cgroup, pidfd_socket;
  unsigned preserve_fds = 0;
};

// The program's exit code; with detach 0 once it runs.
Result<int> exec(const Global& global, const ExecOptions& options);

}  // namespace agentrun::lifecycle
