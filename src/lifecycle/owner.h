// Who the caller is, seen from the host: inside a user namespace root is an ordinary user.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace agentrun::lifecycle {

// The uid that the caller's effective uid has in the parent of its user namespace (user_namespaces(7), uid_map), from
// the text of /proc/self/uid_map. None where the text does not map it.
std::optional<uid_t> outer_uid(std::string_view uid_map, uid_t uid);

// The same of ourselves; where it is not mapped, the effective uid.
uid_t caller_uid();

// Is `owner`, as fstat(2) has it of the file at `real_path`, the host's root? In an engine's user namespace he is one
// of all those ids that have no name there; where only he makes files (/etc, /usr), it is he.
Result<bool> is_administrators(const std::string& real_path, uid_t owner);

// The caller's home directory: $HOME, else the one of its outer uid in /etc/passwd (read by hand: a static program has
// no NSS, and engines call the runtime with an empty environment). Empty: unknown.
std::string home_directory();

}  // namespace agentrun::lifecycle
