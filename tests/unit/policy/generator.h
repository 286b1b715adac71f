// Configs as a hostile or careless caller of an engine could make them, from a seed: the same seed, the same config.
#pragma once

#include <cstdint>

#include "oci/config.h"
#include "policy/harden.h"

namespace agentrun::policy::testing {

struct Sample {
  oci::Config config;
  Facts facts;
};

Sample generate(std::uint64_t seed);

}  // namespace agentrun::policy::testing
