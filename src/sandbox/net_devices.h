// linux.netDevices: network interfaces of the host that become the container's (config-linux.md, "Network Devices"), by
// rtnetlink(7). An interface that is moved away is down and has no address: both are put right in the new namespace.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "oci/config.h"

namespace agentrun::sandbox {

// In the caller, before anything is made: each is there, is not lo, and no two would have one name inside.
Result<void> check_net_devices(const std::map<std::string, oci::NetDevice>& devices);

// In the caller, which has CAP_NET_ADMIN over both sides. `network`: the container's network namespace. Each interface
// keeps its MTU, its hardware address and its permanent addresses of global scope, and is up afterwards. A name that is
// taken inside is an error. The kernel gives a hardware interface back when the namespace ends; a virtual one ends with
// it.
Result<void> move_net_devices(const std::map<std::string, oci::NetDevice>& devices, int network);

}  // namespace agentrun::sandbox
