#include "lifecycle/handover.h"

#include <fcntl.h>

#include "sys/file.h"
#include "sys/socket.h"

namespace agentrun::lifecycle {
namespace {

Result<void> write_pid_file(const std::string& path, pid_t pid) {
  const auto slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const UniqueFd directory = TRY(sys::open(parent, O_PATH | O_DIRECTORY));
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  return sys::replace_file_at(directory.get(), name, std::to_string(pid), 0644);
}

}  // namespace

Result<void> hand_over(const std::string& pid_file, const std::string& pidfd_socket, pid_t pid, int pidfd) {
  if (!pidfd_socket.empty()) {
    const UniqueFd socket = TRY(sys::connect_stream(pidfd_socket));
    TRY(sys::send_message(socket.get(), "pidfd", {pidfd}));
  }
  if (!pid_file.empty()) TRY(write_pid_file(pid_file, pid));
  return ok();
}

}  // namespace agentrun::lifecycle
