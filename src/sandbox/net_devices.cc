#include "sandbox/net_devices.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <set>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::sandbox {
namespace {

constexpr std::size_t kLongestAnswer = 64 * 1024;

// One request: a header, a fixed body, attributes.
class Request {
 public:
  template <typename Body>
  Request(std::uint16_t type, unsigned flags, const Body& body) {
    nlmsghdr header{};
    header.nlmsg_type = type;
    header.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
    append(&header, sizeof header);
    append(&body, sizeof body);
  }

  void attribute(std::uint16_t type, std::string_view value) {
    rtattr attribute{};
    attribute.rta_type = type;
    attribute.rta_len = static_cast<std::uint16_t>(sizeof attribute + value.size());
    append(&attribute, sizeof attribute);
    append(value.data(), value.size());
  }

  void number(std::uint16_t type, std::uint32_t value) {
    attribute(type, std::string_view(reinterpret_cast<const char*>(&value), sizeof value));
  }

  std::string_view bytes() {
    const auto length = static_cast<std::uint32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &length, sizeof length);  // nlmsg_len is the first field
    return bytes_;
  }

 private:
  void append(const void* data, std::size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  }

  std::string bytes_;
};

// An address as the kernel prints it and takes it again: the fixed part, and attributes that matter.
struct Address {
  ifaddrmsg body{};
  std::vector<std::pair<std::uint16_t, std::string>> attributes;
};

class Route {
 public:
  static Result<Route> open() {
    Route route;
    route.socket_.reset(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!route.socket_) return errno_error("open netlink socket");
    const timeval patience{10, 0};
    if (setsockopt(route.socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0) {
      return errno_error("set up netlink socket");
    }
    return route;
  }

  // Sends it and waits for the kernel's word on it.
  Result<void> change(Request request) {
    TRY(send(request));
    std::vector<char> data(kLongestAnswer);
    const std::size_t size = TRY(receive(data));
    nlmsghdr header{};
    nlmsgerr error{};
    if (size < sizeof header + sizeof error) return refusal("netlink", {}, "an answer is too short");
    std::memcpy(&header, data.data(), sizeof header);
    if (header.nlmsg_type != NLMSG_ERROR) return refusal("netlink", {}, "an answer of another kind");
    std::memcpy(&error, data.data() + NLMSG_HDRLEN, sizeof error);
    if (error.error != 0) return os_error(-error.error, "netlink");
    return ok();
  }

  // Every message of a dump.
  Result<void> dump(Request request, const std::function<void(const nlmsghdr&, std::string_view body)>& visit) {
    TRY(send(request));
    std::vector<char> data(kLongestAnswer);
    while (true) {
      const std::size_t size = TRY(receive(data));
      for (std::size_t at = 0; at + sizeof(nlmsghdr) <= size;) {
        nlmsghdr header{};
        std::memcpy(&header, data.data() + at, sizeof header);
        if (header.nlmsg_len < sizeof header || at + header.nlmsg_len > size) {
          return refusal("netlink", {}, "a message is damaged");
        }
        if (header.nlmsg_type == NLMSG_DONE) return ok();
        if (header.nlmsg_type == NLMSG_ERROR) return refusal("netlink", {}, "the kernel refuses a list");
        visit(header, std::string_view(data.data() + at + NLMSG_HDRLEN, header.nlmsg_len - NLMSG_HDRLEN));
        at += NLMSG_ALIGN(header.nlmsg_len);
      }
    }
  }

 private:
  Result<void> send(Request& request) {
    const std::string_view bytes = request.bytes();
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), 0);
    if (sent != static_cast<ssize_t>(bytes.size())) return errno_error("send to netlink");
    return ok();
  }

  Result<std::size_t> receive(std::vector<char>& data) {
    while (true) {
      const ssize_t size = recv(socket_.get(), data.data(), data.size(), MSG_TRUNC);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) return errno_error("receive from netlink");
      if (static_cast<std::size_t>(size) > data.size()) return refusal("netlink", {}, "an answer is too long");
      return static_cast<std::size_t>(size);
    }
  }

  UniqueFd socket_;
};

// By ioctl, which needs no name in an answer to be compared. 0: there is none of that name.
Result<int> index_of(const std::string& name) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return errno_error("open socket for", name);
  ifreq request{};
  if (name.size() >= sizeof request.ifr_name) return refusal("network interface", name, "the name is too long");
  std::memcpy(request.ifr_name, name.data(), name.size());
  if (ioctl(socket.get(), SIOCGIFINDEX, &request) == 0) return request.ifr_ifindex;
  if (errno == ENODEV) return 0;
  return errno_error("look for network interface", name);
}

std::vector<std::pair<std::uint16_t, std::string>> kept_attributes(std::string_view bytes) {
  std::vector<std::pair<std::uint16_t, std::string>> kept;
  while (bytes.size() >= sizeof(rtattr)) {
    rtattr attribute{};
    std::memcpy(&attribute, bytes.data(), sizeof attribute);
    if (attribute.rta_len < sizeof attribute || attribute.rta_len > bytes.size()) break;
    const std::string_view value = bytes.substr(sizeof attribute, attribute.rta_len - sizeof attribute);
    for (const std::uint16_t type : {IFA_ADDRESS, IFA_LOCAL, IFA_BROADCAST}) {
      if (attribute.rta_type == type) kept.emplace_back(type, std::string(value));
    }
    bytes.remove_prefix(std::min<std::size_t>(RTA_ALIGN(attribute.rta_len), bytes.size()));
  }
  return kept;
}

// The permanent ones of global scope: those that the specification wants kept. Others (link-local, by DHCP or router
// advertisement) the kernel or a daemon makes.
Result<std::vector<Address>> addresses_of(Route& route, int index) {
  std::vector<Address> addresses;
  TRY(route.dump(Request(RTM_GETADDR, NLM_F_DUMP, ifaddrmsg{}), [&](const nlmsghdr& header, std::string_view body) {
    Address address;
    if (header.nlmsg_type != RTM_NEWADDR || body.size() < sizeof address.body) return;
    std::memcpy(&address.body, body.data(), sizeof address.body);
    if (address.body.ifa_index != static_cast<unsigned>(index) || address.body.ifa_scope != RT_SCOPE_UNIVERSE) return;
    if ((address.body.ifa_flags & IFA_F_PERMANENT) == 0) return;
    address.attributes = kept_attributes(body.substr(NLMSG_ALIGN(sizeof address.body)));
    addresses.push_back(std::move(address));
  }));
  return addresses;
}

Result<void> move_one(Route& route, int index, const std::string& name, int network) {
  ifinfomsg body{};
  body.ifi_index = index;
  Request request(RTM_NEWLINK, NLM_F_ACK, body);
  request.number(IFLA_NET_NS_FD, static_cast<std::uint32_t>(network));
  request.attribute(IFLA_IFNAME, std::string_view(name.c_str(), name.size() + 1));
  return route.change(std::move(request));
}

// In the container's network namespace.
Result<void> settle_one(Route& route, const std::string& name, const std::vector<Address>& addresses) {
  const int index = TRY(index_of(name));  // the number may be another one here
  if (index == 0) return refusal("find", name, "it is not there after the move");
  for (const Address& address : addresses) {
    ifaddrmsg body = address.body;
    body.ifa_index = static_cast<unsigned>(index);
    Request request(RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, body);
    for (const auto& [type, value] : address.attributes) request.attribute(type, value);
    TRY(route.change(std::move(request)));
  }
  ifinfomsg up{};
  up.ifi_index = index;
  up.ifi_flags = IFF_UP;
  up.ifi_change = IFF_UP;
  return route.change(Request(RTM_NEWLINK, NLM_F_ACK, up));
}

const std::string& inner_name(const std::pair<const std::string, oci::NetDevice>& device) {
  return device.second.name.empty() ? device.first : device.second.name;
}

Error about(Error error, const std::string& name) {
  error.operation = "move network interface";
  error.object = name;
  return error;
}

Result<void> move_all(const std::map<std::string, oci::NetDevice>& devices, int network) {
  std::map<std::string, std::vector<Address>> addresses;
  Route outside = TRY(Route::open());
  for (const auto& device : devices) {
    const int index = TRY(index_of(device.first));
    if (index == 0) return refusal("move network interface", device.first, "no such interface");
    addresses[inner_name(device)] = TRY(addresses_of(outside, index));
    if (auto moved = move_one(outside, index, inner_name(device), network); !moved) {
      return about(std::move(moved).error(), device.first);
    }
  }
  if (setns(network, CLONE_NEWNET) != 0) return errno_error("join network namespace");
  Route inside = TRY(Route::open());
  for (const auto& [name, of_it] : addresses) {
    if (auto settled = settle_one(inside, name, of_it); !settled) return about(std::move(settled).error(), name);
  }
  return ok();
}

}  // namespace

Result<void> check_net_devices(const std::map<std::string, oci::NetDevice>& devices) {
  std::set<std::string> names;
  for (const auto& device : devices) {
    if (device.first == "lo") return refusal("/linux/netDevices", "lo", "every namespace has its own");
    if (!names.insert(inner_name(device)).second) {
      return refusal("/linux/netDevices", inner_name(device), "two interfaces would have this name");
    }
    if (TRY(index_of(device.first)) == 0) return refusal("/linux/netDevices", device.first, "no such interface");
  }
  return ok();
}

// In a process of its own, since it changes namespace on the way. Its error comes back in a pipe.
Result<void> move_net_devices(const std::map<std::string, oci::NetDevice>& devices, int network) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errno_error("pipe");
  UniqueFd out(ends[0]), in(ends[1]);
  const pid_t helper = TRY(sys::fork_running([&] {
    const auto moved = move_all(devices, network);
    if (moved) return 0;
    (void)sys::write_all(in.get(), moved.error().message(), "pipe");
    return 1;
  }));
  in.reset();
  const auto text = sys::read_fd(out.get(), "pipe");
  const int code = TRY(sys::wait_process(helper)).code();
  if (code == 0) return ok();
  return refusal("/linux/netDevices", {}, text && !text->empty() ? *text : "the helper was killed");
}

}  // namespace agentrun::sandbox
