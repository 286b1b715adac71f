// The seccomp filters of a container's process: config.json's own, the policy's, and the administrator's additions.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "lifecycle/seccomp_additions.h"
#include "lifecycle/store.h"
#include "oci/config.h"
#include "oci/state.h"
#include "sandbox/seccomp.h"

namespace agentrun::lifecycle {

struct FilterPlan {
  sandbox::SeccompOrder order = sandbox::SeccompOrder::config_first;
  bool one_program = false;                   // all of them may be made one: see merge_seccomp
  std::vector<SeccompAddition> additions;     // none where the policy has no program
  std::vector<sandbox::SeccompProgram> ours;  // the policy's, then the additions
};

// `program`: the name of a built-in one, or empty. Whatever is refused about filters but a profile that does not
// compile is refused here, before there is a container.
Result<FilterPlan> plan_filters(const oci::Linux& linux_config, const std::string& program);

// All of them, in the order of loading; one where that decides the same. Compiles the config's.
Result<std::vector<sandbox::SeccompProgram>> filters_for(const Store& store, const oci::Linux& linux_config,
                                                         const FilterPlan& plan);

// The agent of linux.seccomp.listenerPath, connected; invalid where the profile leaves no decision to one. An error
// where the agent could not be told of a container in `state`.
Result<UniqueFd> connect_listener(const oci::Linux& linux_config, const oci::State& state);

// What the agent is told of the process `pid` that gets the filter.
std::string listener_message(const oci::Linux& linux_config, const oci::State& state, pid_t pid);

}  // namespace agentrun::lifecycle
