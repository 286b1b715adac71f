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

// A policy file as text: some sections, some keys of each, values that are right; now and then one that the parser
// refuses for what it would be together. The same seed gives the same.
std::string generate_policy(std::uint64_t seed);

}  // namespace agentrun::policy::testing
