// The last program before the container's own: a static program of a few kilobytes in a sealed memfd. It loads the seccomp
// filters and calls execve. What a process of the container can reach as /proc/PID/exe of it, or run by a script that
// begins with "#!/proc/self/exe", is that memfd: never the installed agentrun (CVE-2019-5736).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sandbox/seccomp.h"

namespace agentrun::sandbox {

struct LastStep {
  UniqueFd program;   // the sealed memfd
};
Result<LastStep> prepare_last_step();  // before the clone

struct Launch {
  std::string path;                        // as find_executable gave it
  std::vector<std::string> args, env;
  std::vector<SeccompProgram> programs;    // to be loaded by the last step, in this order
  int error_fd = -1;                       // gets {errno, step} of a failure; close-on-exec, so its end means success
  int listener_fd = -1;                    // a connected socket that a notify fd is sent over; or -1
  unsigned preserve_fds = 0;               // fds 3 to 2 + preserve_fds stay open in the program
};

// Does not return on success. Every fd but 0 to 2 and the preserved ones is close-on-exec afterwards.
Error run_last_step(const LastStep& last_step, const Launch& launch);

// For a process without no_new_privs the filters are loaded while CAP_SYS_ADMIN is there, by the child itself.
Result<UniqueFd> load_seccomp(const SeccompProgram& program);  // the listener's fd, or an invalid one

// What the last step writes to error_fd: reads it as an Error with the right exit status (126 or 127).
Error read_launch_failure(std::string_view message, const std::string& path);

}  // namespace agentrun::sandbox
