// Hooks of config.json (runtime.md): the state on standard input, a timeout each, the first failure ends the list.
#pragma once

#include <vector>

#include "base/result.h"
#include "oci/config.h"
#include "oci/state.h"

namespace agentrun::lifecycle {

// Runs them in order in this process's namespaces. The error names stage, index (from 0, as runc counts) and path:
// "error running createRuntime hook #1: /bin/false: exit status 1", with the end of its output. A hook that outlives
// its timeout is killed with its process group; one without a timeout has none (the specification). Standard output and
// error go to a pipe of ours, bounded.
//
// The environment is the hook's `env` and nothing else. Where it has none it is the caller's PATH alone: crun hands on
// everything, but an engine's environment may hold secrets.
Result<void> run_hooks(const char* stage, const std::vector<oci::Hook>& hooks, const oci::State& state);

}  // namespace agentrun::lifecycle
