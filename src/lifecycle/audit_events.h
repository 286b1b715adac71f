// The fields of each audit record, as JSON members without the braces. Values of environment variables never are among
// them.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "lifecycle/store.h"
#include "oci/config.h"
#include "policy/harden.h"

namespace agentrun::lifecycle {

std::string create_fields(const Record& record, const policy::Effective& effective);
std::string start_fields(const Record& record);
std::string exec_fields(const Record& record, const oci::Process& process, pid_t pid);
std::string denial_fields(const std::string& policy, const std::string& bundle, const Error& error);

}  // namespace agentrun::lifecycle
