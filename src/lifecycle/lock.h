// flock(2) with a time limit.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace agentrun::lifecycle {

// Takes an exclusive flock(2) on `fd`, waiting at most `timeout_us` (0: not at all). `object` stands in errors for what
// is locked. On an error of this function the caller closes `fd`: whether the lock was granted in the last moment is
// not known. The lock belongs to the open file: a child that keeps a copy of `fd` keeps the lock.
Result<void> take_lock(int fd, const std::string& object, std::int64_t timeout_us);

}  // namespace agentrun::lifecycle
