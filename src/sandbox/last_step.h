// The last program before the container's own: a static program of two kilobytes in a sealed memfd. It writes the
// labels, enters the Landlock domain, loads the seccomp filters and calls execve. What a process of the container can
// reach as /proc/PID/exe of it, or run by a script that begins with "#!/proc/self/exe", is that memfd: never the
// installed agentrun (CVE-2019-5736).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sandbox/labels.h"
#include "sandbox/seccomp.h"

namespace agentrun::sandbox {

struct LastStep {
  UniqueFd program;  // the sealed memfd: executable and not readable (0111), so that its process is no target of ptrace
};
Result<LastStep> prepare_last_step();  // before the clone

// The filters, in the order of loading, as a sealed memfd that the last step reads. Made early, in parent or child:
// after the program's limits are set (RLIMIT_FSIZE, RLIMIT_NOFILE) it might no longer be possible. An invalid fd where
// there are none. Errors: too many, a filter without an instruction, one that is too long.
Result<UniqueFd> seal_programs(const std::vector<SeccompProgram>& programs);

// What is in such a memfd. An error where anything of it is missing, or there is more: a filter that is lost on the way
// must never look like no filter.
Result<std::vector<SeccompProgram>> read_programs(int fd);

// The bytes of it (last_step_wire.h).
std::string pack_programs(const std::vector<SeccompProgram>& programs);
Result<std::vector<SeccompProgram>> unpack_programs(std::string_view bytes);

struct Launch {
  std::string path;  // as find_executable gave it
  std::vector<std::string> args, env;
  int programs_fd = -1;          // of seal_programs; or -1
  int error_fd = -1;             // gets a message for read_launch_failure; close-on-exec, so its end means success
  int listener_fd = -1;          // a connected socket for the notify fd of the program that is a listener; or -1
  std::string listener_message;  // what goes there with the fd: for an agent, the container process state
  int procfs = -1;               // for labels, as in labels.h; or -1 where there are none
  std::vector<ExecLabel> labels;
  int landlock_fd = -1;       // of make_landlock_ruleset; or -1
  unsigned preserve_fds = 0;  // fds 3 to 2 + preserve_fds stay open in the program, where they are not close-on-exec
};

// Does not return on success. Every fd but 0 to 2 and the preserved ones is closed by the program's execve. Makes no
// fd. Needs no_new_privs (prctl(2)) where there are filters or a ruleset. The program starts with the caller's signal
// mask and actions.
Error run_last_step(const LastStep& last_step, const Launch& launch);

// For a process without no_new_privs: the filter is loaded while CAP_SYS_ADMIN is there, by the child itself. Where the
// program is a listener, its notify fd goes over `listener_fd` with `message`, as by the last step.
Result<void> load_seccomp(const SeccompProgram& program, int listener_fd = -1, const std::string& message = {});

// What the last step writes to error_fd, as an Error with the exit status that it ended with: 127 where the program is
// not there, 126 otherwise.
Error read_launch_failure(std::string_view message, const std::string& path);

}  // namespace agentrun::sandbox
