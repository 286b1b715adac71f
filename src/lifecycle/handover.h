// What an engine gets of a new process: its pid in a file, its pidfd over a socket.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace agentrun::lifecycle {

// Empty names: nothing is handed over. The pid file has digits only (engines parse the whole file as a number) and
// appears by rename.
Result<void> hand_over(const std::string& pid_file, const std::string& pidfd_socket, pid_t pid, int pidfd);

}  // namespace agentrun::lifecycle
