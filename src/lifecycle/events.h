// What happens to a container, as lines of JSON in the form of runc's `events`: {"type","id","data"}.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "lifecycle/options.h"

namespace agentrun::lifecycle {

using EventSink = std::function<Result<void>(const std::string& line)>;

// One "stats" event. "container not running" where there is no process to speak of.
Result<void> stats(const Global& global, const std::string& id, const EventSink& emit);

// A "stats" event each `interval_us`, an "oom" event whenever the kernel killed in the container for memory, until the
// container's process has ended.
Result<void> follow_events(const Global& global, const std::string& id, std::int64_t interval_us,
                           const EventSink& emit);

}  // namespace agentrun::lifecycle
