#include "sandbox/devices.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "sandbox/mount_options.h"
#include "sandbox/mount_target.h"
#include "sys/file.h"
#include "sys/mount.h"

namespace agentrun::sandbox {
namespace {

constexpr mode_t kDefaultMode = 0666;  // who may open it is up to the device cgroup

struct Node {
  std::string path;  // absolute, clean
  mode_t type = S_IFCHR;
  dev_t device = 0;
  mode_t mode = kDefaultMode;
  std::uint32_t uid = 0, gid = 0;
};

Node to_node(const oci::Device& device) {
  Node node;
  node.path = text::clean_path(device.path);
  node.type = device.type == 'b' ? S_IFBLK : device.type == 'p' ? S_IFIFO : S_IFCHR;
  if (device.type != 'p') {
    node.device = makedev(static_cast<unsigned>(device.major), static_cast<unsigned>(device.minor));
  }
  node.mode = device.file_mode.value_or(kDefaultMode) & 07777U;
  node.uid = device.uid.value_or(0);
  node.gid = device.gid.value_or(0);
  return node;
}

// The config's own first: a default that it names too is made as it says.
std::vector<Node> all_nodes(const oci::Config& config) {
  struct Default {
    const char* path;
    unsigned major, minor;
  };
  constexpr std::array<Default, 6> kDefaults = {{{"/dev/null", 1, 3},
                                                 {"/dev/zero", 1, 5},
                                                 {"/dev/full", 1, 7},
                                                 {"/dev/random", 1, 8},
                                                 {"/dev/urandom", 1, 9},
                                                 {"/dev/tty", 5, 0}}};
  std::vector<Node> nodes;
  const auto add = [&nodes](Node node) {
    const bool there =
        std::any_of(nodes.begin(), nodes.end(), [&](const Node& other) { return other.path == node.path; });
    // /dev/ptmx is always the link to the container's own devpts: the node 5:2 would open the host's.
    if (!there && node.path != "/dev/ptmx") nodes.push_back(std::move(node));
  };
  for (const oci::Device& device : config.linux.devices) add(to_node(device));
  for (const Default& device : kDefaults) {
    Node node;
    node.path = device.path;
    node.device = makedev(device.major, device.minor);
    add(std::move(node));
  }
  return nodes;
}

bool is_node(const struct stat& status, const Node& node) {
  return (status.st_mode & S_IFMT) == node.type && (node.type == S_IFIFO || status.st_rdev == node.device);
}

// By the fd of the very node, never by name again: fchmod does not take O_PATH, so the mode is set by mknod alone
// (umask is 0 here), or checked.
Result<void> set_owner(int directory, const std::string& name, const Node& node, std::uint32_t uid, std::uint32_t gid) {
  const UniqueFd made = TRY(sys::open_at(directory, name, O_PATH | O_NOFOLLOW));
  if (!is_node(TRY(sys::stat_fd(made.get(), node.path)), node)) {
    return refusal("make device", node.path, "was exchanged meanwhile");
  }
  if ((uid != 0 || gid != 0) && fchownat(made.get(), "", uid, gid, AT_EMPTY_PATH) != 0) {
    return errno_error("chown", node.path);
  }
  return ok();
}

// A node of an image that is the right device already gets mode and owner too. Through the parent's fd and by name, but
// not following: what a rename could put there is a file of the same image.
Result<void> adopt(int directory, const std::string& name, const Node& node) {
  TRY(set_owner(directory, name, node, node.uid, node.gid));
  const UniqueFd there = TRY(sys::open_at(directory, name, O_PATH | O_NOFOLLOW));
  if ((TRY(sys::stat_fd(there.get(), node.path)).st_mode & 07777U) == node.mode) return ok();
  const std::string path = "/proc/self/fd/" + std::to_string(there.get());
  if (chmod(path.c_str(), node.mode) != 0) return errno_error("chmod", node.path);
  return ok();
}

std::optional<std::uint32_t> map_id(const std::vector<oci::IdMapping>& maps, std::uint32_t id) {
  for (const oci::IdMapping& map : maps) {
    if (id >= map.container_id && id - map.container_id < map.size) return map.host_id + (id - map.container_id);
  }
  return std::nullopt;
}

// In the staged tmpfs every node has a name of its own by what it is.
std::string staged_name(const Node& node) {
  std::string name;
  for (const std::uint64_t part :
       {std::uint64_t{node.type}, std::uint64_t{major(node.device)}, std::uint64_t{minor(node.device)},
        std::uint64_t{node.mode}, std::uint64_t{node.uid}, std::uint64_t{node.gid}}) {
    name += std::to_string(part) + '-';
  }
  return name;
}

class Devices {
 public:
  explicit Devices(const DevicesRequest& request) : request_(request) {}

  Result<void> run() {
    TRY(open_dev());
    for (const Node& node : all_nodes(*request_.config)) TRY(place(node));
    TRY(link_ptmx());
    TRY(link("fd", "/proc/self/fd"));
    TRY(link("stdin", "/proc/self/fd/0"));
    TRY(link("stdout", "/proc/self/fd/1"));
    TRY(link("stderr", "/proc/self/fd/2"));
    return console_place();
  }

 private:
  Result<void> open_dev() {
    constexpr std::uint64_t kNoLinks = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS;
    auto opened = sys::open_resolved(request_.root, "/dev", O_PATH | O_DIRECTORY | O_NOFOLLOW, kNoLinks);
    if (!opened && opened.error().code == ENOENT) {
      if (mkdirat(request_.root, "dev", 0755) != 0 && errno != EEXIST) return errno_error("create directory", "/dev");
      opened = sys::open_resolved(request_.root, "/dev", O_PATH | O_DIRECTORY | O_NOFOLLOW, kNoLinks);
    }
    if (!opened && (opened.error().code == ELOOP || opened.error().code == ENOTDIR)) {
      return refusal("make devices in", "/dev", "must be an ordinary directory");
    }
    dev_ = TRY(std::move(opened));
    return ok();
  }

  // Where a node goes: directly in /dev by its fd, elsewhere by a walk in the root.
  Result<TargetParent> parent_of(const Node& node) {
    constexpr std::string_view kDev = "/dev/";
    if (node.path.starts_with(kDev) && node.path.find('/', kDev.size()) == std::string::npos) {
      return TargetParent{TRY(sys::duplicate(dev_.get())), node.path.substr(kDev.size())};
    }
    return open_parent(request_.root, node.path);
  }

  Result<void> place(const Node& node) {
    const TargetParent parent = TRY(parent_of(node));
    if (request_.user_namespace && node.type != S_IFIFO) return bind(parent, node);
    const int directory = parent.directory.get();
    if (mknodat(directory, parent.name.c_str(), node.type | node.mode, node.device) == 0) {
      return set_owner(directory, parent.name, node, node.uid, node.gid);
    }
    if (errno == EEXIST) return take_existing(parent, node);
    // EPERM: a container ourselves, without CAP_MKNOD, or in a namespace that was joined.
    if (errno == EPERM && node.type != S_IFIFO) return bind(parent, node);
    return errno_error("mknod", node.path);
  }

  Result<void> take_existing(const TargetParent& parent, const Node& node) {
    const UniqueFd there = TRY(sys::open_at(parent.directory.get(), parent.name, O_PATH | O_NOFOLLOW));
    if (is_node(TRY(sys::stat_fd(there.get(), node.path)), node)) {
      return adopt(parent.directory.get(), parent.name, node);
    }
    return bind(parent, node);  // over what the image has there; it stays as it is
  }

  // O_PATH of a node of the right kind on our side: staged by the caller, else the host's own of the same path.
  Result<UniqueFd> source_of(const Node& node) {
    auto source = request_.staged >= 0 ? sys::open_at(request_.staged, staged_name(node), O_PATH | O_NOFOLLOW)
                                       : sys::open(node.path, O_PATH);
    if (!source) return os_error(source.error().code, "bind device", node.path);
    if (!is_node(TRY(sys::stat_fd(source->get(), node.path)), node)) {
      return refusal("bind device", node.path, "is another device on the host");
    }
    return source;
  }

  Result<void> bind(const TargetParent& parent, const Node& node) {
    const int directory = parent.directory.get();
    UniqueFd place(openat(directory, parent.name.c_str(),
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
    if (!place && errno != EEXIST) return errno_error("create", node.path);
    place = TRY(sys::open_at(directory, parent.name, O_PATH | O_NOFOLLOW));
    const mode_t mode = TRY(sys::stat_fd(place.get(), node.path)).st_mode;
    if (S_ISLNK(mode) || S_ISDIR(mode)) return refusal("bind device", node.path, "there is another kind of file");
    const UniqueFd source = TRY(source_of(node));
    const UniqueFd mount = TRY(sys::clone_mount(source.get(), "", false));
    TRY(sys::set_mount_attributes(mount.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, 0, MS_PRIVATE, false));
    auto attached = sys::attach_mount(mount.get(), place.get());
    if (!attached) return os_error(attached.error().code, "bind device", node.path);
    return ok();
  }

  // Whatever is there goes: in our own /dev, by its fd, this removes nothing of the host's.
  Result<void> link_ptmx() {
    if (symlinkat("pts/ptmx", dev_.get(), "ptmx") == 0) return ok();
    if (errno != EEXIST) return errno_error("symlink", "/dev/ptmx");
    std::array<char, 16> text{};
    const ssize_t length = readlinkat(dev_.get(), "ptmx", text.data(), text.size());
    if (length > 0 && std::string_view(text.data(), static_cast<std::size_t>(length)) == "pts/ptmx") return ok();
    if (unlinkat(dev_.get(), "ptmx", 0) != 0) return errno_error("remove", "/dev/ptmx");
    if (symlinkat("pts/ptmx", dev_.get(), "ptmx") != 0) return errno_error("symlink", "/dev/ptmx");
    return ok();
  }

  Result<void> link(const char* name, const char* text) {
    if (symlinkat(text, dev_.get(), name) == 0 || errno == EEXIST) return ok();  // an image's own link stays
    return errno_error("symlink", std::string("/dev/") + name);
  }

  // The terminal is bound on /dev/console once the root is entered, and may be read-only by then.
  Result<void> console_place() {
    if (!request_.config->process || !request_.config->process->terminal) return ok();
    const UniqueFd made(openat(dev_.get(), "console", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!made && errno != EEXIST) return errno_error("create", "/dev/console");
    return ok();
  }

  const DevicesRequest& request_;
  UniqueFd dev_;
};

// The last mount on /dev decides.
bool dev_is_bind(const oci::Config& config) {
  bool bind = false;
  for (const oci::Mount& mount : config.mounts) {
    const std::string place = text::clean_path(mount.destination);
    if (place == "/dev" || place == "/") bind = place == "/dev" && is_bind(mount);
  }
  return bind;
}

}  // namespace

Result<UniqueFd> stage_devices(const oci::Config& config) {
  if (dev_is_bind(config) || config.linux.uid_mappings.empty() || config.linux.gid_mappings.empty()) return UniqueFd();
  auto mount = sys::new_mount("tmpfs", {{"source", "agentrun", false}, {"mode", "0755", false}, {"size", "64k", false}},
                              MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
  if (!mount) {
    if (mount.error().code == EPERM) return UniqueFd();
    return mount;
  }
  const mode_t mask = umask(0);
  const auto make = [&](const Node& node) -> Result<void> {
    const auto uid = map_id(config.linux.uid_mappings, node.uid), gid = map_id(config.linux.gid_mappings, node.gid);
    // The host's own node is bound then: its owner shows as the overflow id.
    if (!uid || !gid) return os_error(EPERM, "make device", node.path);
    const std::string name = staged_name(node);
    if (mknodat(mount->get(), name.c_str(), node.type | node.mode, node.device) != 0) {
      if (errno == EEXIST) return ok();
      return errno_error("mknod", node.path);
    }
    return set_owner(mount->get(), name, node, *uid, *gid);
  };
  Result<void> made = ok();
  for (const Node& node : all_nodes(config)) {
    if (made && node.type != S_IFIFO) made = make(node);
  }
  umask(mask);
  // Of an outer container, of a user's own namespace: no mknod, bind.
  if (!made && made.error().code == EPERM) return UniqueFd();
  TRY(std::move(made));
  return mount;
}

Result<void> make_devices(const DevicesRequest& request) {
  if (dev_is_bind(*request.config)) return ok();
  return Devices(request).run();
}

Result<UniqueFd> open_host_null() {
  UniqueFd null = TRY(sys::open("/dev/null", O_PATH | O_NOFOLLOW));
  const struct stat status = TRY(sys::stat_fd(null.get(), "/dev/null"));
  if (!S_ISCHR(status.st_mode) || status.st_rdev != makedev(1, 3)) {
    return refusal("open", "/dev/null", "is not character device 1:3");
  }
  return null;
}

}  // namespace agentrun::sandbox
