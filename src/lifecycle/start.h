// start: arms the deadline, then lets the container's process go.
#pragma once

#include <string>

#include "base/result.h"
#include "lifecycle/options.h"

namespace agentrun::lifecycle {

Result<void> start(const Global& global, const std::string& id);

}  // namespace agentrun::lifecycle
