// An independent opinion on what harden() did: it knows no policy, only which of two configs gives a program more.
#pragma once

#include <string>
#include <vector>

#include "oci/config.h"

namespace agentrun::policy::testing {

// What `after` permits that `before` did not; empty: at most as open. `set` are the variables that a policy may add.
std::vector<std::string> loosened(const oci::Config& before, const oci::Config& after,
                                  const std::vector<std::string>& set);

}  // namespace agentrun::policy::testing
