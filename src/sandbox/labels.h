// AppArmor and SELinux labels for the next execve, written through a procfs fd that was verified (CVE-2019-16884).
#pragma once

#include <string>

#include "base/result.h"

namespace agentrun::sandbox {

bool apparmor_enabled();                             // the kernel enforces it
bool apparmor_profile_loaded(const std::string& profile);
bool selinux_enabled();

// `procfs`: an fd of a procfs root in which this process is. A label that is asked for where the module is off is refused.
Result<void> set_apparmor_on_exec(int procfs, const std::string& profile);
Result<void> set_selinux_on_exec(int procfs, const std::string& label);

}  // namespace agentrun::sandbox
