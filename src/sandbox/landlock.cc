#include "sandbox/landlock.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/stat.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>

#include "sandbox/mount_target.h"
#include "sys/file.h"
#include "sys/landlock.h"

namespace agentrun::sandbox {
namespace {

namespace right = sys::landlock;

// What a rule for a file that is no directory may have.
constexpr std::uint64_t kOfFiles = right::kWriteFile | right::kTruncate | right::kIoctlDevice;

std::uint64_t file_rights(int abi) {
  std::uint64_t rights = right::kWriteFile | right::kRemoveDirectory | right::kRemoveFile |
                         right::kMakeCharacterDevice | right::kMakeDirectory | right::kMakeRegular |
                         right::kMakeSocket | right::kMakeFifo | right::kMakeBlockDevice | right::kMakeSymlink |
                         right::kRefer;
  if (abi >= 3) rights |= right::kTruncate;
  if (abi >= 5) rights |= right::kIoctlDevice;
  return rights;
}

bool is_mount_root(int fd) {
  struct statx status {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &status) != 0) return false;
  return (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;  // Linux 5.8
}

class Ruleset {
 public:
  explicit Ruleset(const LandlockRequest& request) : request_(request), rules_(*request.rules) {}

  Result<UniqueFd> make() {
    sys::LandlockAttributes attributes;
    if (rules_.files) attributes.files = handled_ = file_rights(rules_.abi);
    if (rules_.tcp_connect) attributes.net |= right::kConnectTcp;
    if (rules_.tcp_bind) attributes.net |= right::kBindTcp;
    if (rules_.signals) attributes.scopes |= right::kScopeSignals;
    if (rules_.abstract_sockets) attributes.scopes |= right::kScopeAbstractSockets;
    ruleset_ = TRY(sys::new_landlock_ruleset(attributes));
    if (rules_.files) TRY(allow_files());
    TRY(allow_ports(rules_.tcp_connect, right::kConnectTcp));
    TRY(allow_ports(rules_.tcp_bind, right::kBindTcp));
    return std::move(ruleset_);
  }

 private:
  Result<void> allow_files() {
    root_ = TRY(sys::open("/", O_PATH | O_DIRECTORY));
    constexpr std::uint64_t kNodes = right::kMakeCharacterDevice | right::kMakeBlockDevice;
    // ioctl(2) is for devices, and where they belong; the mounts elsewhere are nodev.
    const std::uint64_t whole = handled_ & ~right::kIoctlDevice & ~(rules_.device_nodes ? 0 : kNodes);
    for (const std::string& path : rules_.places) TRY(allow_mount(path, whole));
    for (const std::string& path : rules_.procfs) TRY(allow_mount(path, right::kWriteFile | right::kTruncate));
    TRY(allow_devices());
    for (const int fd : request_.open_fds) TRY(allow_open(fd));
    return ok();
  }

  Result<void> allow(int fd, std::uint64_t rights, const std::string& name) {
    const struct stat status = TRY(sys::stat_fd(fd, name));
    if (S_ISLNK(status.st_mode)) return ok();
    if (!S_ISDIR(status.st_mode)) rights &= kOfFiles;
    if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) rights |= right::kIoctlDevice;
    rights &= handled_;
    if (rights == 0) return ok();
    auto allowed = sys::landlock_allow_path(ruleset_.get(), fd, rights);
    if (!allowed && allowed.error().code != EBADFD) {
      return os_error(allowed.error().code, "landlock_add_rule", name);
    }
    return ok();
  }

  // An invalid fd where it is not there, or not to be reached without a symlink.
  Result<UniqueFd> find(const std::string& path, bool symlinks) const {
    const std::uint64_t links = symlinks ? RESOLVE_NO_MAGICLINKS : RESOLVE_NO_SYMLINKS;
    auto found = sys::open_resolved(root_.get(), path, O_PATH, RESOLVE_IN_ROOT | links);
    if (found) return found;
    const int code = found.error().code;
    if (code == ENOENT || code == ENOTDIR || code == ELOOP || code == EACCES) return UniqueFd();
    return found;
  }

  Result<void> allow_mount(const std::string& path, std::uint64_t rights) {
    const std::string place = clean_destination(path, request_.rootfs);
    const UniqueFd fd = TRY(find(place, request_.trust_symlinks));
    if (!fd || !is_mount_root(fd.get())) return ok();
    return allow(fd.get(), rights, place);
  }

  // Terminals, /dev/null and their like; also where the nodes are in the image's own /dev.
  Result<void> allow_devices() {
    const UniqueFd fd = TRY(find("/dev", false));
    return fd ? allow(fd.get(), kOfFiles, "/dev") : ok();
  }

  // `agentrun run ... > log`: /dev/stdout is a file of the host that is in none of our trees. What the fd may already,
  // its name in procfs may too; not a directory, below which there is more.
  Result<void> allow_open(int fd) {
    struct stat status {};
    if (fstat(fd, &status) != 0) return ok();
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || (flags & O_PATH) != 0) return ok();
    if (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode)) return ok();
    return allow(fd, right::kWriteFile | right::kTruncate, "open file " + std::to_string(fd));
  }

  Result<void> allow_ports(const std::optional<std::vector<std::uint16_t>>& ports, std::uint64_t rights) {
    if (!ports) return ok();
    for (const std::uint16_t port : *ports) TRY(sys::landlock_allow_port(ruleset_.get(), port, rights));
    return ok();
  }

  const LandlockRequest& request_;
  const policy::LandlockRules& rules_;
  std::uint64_t handled_ = 0;
  UniqueFd ruleset_, root_;
};

}  // namespace

Result<UniqueFd> make_landlock_ruleset(const LandlockRequest& request) { return Ruleset(request).make(); }

}  // namespace agentrun::sandbox
