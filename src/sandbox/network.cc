#include "sandbox/network.h"

#include <linux/if.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/unique_fd.h"

namespace agentrun::sandbox {
namespace {

struct Link {
  std::string name;
  bool up = false;
};

Result<UniqueFd> open_route_socket() {
  UniqueFd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!fd) return errno_error("open netlink socket");
  // A kernel that never answers must not hold a container for ever.
  const timeval patience{10, 0};
  if (setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0) {
    return errno_error("set up netlink socket");
  }
  return fd;
}

Result<void> ask_for_links(int socket) {
  struct {
    nlmsghdr header;
    ifinfomsg body;
  } request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_GETLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  if (send(socket, &request, sizeof request, 0) != static_cast<ssize_t>(sizeof request)) {
    return errno_error("ask for network interfaces");
  }
  return ok();
}

Result<Link> link_of(const char* message, std::size_t length) {
  if (length < NLMSG_HDRLEN + sizeof(ifinfomsg))
    return refusal("list network interfaces", {}, "a message is too short");
  ifinfomsg body;
  std::memcpy(&body, message + NLMSG_HDRLEN, sizeof body);
  Link link;
  link.up = (body.ifi_flags & IFF_UP) != 0;
  std::size_t position = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof body);
  while (position + sizeof(rtattr) <= length) {
    rtattr attribute;
    std::memcpy(&attribute, message + position, sizeof attribute);
    if (attribute.rta_len < sizeof attribute || position + attribute.rta_len > length) break;
    if (attribute.rta_type == IFLA_IFNAME) {
      const char* name = message + position + sizeof attribute;
      link.name.assign(name, strnlen(name, attribute.rta_len - sizeof attribute));
      return link;
    }
    position += RTA_ALIGN(attribute.rta_len);
  }
  return refusal("list network interfaces", {}, "one has no name");
}

enum class Dump { more, done, interrupted };

// One datagram of the answer.
Result<Dump> read_links(const char* data, std::size_t size, std::vector<Link>& links) {
  bool interrupted = false;
  std::size_t position = 0;
  while (position + sizeof(nlmsghdr) <= size) {
    nlmsghdr header;
    std::memcpy(&header, data + position, sizeof header);
    if (header.nlmsg_len < sizeof header || position + header.nlmsg_len > size) {
      return refusal("list network interfaces", {}, "a message is damaged");
    }
    interrupted = interrupted || (header.nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    if (header.nlmsg_type == NLMSG_DONE) return interrupted ? Dump::interrupted : Dump::done;
    if (header.nlmsg_type == NLMSG_ERROR) {
      nlmsgerr error{};
      std::memcpy(&error, data + position + NLMSG_HDRLEN,
                  std::min(sizeof error, header.nlmsg_len - std::size_t{NLMSG_HDRLEN}));
      return os_error(-error.error, "list network interfaces");
    }
    if (header.nlmsg_type == RTM_NEWLINK) links.push_back(TRY(link_of(data + position, header.nlmsg_len)));
    position += NLMSG_ALIGN(header.nlmsg_len);
  }
  return interrupted ? Dump::interrupted : Dump::more;
}

// By netlink: the ioctls list only interfaces that have an IPv4 address.
Result<std::vector<Link>> list_links() {
  constexpr int kAttempts = 16;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const UniqueFd socket = TRY(open_route_socket());
    TRY(ask_for_links(socket.get()));
    std::vector<Link> links;
    std::vector<char> data(64 * 1024);
    Dump state = Dump::more;
    while (state == Dump::more) {
      const ssize_t count = recv(socket.get(), data.data(), data.size(), MSG_TRUNC);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return errno_error("list network interfaces");
      if (static_cast<std::size_t>(count) > data.size()) {
        return refusal("list network interfaces", {}, "an answer is too long");
      }
      state = TRY(read_links(data.data(), static_cast<std::size_t>(count), links));
    }
    if (state == Dump::done) return links;
  }
  return refusal("list network interfaces", {}, "they keep changing");
}

// Devices that a module makes in each new namespace (net.core.fb_tunnels_only_for_init_net), inert while they are down.
constexpr std::array<std::string_view, 11> kFallback = {
    "erspan0", "gre0", "gretap0", "ip6_vti0", "ip6erspan0", "ip6gre0", "ip6tnl0", "ip_vti0", "sit0", "tunl0", "teql0"};

bool only_loopback(const std::vector<Link>& links) {
  return std::all_of(links.begin(), links.end(), [](const Link& link) {
    return link.name == "lo" ||
           (!link.up && std::find(kFallback.begin(), kFallback.end(), link.name) != kFallback.end());
  });
}

}  // namespace

Result<void> loopback_up() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno_error("open socket for", "lo");
  ifreq request{};
  std::strncpy(request.ifr_name, "lo", sizeof request.ifr_name - 1);
  if (ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return errno_error("read flags of", "lo");
  if ((request.ifr_flags & IFF_UP) != 0) return ok();
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  if (ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return errno_error("bring up", "lo");
  return ok();
}

Result<std::vector<std::string>> interfaces() {
  std::vector<std::string> names;
  for (const Link& link : TRY(list_links())) names.push_back(link.name);
  return names;
}

Result<bool> ensure_empty_network() {
  if (only_loopback(TRY(list_links()))) return false;
  if (unshare(CLONE_NEWNET) != 0) return errno_error("unshare network namespace");
  TRY(loopback_up());
  if (!only_loopback(TRY(list_links()))) {
    return refusal("network none", {}, "a new network namespace has more than lo in it");
  }
  return true;
}

}  // namespace agentrun::sandbox
