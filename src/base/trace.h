// Start-up tracing (`--trace-timing FILE`): each step's microseconds since the command began, in parent and child. The
// steps live in shared memory, so that the container's process, forked later, adds its own to the same list.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace agentrun::trace {

// Turns tracing on; before it `step` costs one branch. The file is written by `finish`.
Result<void> enable(std::string file);

// Marks that `name` has just ended. `name` is a literal: only the pointer is kept. Safe between clone and exec.
void step(const char* name);

// Writes one line a step, "microseconds side name", ordered by time.
Result<void> finish();

// In the container's process, right after the clone: steps from now on belong to the child.
void enter_child();

}  // namespace agentrun::trace
