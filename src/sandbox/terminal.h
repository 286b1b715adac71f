// Terminals: a pty of the container's own devpts, handed to the engine over its console socket (CVE-2025-52565: the
// slave is opened by TIOCGPTPEER, never by name; ptmx and devpts are verified).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "oci/config.h"

namespace agentrun::sandbox {

struct Terminal {
  UniqueFd master, slave;
  std::string name;  // "/dev/pts/0"
};

// In the entered root.
Result<Terminal> open_terminal(const std::optional<oci::ConsoleSize>& size);

// The slave's owner becomes `uid`, so that the program can open its own terminal by name, as after a login. It was made
// by us a moment ago and nobody else has it: not so the fds 0 to 2 that an engine hands in, which are never chowned.
Result<void> give_terminal(const Terminal& terminal, std::uint32_t uid);

// Binds the slave on /dev/console of the entered root (created if missing; never through a symlink).
Result<void> bind_console(const Terminal& terminal);

// The master with its name as payload, as engines expect; `socket` was connected before the clone.
Result<void> send_terminal(int socket, const Terminal& terminal);

// A new session, the slave as its controlling terminal and as fds 0, 1 and 2.
Result<void> take_terminal(const Terminal& terminal);

}  // namespace agentrun::sandbox
