// The audit trail: one JSON line an event in /var/log/agentrun/audit.jsonl, or $XDG_STATE_HOME/agentrun/.
// Values of environment variables are never in it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace agentrun::lifecycle {

// Appends one line, by one write(2) under a lock: {"format":1,"time":...,"event":...,"container":..., `json_fields`}.
// `json_fields` are the members of a JSON object without its braces, or empty; they are parsed, and cannot replace the
// four. Values of environment variables are never among them, names are. A failure is an error:
// under a policy with audit it fails the command. What a full disk cuts short is taken back, so every line is whole.
Result<void> append_audit(std::string_view event, std::string_view container, std::string_view json_fields);

// AGENTRUN_AUDIT_LOG of the environment (the engine's, never a container's); else for root of the host
// /var/log/agentrun/audit.jsonl, for others audit.jsonl in $XDG_STATE_HOME/agentrun, ~/.local/state/agentrun, or where
// there is no home $XDG_RUNTIME_DIR/agentrun/.audit. Empty: there is no place.
std::string audit_path();

}  // namespace agentrun::lifecycle
