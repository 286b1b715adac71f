// The audit trail: one JSON line an event in /var/log/agentrun/audit.jsonl, or $XDG_STATE_HOME/agentrun/ (DESIGN 12).
// Values of environment variables are never in it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace agentrun::lifecycle {

// `json` is an object without braces' trailing newline: {"event":"create", ...}; time, container and format are added.
// Appends with one write under a lock. A failure is an error: under a policy with audit it fails the command.
Result<void> append_audit(std::string_view event, std::string_view container, std::string_view json_fields);

std::string audit_path();  // AGENTRUN_AUDIT_LOG in the environment of the administrator, else the default

}  // namespace agentrun::lifecycle
