// Capability sets (capabilities(7)), by libcap.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "oci/config.h"

namespace agentrun::sandbox {

// Bit N is capability number N.
struct CapabilitySets {
  std::uint64_t bounding = 0, effective = 0, inheritable = 0, permitted = 0, ambient = 0;
};

// Unknown names are an error. What cannot be granted is left out with a warning in the log, as the runtime
// specification wants (config.md, "capabilities"): what this kernel does not have (cap_last_cap), effective ones that
// are not permitted, ambient ones that are not both inheritable and permitted ("can't raise ambient capability").
Result<CapabilitySets> resolve_capabilities(const oci::Capabilities& capabilities);

// In the child. `limit_bounding` first, while CAP_SETPCAP is there; `keep_over_setuid` before the uid changes;
// `set_capabilities` after it. What this process does not have itself it cannot give, and leaves out; each reads back
// what the kernel took, and a set that is larger than asked for is an error.
Result<void> limit_bounding(const CapabilitySets& sets);
Result<void> keep_over_setuid();
Result<void> set_capabilities(const CapabilitySets& sets);

}  // namespace agentrun::sandbox
