// The container's side of launch.h: what its first process does from clone to execve.
#pragma once

#include "backend/native/launch.h"

namespace agentrun::native {

// Runs in the child of the clone and never returns. `socket` is its end of the socketpair; `wait_for_parent`: id maps
// or cgroups are being written, so it waits for `go` first.
[[noreturn]] void run_init(LaunchRequest& request, const sandbox::LastStep& last_step, UniqueFd socket,
                           bool wait_for_parent);

}  // namespace agentrun::native
