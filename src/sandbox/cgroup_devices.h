// Which device nodes the container may open and make. On v2 a program of ours on the cgroup
// (BPF_PROG_TYPE_CGROUP_DEVICE, Linux 4.15), on v1 devices.allow and devices.deny.
//
// Both start from "nothing is allowed" whatever the config says: an empty list is no permission. Rules apply in the
// listed order, the last that names a device decides each of r, w and m on its own. Unless the rules end by allowing
// everything, the standard nodes follow: null zero full random urandom tty console ptmx and pts, and making any node,
// which is harmless without access to it and needs CAP_MKNOD (what runc and crun allow too).
#pragma once

#include <linux/bpf.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "oci/config.h"

namespace agentrun::sandbox {

// The config's rules as they will be enforced: a first rule that denies everything, the standard nodes last.
Result<std::vector<oci::DeviceRule>> complete_rules(const std::vector<oci::DeviceRule>& rules);

// The program. Pure. It returns 1 where every access that was asked for is allowed.
Result<std::vector<bpf_insn>> device_program(const std::vector<oci::DeviceRule>& complete);

// "c 1:3 rwm" for devices.allow or devices.deny.
struct DeviceWrite {
  bool allow = false;
  std::string line;
};

// What to write to v1's files, in order. v1 keeps exceptions to a default, by exact numbers, and cannot take a part out
// of a wider exception: rules that need that are an error here, not a hole.
Result<std::vector<DeviceWrite>> device_writes(const std::vector<oci::DeviceRule>& complete);

// Loads and attaches the program, beside those that others have there (BPF_F_ALLOW_MULTI: all must agree), and then
// detaches an earlier one of ours. Needs CAP_BPF and CAP_NET_ADMIN, or CAP_SYS_ADMIN, in the initial user namespace.
Result<void> limit_devices_v2(const std::string& directory, const std::vector<oci::DeviceRule>& rules);

Result<void> limit_devices_v1(const std::string& directory, const std::vector<oci::DeviceRule>& rules);

}  // namespace agentrun::sandbox
