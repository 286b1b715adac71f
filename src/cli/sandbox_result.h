// What `agentrun sandbox` says of a run: the JSON of --json, the table of --explain.
#pragma once

#include <string>
#include <vector>

#include "lifecycle/create.h"
#include "lifecycle/sandbox_config.h"
#include "lifecycle/sandbox_out.h"
#include "oci/config.h"
#include "policy/policy.h"

namespace agentrun::cli {

// One thing that the program could not do, and the mechanism that saw to it.
struct Enforced {
  std::string what;  // "network: none"
  std::string by;    // "a network namespace with lo alone"
};

// What the host has; a mechanism that is missing is not claimed.
struct Mechanisms {
  bool apparmor = false;  // the policy's profile is loaded
  bool landlock = false;  // of a version that can hold files
};

// Of the policy as resolved for this sandbox. What the policy requires and the host lacks has been refused before; what
// it only uses where it is there is listed by `mechanisms`.
std::vector<Enforced> list_enforced(const policy::Policy& policy, const oci::Config& config,
                                    const Mechanisms& mechanisms);

std::string explain_enforced(const std::vector<Enforced>& enforced);

// {"exit","reason","wall_us","cpu_us","memory_peak","policy","backend","enforced":[{"what","by"}]},
// and with `collected` (or nullptr) "out":{"files","bytes","left_out","examples":[]}
std::string print_outcome(const lifecycle::Outcome& outcome, int exit_status, const std::vector<Enforced>& enforced,
                          const lifecycle::Collected* collected);

}  // namespace agentrun::cli
