// What `update` changes of the limits that a container already has.
#pragma once

#include "oci/config.h"

namespace agentrun::lifecycle {

// `change` laid over `base`: what `change` does not name stays as it was.
void merge_resources(oci::Resources& base, const oci::Resources& change);

}  // namespace agentrun::lifecycle
