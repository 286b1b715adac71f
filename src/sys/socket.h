// Unix sockets with fds. SOCK_SEQPACKET keeps messages whole.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace agentrun::sys {

Result<std::pair<UniqueFd, UniqueFd>> socket_pair(int type);

// A listening SOCK_SEQPACKET socket `name` in `directory`, mode 0600. By /proc/self/fd, so that a long path is no
// matter (sun_path has 108 bytes).
Result<UniqueFd> listen_at(int directory, const std::string& name);
Result<UniqueFd> connect_at(int directory, const std::string& name);

// A stream socket of an engine (console socket), by its path. Neither the connection, where nobody accepts any more,
// nor a later send, where nobody reads, takes longer than 10 s: SO_SNDTIMEO holds for both, in every process that has
// the fd.
Result<UniqueFd> connect_stream(const std::string& path);

Result<void> send_message(int socket, std::string_view data, const std::vector<int>& fds = {});

struct Message {
  std::string data;
  std::vector<UniqueFd> fds;
  bool end = false;  // the other side has closed
};
// One message of at most `limit` bytes; a longer one is an error, never a part.
Result<Message> receive_message(int socket, std::size_t limit = 64 * 1024, bool wait = true);

}  // namespace agentrun::sys
