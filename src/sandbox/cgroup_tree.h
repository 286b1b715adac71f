// Walking one cgroup directory and what is below it, v1 or v2: its processes, signals to them, its removal. By fd: what
// is below may belong to the container, which can make and remove there while we look.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace agentrun::sandbox {

// Calls `visit` with `top` and then with each directory below it. What vanishes meanwhile is passed over.
Result<void> for_each_cgroup(int top, const std::function<Result<void>(int)>& visit);

// Of this pid namespace; processes of others (0 in the file) are left out.
Result<std::vector<pid_t>> processes_below(int top);

// Sends the signal to each process; returns the pidfds of those that got it. A pid that was used again between reading
// and sending is not hit: the process has to be in the list again after its pidfd was opened.
Result<std::vector<UniqueFd>> signal_below(int top, int signal);

// rmdir of all that is below `top`, deepest first, `top` stays. EBUSY: a process is still there.
Result<void> remove_below(int top);

// Waits until each process of `pidfds` has ended, at most until `until_us` (CLOCK_MONOTONIC).
void wait_for_all(const std::vector<UniqueFd>& pidfds, std::int64_t until_us);

// Waits until cgroup.events of the v2 directory says `key` `value`. False: the time is over. A directory that is gone
// counts as "populated 0".
Result<bool> wait_for_event(int directory, std::string_view key, char value, std::int64_t until_us);

// Milliseconds from now until `until_us` for poll(2), rounded up, 0 where it is past.
int milliseconds_until(std::int64_t until_us);

}  // namespace agentrun::sandbox
