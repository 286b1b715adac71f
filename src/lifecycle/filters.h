// The seccomp filters of a container's process, in the order of loading: config.json's own, and ours.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "lifecycle/store.h"
#include "oci/config.h"
#include "sandbox/seccomp.h"

namespace agentrun::lifecycle {

// `ours`: the name of a built-in program, or empty.
Result<std::vector<sandbox::SeccompProgram>> filters_for(const Store& store, const oci::Linux& linux_config,
                                                         const std::string& ours);

}  // namespace agentrun::lifecycle
