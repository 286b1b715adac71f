// The seccomp filters of a container's process, in the order of loading: config.json's own, and ours.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "lifecycle/store.h"
#include "oci/config.h"
#include "oci/state.h"
#include "sandbox/seccomp.h"

namespace agentrun::lifecycle {

// `ours`: the name of a built-in program, or empty.
Result<std::vector<sandbox::SeccompProgram>> filters_for(const Store& store, const oci::Linux& linux_config,
                                                         const std::string& ours);

// The agent of linux.seccomp.listenerPath, connected; invalid where the profile leaves no decision to one. An error
// where the agent could not be told of a container in `state`.
Result<UniqueFd> connect_listener(const oci::Linux& linux_config, const oci::State& state);

// What the agent is told of the process `pid` that gets the filter.
std::string listener_message(const oci::Linux& linux_config, const oci::State& state, pid_t pid);

}  // namespace agentrun::lifecycle
