// /proc/PID/exe of a process that a container can look into must not be the installed file (CVE-2019-5736).
#pragma once

#include "base/result.h"

namespace agentrun::native {

// Executes this very program again from a detached, read-only mount of its own file, unless it runs from one already.
// For the few commands whose processes are seen by somebody in a container with CAP_SYS_PTRACE before their execve; the
// others are not dumpable, which is enough (ptrace(2), "Ptrace access mode checking"). Needs CAP_SYS_ADMIN.
Result<void> run_from_read_only_clone();

}  // namespace agentrun::native
