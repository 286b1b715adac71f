// The network namespace of the container: lo up, and under `none` nothing but lo (netdevice(7), rtnetlink(7)).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace agentrun::sandbox {

Result<void> loopback_up();

// Names of all interfaces of this network namespace.
Result<std::vector<std::string>> interfaces();

// Under `network: none`, right before the program runs: an engine may have configured the namespace between create and
// start. Anything but lo there, and a fresh namespace takes its place; with CAP_SYS_ADMIN still on. Says if it did. The
// tunnel devices that the kernel puts into every namespace where their modules are loaded (tunl0, sit0, ...) are no
// configuration as long as they are down.
Result<bool> ensure_empty_network();

}  // namespace agentrun::sandbox
