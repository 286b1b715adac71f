// agentrun.json and the administrator's policies beside it: agentrun.json(5).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "lifecycle/options.h"
#include "oci/config.h"
#include "policy/policy.h"
#include "policy/settings.h"

namespace agentrun::lifecycle {

// The file that applies: --config, else agentrun.json in the configuration directory (/etc/agentrun).
std::string settings_path(const Global& global);

// What it says; the defaults where there is no file, unless --config named it. Errors: it cannot be read or trusted
// (trusted_file.h), is malformed, or --config comes from somebody other than root of the host: for ordinary users the
// host's file holds.
Result<policy::Settings> load_settings(const Global& global);

// A policy by its name: built in, else policies/NAME.json beside the settings, which has to be the administrator's own.
Result<policy::Policy> named_policy(const Global& global, const std::string& name);

// The text of one of the latter, and the finder that `extends` uses.
Result<policy::PolicyText> policy_file(const Global& global, const std::string& name);
policy::FindPolicy policy_finder(const Global& global);

// Names of the files there, sorted. None where there is no such directory.
Result<std::vector<std::string>> policy_file_names(const Global& global);

// The pause container of a pod, as the CRI engine that `settings` names for this root says: nothing runs in it that is
// a user's, and it lives as long as the pod. Elsewhere the annotations are anybody's.
bool is_pod_sandbox(const Global& global, const policy::Settings& settings, const oci::Annotations& annotations);

// Of the root that `global` names.
const policy::RootSettings& root_settings(const Global& global, const policy::Settings& settings);

}  // namespace agentrun::lifecycle
