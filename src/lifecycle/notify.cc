#include "lifecycle/notify.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/text.h"
#include "lifecycle/leave_caller.h"
#include "sys/file.h"
#include "sys/process.h"
#include "sys/socket.h"

namespace agentrun::lifecycle {
namespace {

constexpr int kMostMessages = 1000;
constexpr int kBarrierMs = 5000;

Result<UniqueFd> datagram_socket() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno_error("socket");
  return socket;
}

// "READY=1" as a line of its own. recv(2) and not recvmsg(2): fds that come along are dropped by the kernel.
bool takes_ready(int socket) {
  std::array<char, 4096> data{};
  const ssize_t length = recv(socket, data.data(), data.size(), MSG_DONTWAIT);
  if (length <= 0) return false;
  const std::string_view message(data.data(), static_cast<std::size_t>(length));
  for (const std::string_view line : text::split(message, '\n')) {
    if (line == "READY=1") return true;
  }
  return false;
}

// The manager finds out whose message it is by the sender's pid, so that we have to be there until it has read it:
// BARRIER=1 of sd_notify_barrier(3), whose fd it closes then.
void wait_until_read(int outer) {
  auto barrier = sys::socket_pair(SOCK_STREAM);
  if (!barrier) return;
  auto& [ours, theirs] = *barrier;
  if (!sys::send_message(outer, "BARRIER=1", {theirs.get()})) return;
  theirs.reset();
  pollfd entry{ours.get(), 0, 0};
  static_cast<void>(poll(&entry, 1, kBarrierMs));
}

void wait_and_forward(int process, int inner, int outer) {
  for (int messages = 0; messages < kMostMessages;) {
    std::array<pollfd, 2> entries = {{{inner, POLLIN, 0}, {process, POLLIN, 0}}};
    if (poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) return;
    // First what was said, then the end: a program that is ready and ends at once has been ready.
    if ((entries[0].revents & POLLIN) != 0) {
      ++messages;
      if (takes_ready(inner)) {
        if (sys::send_message(outer, "READY=1")) wait_until_read(outer);
        return;
      }
      continue;
    }
    if (entries[1].revents != 0) return;
  }
}

}  // namespace

Result<UniqueFd> connect_notify_socket() {
  const char* name = std::getenv("NOTIFY_SOCKET");
  if (name == nullptr || *name == '\0') return UniqueFd();
  const std::size_t length = std::strlen(name);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (*name != '/' && *name != '@') {
    return refusal("connect to NOTIFY_SOCKET", name, "neither an absolute path nor an abstract name");
  }
  if (length >= sizeof address.sun_path) return os_error(ENAMETOOLONG, "connect to NOTIFY_SOCKET", name);
  std::memcpy(address.sun_path, name, length);
  if (*name == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length + (*name == '@' ? 0 : 1));
  UniqueFd socket = TRY(datagram_socket());
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    return errno_error("connect to NOTIFY_SOCKET", name);
  }
  return socket;
}

Result<UniqueFd> bind_notify_socket(const Container& container) {
  TRY(sys::make_directory_at(container.directory(), "notify", 0755));
  const UniqueFd directory = TRY(sys::open_at(container.directory(), "notify", O_PATH | O_DIRECTORY));
  const std::string path = "/proc/self/fd/" + std::to_string(directory.get()) + "/notify.sock";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd socket = TRY(datagram_socket());
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return errno_error("bind", "notify.sock");
  }
  // The caller's umask must not decide whether the container's user gets in. Nobody else does: the directory above is
  // 0700.
  if (fchmodat(container.directory(), "notify", 0755, 0) != 0) return errno_error("chmod", "notify");
  if (fchmodat(directory.get(), "notify.sock", 0666, 0) != 0) return errno_error("chmod", "notify.sock");
  return socket;
}

Result<void> fork_notifier(const sys::ProcessId& container, const UniqueFd& inner, const UniqueFd& outer) {
  const UniqueFd process = TRY(sys::open_process(container));
  if (!process) return refusal("container not running", "", "its process is gone");
  const sys::Cloned child = TRY(sys::clone_process(0));
  if (child.pid != 0) return ok();
  leave_caller("agentrun-notify", {process.get(), inner.get(), outer.get()});
  wait_and_forward(process.get(), inner.get(), outer.get());
  _exit(0);
}

}  // namespace agentrun::lifecycle
