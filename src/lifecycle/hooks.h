// Hooks of config.json (runtime.md): the state on standard input, a timeout each, the first failure ends the list.
#pragma once

#include <vector>

#include "base/result.h"
#include "oci/config.h"
#include "oci/state.h"

namespace agentrun::lifecycle {

// Runs them in order in this process's namespaces. The error names stage, index and path:
// "error running createRuntime hook #1: /bin/false: exit status 1", with the end of its standard error. A hook that
// outlives its timeout is killed with its process group. Standard output and error go to a pipe of ours, bounded.
Result<void> run_hooks(const char* stage, const std::vector<oci::Hook>& hooks, const oci::State& state);

}  // namespace agentrun::lifecycle
