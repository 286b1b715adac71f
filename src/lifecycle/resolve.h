// Which policy applies, and what the host has to say about a config: the impure half of policy/.
#pragma once

#include <string>

#include "base/result.h"
#include "lifecycle/host_settings.h"
#include "lifecycle/options.h"
#include "oci/config.h"
#include "policy/harden.h"
#include "policy/policy.h"
#include "sandbox/rootfs.h"

namespace agentrun::lifecycle {

// Which policy: --policy NAME|FILE; else the annotation org.agentrun.policy, where agentrun.json lists it as
// selectable; else the default of agentrun.json, else strict. Then what annotations change: org.agentrun.deadline,
// .memory, .cpus, .pids, .network (each only below the policy's, or up to where agentrun.json lets callers go),
// .env.keep (never a secret). One that loosens or is malformed is an error that names it, as is any other
// org.agentrun.* one. What has a slash is a file; one that others own or can write to is refused.
Result<policy::Policy> resolve_policy(const Global& global, const policy::Settings& settings,
                                      const oci::Annotations& annotations);
Result<policy::Policy> resolve_policy(const Global& global, const oci::Annotations& annotations);

Result<policy::Facts> gather_facts(const Global& global, const oci::Config& config, const std::string& bundle,
                                   const sandbox::BindSources& sources, const policy::Policy& policy);

}  // namespace agentrun::lifecycle
