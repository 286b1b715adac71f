// What start and run share: the deadline first, the program after it, then the poststart hooks.
#pragma once

#include <functional>

#include "base/result.h"
#include "lifecycle/store.h"
#include "oci/config.h"

namespace agentrun::lifecycle {

// Arms the deadline of `record` (nothing where it has none), lets the process go by `release`, writes the state and the
// audit record, runs poststart hooks. A hook that fails kills the container (runtime.md, 1.3).
Result<void> start_container(const Container& container, Record& record, const oci::Config& config, bool audit,
                             const std::function<Result<void>()>& release);

}  // namespace agentrun::lifecycle
