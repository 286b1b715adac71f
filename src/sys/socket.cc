#include "sys/socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace agentrun::sys {
namespace {

constexpr std::size_t kMostFds = 16;
constexpr time_t kPatienceSeconds = 10;

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return os_error(ENAMETOOLONG, "socket path", path);
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

std::string path_by_fd(int directory, const std::string& name) {
  return "/proc/self/fd/" + std::to_string(directory) + "/" + name;
}

Result<UniqueFd> new_socket(int type) {
  UniqueFd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!socket) return errno_error("socket");
  return socket;
}

Result<UniqueFd> connect_to(int type, const std::string& path, const std::string& name) {
  UniqueFd socket = TRY(new_socket(type));
  const sockaddr_un address = TRY(address_of(path));
  const timeval patience{type == SOCK_STREAM ? kPatienceSeconds : 0, 0};  // 0: for ever
  if (setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0) {
    return errno_error("set a time limit on", name);
  }
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EAGAIN && type == SOCK_STREAM) return refusal("connect to", name, "nobody accepts the connection");
    return errno_error("connect to", name);
  }
  return socket;
}

}  // namespace

Result<std::pair<UniqueFd, UniqueFd>> socket_pair(int type) {
  std::array<int, 2> fds{};
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds.data()) != 0) return errno_error("socketpair");
  return std::make_pair(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

Result<UniqueFd> listen_at(int directory, const std::string& name) {
  UniqueFd socket = TRY(new_socket(SOCK_SEQPACKET));
  const sockaddr_un address = TRY(address_of(path_by_fd(directory, name)));
  // The mode of the socket file is what fchmod says before bind: no moment in which others could connect.
  if (fchmod(socket.get(), 0600) != 0) return errno_error("chmod", name);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return errno_error("bind", name);
  }
  if (listen(socket.get(), 8) != 0) return errno_error("listen on", name);
  return socket;
}

Result<UniqueFd> connect_at(int directory, const std::string& name) {
  return connect_to(SOCK_SEQPACKET, path_by_fd(directory, name), name);
}

Result<UniqueFd> connect_stream(const std::string& path) {
  // Longer than sun_path: through the directory's fd.
  if (path.size() < sizeof(sockaddr_un::sun_path)) return connect_to(SOCK_STREAM, path, path);
  const auto slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  UniqueFd directory(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return errno_error("open", parent);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  return connect_to(SOCK_STREAM, path_by_fd(directory.get(), name), path);
}

Result<void> send_message(int socket, std::string_view data, const std::vector<int>& fds) {
  if (fds.size() > kMostFds) return os_error(EINVAL, "send", "too many fds");
  iovec part{const_cast<char*>(data.data()), data.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFds * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  while (true) {
    const ssize_t count = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (count >= 0) {
      if (static_cast<std::size_t>(count) != data.size()) return os_error(EMSGSIZE, "send");
      return ok();
    }
    if (errno != EINTR) return errno_error("send");
  }
}

Result<Message> receive_message(int socket, std::size_t limit, bool wait) {
  Message received;
  received.data.resize(limit);
  iovec part{received.data.data(), received.data.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFds * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t count = 0;
  do {
    count = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
  } while (count < 0 && errno == EINTR);
  if (count < 0) return errno_error("receive");
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t bytes = header->cmsg_len - CMSG_LEN(0);
    for (std::size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
      received.fds.emplace_back(fd);
    }
  }
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return os_error(EMSGSIZE, "receive", "message cut off");
  received.data.resize(static_cast<std::size_t>(count));
  received.end = count == 0 && received.fds.empty();
  return received;
}

}  // namespace agentrun::sys
