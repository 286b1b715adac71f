// The host-wide guard of agentrun.json: how many containers there may be, and how much all of them may have.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "lifecycle/options.h"
#include "policy/settings.h"
#include "sandbox/cgroup_guard.h"

namespace agentrun::lifecycle {

// Whether it holds for the caller: not for an ordinary user where it exempts them. One that it does not exempt is
// refused by what follows.
bool guard_holds(const policy::Guard& guard);

// Room for one more container, of all roots that root's engines use. The returned lock is held by the caller until the
// container's directory is there, so that of two at the same moment one sees the other; invalid where the guard does
// not count. Error: there are as many as there may be.
Result<UniqueFd> enter_guard(const policy::Guard& guard);

// Changes `request` so that the cgroup will be below agentrun.slice, and says so in `notes`.
Result<void> place_below_guard(const policy::Guard& guard, sandbox::CgroupRequest& request,
                               std::vector<std::string>& notes);

sandbox::CgroupGuard cgroup_guard(const policy::Guard& guard);

}  // namespace agentrun::lifecycle
