#include "sandbox/writable.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/text.h"
#include "sandbox/mount_target.h"
#include "sandbox/tree_copy.h"
#include "sys/file.h"
#include "sys/mount.h"

namespace agentrun::sandbox {
namespace {

constexpr std::int64_t kMostCopied = 512 << 20;  // bytes: create waits for it

constexpr std::uint64_t kAttributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

std::string fd_path(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

class Store {
 public:
  explicit Store(const WritableRequest& request) : request_(request) {}

  Result<void> run() {
    device_ = TRY(sys::stat_fd(request_.store, "writable store")).st_dev;
    for (const std::string& path : sorted(request_.writable->empty)) TRY(empty(path));
    std::vector<std::string> done;
    for (const std::string& path : sorted(request_.writable->overlays)) {
      // Below one that is there already, everything is writable.
      const auto covers = [&path](const std::string& top) { return text::path_within(path, top); };
      if (std::any_of(done.begin(), done.end(), covers)) continue;
      if (TRY(overlay(path))) done.push_back(path);
    }
    return ok();
  }

 private:
  // Parents before what lies in them.
  static std::vector<std::string> sorted(const std::vector<std::string>& paths) {
    std::vector<std::string> clean;
    for (const std::string& path : paths) clean.push_back(text::clean_path(path));
    std::sort(clean.begin(), clean.end());
    clean.erase(std::unique(clean.begin(), clean.end()), clean.end());
    return clean;
  }

  bool within_empty(const std::string& path) const {
    return std::any_of(request_.writable->empty.begin(), request_.writable->empty.end(),
                       [&](const std::string& top) { return text::path_within(path, text::clean_path(top)); });
  }

  Result<UniqueFd> new_directory(mode_t mode) {
    const std::string name = std::to_string(next_++);
    if (mkdirat(request_.store, name.c_str(), mode) != 0) return errno_error("create directory in", "writable store");
    return sys::open_at(request_.store, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
  }

  Result<void> bind(int directory, int target, const std::string& path) {
    const UniqueFd copy = TRY(sys::clone_mount(directory, "", false));
    auto attached = sys::attach_mount(copy.get(), target);
    if (!attached) return os_error(attached.error().code, "mount writable", path);
    return ok();
  }

  Result<void> empty(const std::string& path) {
    auto target = open_target(request_.root, path, {});
    if (!target) {
      // A root file system that is read-only by itself and has no such directory, or has a file there: it stays so.
      const int code = target.error().code;
      if (code == EROFS || code == ENOTDIR || code == ELOOP) return ok();
      return std::move(target).error();
    }
    const struct stat status = TRY(sys::stat_fd(target->fd.get(), path));
    if (!S_ISDIR(status.st_mode) || status.st_dev == device_) return ok();  // /var/tmp that is a symlink to /tmp
    const UniqueFd directory = TRY(new_directory(path == "/run" ? 0755 : 01777));
    return bind(directory.get(), target->fd.get(), path);
  }

  // True where it is writable now, with everything below.
  Result<bool> overlay(const std::string& path) {
    UniqueFd target = TRY(find_target(request_.root, path));
    if (!target) {
      if (within_empty(path)) TRY(make_in_store(path));
      return false;
    }
    const struct stat status = TRY(sys::stat_fd(target.get(), path));
    if (!S_ISDIR(status.st_mode)) return false;
    if (status.st_dev == device_) return true;
    const std::string name = std::to_string(next_);
    const UniqueFd upper = TRY(new_directory(status.st_mode & 0777U));
    if (fchownat(upper.get(), "", status.st_uid, status.st_gid, AT_EMPTY_PATH) != 0 && errno != EINVAL) {
      return errno_error("chown", path);
    }
    if (fchmodat(request_.store, name.c_str(), status.st_mode & 07777U, 0) != 0) return errno_error("chmod", path);
    auto mounted = mount_overlay(target.get(), upper.get());
    if (mounted) {
      auto attached = sys::attach_mount(mounted->get(), target.get());
      if (!attached) return os_error(attached.error().code, "mount writable", path);
      return true;
    }
    TRY(copy(target.get(), upper.get(), path, mounted.error()));
    TRY(bind(upper.get(), target.get(), path));
    return true;
  }

  Result<UniqueFd> mount_overlay(int lower, int upper) {
    const UniqueFd work = TRY(new_directory(0700));
    std::vector<sys::FsOption> options = {{"source", "overlay", false},
                                          {"lowerdir", fd_path(lower), false},
                                          {"upperdir", fd_path(upper), false},
                                          {"workdir", fd_path(work.get()), false}};
    // trusted.* attributes are the host root's (overlayfs.rst, 5.11).
    if (request_.user_namespace) options.push_back({"userxattr", "", true});
    return sys::new_mount("overlay", options, kAttributes);
  }

  Result<void> copy(int from, int to, const std::string& path, const Error& why) {
    CopyLimits limits;
    limits.bytes = kMostCopied;
    if (request_.writable->size > 0) limits.bytes = std::min(request_.writable->size / 2, kMostCopied);
    if (request_.writable->inodes > 0) limits.entries = request_.writable->inodes / 2;
    auto copied = copy_tree(from, to, limits);
    if (copied) return ok();
    const int code = copied.error().code;
    if (code != EFBIG && code != ENOSPC) return std::move(copied).error();
    return refusal("make writable", path,
                   "no overlay (" + why.message() +
                       "), and its content is larger than what is copied instead: half of the writable store, " +
                       std::to_string(limits.bytes >> 10) + " KiB");
  }

  // The directory that holds it is ours: no mount point is needed, only the directories.
  Result<void> make_in_store(const std::string& path) {
    auto made = open_target(request_.root, path, {});
    if (!made) return std::move(made).error();
    if (!made->created || TRY(sys::stat_fd(made->fd.get(), path)).st_dev != device_) return ok();
    if (!request_.config->process) return ok();
    const oci::User& user = request_.config->process->user;
    if (fchownat(made->fd.get(), "", user.uid, user.gid, AT_EMPTY_PATH) != 0) return errno_error("chown", path);
    return ok();
  }

  const WritableRequest& request_;
  dev_t device_ = 0;
  int next_ = 0;
};

}  // namespace

Result<UniqueFd> new_writable_store(const policy::Writable& writable) {
  std::vector<sys::FsOption> options = {{"source", "agentrun", false}, {"mode", "0755", false}};
  if (writable.size > 0) options.push_back({"size", std::to_string(writable.size), false});
  if (writable.inodes > 0) options.push_back({"nr_inodes", std::to_string(writable.inodes), false});
  return sys::new_mount("tmpfs", options, kAttributes);
}

Result<void> make_writable(const WritableRequest& request) { return Store(request).run(); }

}  // namespace agentrun::sandbox
