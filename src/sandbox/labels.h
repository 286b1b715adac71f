// AppArmor and SELinux labels for the execve of the container's program, written through a procfs fd that was verified
// (CVE-2019-16884, CVE-2025-52881).
//
// A label is spent by the next execve, whichever that is, and the next one is that of the last step. So nothing is
// written here: what is returned goes into Launch, and the last step writes it right before the program's own execve.
#pragma once

#include <string>

#include "base/result.h"
#include "oci/config.h"
#include "policy/policy.h"

namespace agentrun::sandbox {

bool apparmor_enabled();                                         // the kernel enforces it
bool apparmor_profile_loaded(const std::string& profile);        // ":namespace:profile" in a namespace
bool apparmor_profile_loaded(const policy::Apparmor& apparmor);  // as itself and as part of a stack
bool selinux_enabled();

// A profile in mode "unconfined" (Ubuntu's, for user namespaces) confines nothing, but gives this process a name other
// than "unconfined": the profiles of engines then take no signal from it, and a container under one could not be
// stopped. So root of the host leaves it; an ordinary user needs it.
void leave_unconfined_profile();

// Whether the modules of the process's labels are there: asked for by create and exec, before anything is made.
Result<void> check_labels(const oci::Process& process);

struct ExecLabel {
  std::string file;  // below procfs: "thread-self/attr/apparmor/exec"
  std::string text;  // "exec containers-default"
};

// In the child. `procfs`: an fd of a procfs root in which this process is, and on which nobody else can mount. A label
// that is asked for where the module is off is refused.
Result<ExecLabel> apparmor_on_exec(int procfs, const std::string& profile);
Result<ExecLabel> selinux_on_exec(int procfs, const std::string& label);

}  // namespace agentrun::sandbox
