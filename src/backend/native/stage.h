// A short-lived process between the runtime and the container's, for what one clone cannot do: joining a pid or user
// namespace (which only children of the joiner get into), and a new time namespace, whose offsets have to be written
// before anything lives in it (time_namespaces(7)). It clones the container's process as its sibling (CLONE_PARENT) and
// ends: the runtime is the parent either way.
#pragma once

#include "backend/native/launch.h"
#include "base/result.h"
#include "sys/process.h"

namespace agentrun::native {

// Where it is, the stage joins everything that is to be joined.
bool needs_stage(const sandbox::NamespacePlan& plan);

// The container's process, cloned by a stage. `theirs` is the child's end of the socketpair.
Result<sys::Cloned> clone_by_stage(LaunchRequest& request, const sandbox::LastStep& last_step, UniqueFd& ours,
                                   UniqueFd& theirs);

// For any process that a stage clones: runs `body` in a sibling of the stage. `prepare` runs in the stage. Returns the
// sibling's pid as we see it, and its pidfd. `keep`, where it is not empty: every fd but these and 0 to 2 is closed
// before the sibling is there, for whom the sibling is born in sight of can walk from its fds to wherever they lead.
Result<sys::Cloned> clone_sibling(const std::function<Result<void>()>& prepare, std::uint64_t flags, int cgroup,
                                  const std::function<void()>& body, const std::vector<int>& keep = {});

}  // namespace agentrun::native
