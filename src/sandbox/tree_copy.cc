#include "sandbox/tree_copy.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

constexpr int kDeepest = 128;  // two open fds a level

class Copy {
 public:
  explicit Copy(const CopyLimits& limits) : limits_(limits) {}

  // `from` is readable here, `to` is a directory fd.
  Result<void> directory(int from, int to, int depth) {
    if (depth > kDeepest) return refusal("copy", "directory", "is too deep");
    for (const std::string& name : TRY(sys::list_directory(from, "."))) TRY(entry(from, to, name, depth));
    const struct stat status = TRY(sys::stat_fd(from, "directory"));
    TRY(own(to, "", status));
    if (fchmod(to, status.st_mode & 07777U) != 0) return errno_error("chmod", "copied directory");
    const std::array<timespec, 2> times = {status.st_atim, status.st_mtim};
    if (futimens(to, times.data()) != 0) return errno_error("set times", "copied directory");
    return ok();
  }

 private:
  Result<void> count(std::int64_t bytes) {
    bytes_ += bytes;
    ++entries_;
    if (limits_.bytes >= 0 && bytes_ > limits_.bytes) return os_error(EFBIG, "copy", "directory");
    if (limits_.entries >= 0 && entries_ > limits_.entries) return os_error(EFBIG, "copy", "directory");
    return ok();
  }

  // EINVAL: the owner has no id in our user namespace, and a file cannot be given to nobody; it stays ours.
  static Result<void> own(int directory, const std::string& name, const struct stat& status) {
    const int flags = AT_SYMLINK_NOFOLLOW | (name.empty() ? AT_EMPTY_PATH : 0);
    if (fchownat(directory, name.c_str(), status.st_uid, status.st_gid, flags) == 0 || errno == EINVAL) return ok();
    return errno_error("chown", name);
  }

  Result<void> entry(int from, int to, const std::string& name, int depth) {
    struct stat status {};
    if (fstatat(from, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return errno_error("stat", name);
    TRY(count(S_ISREG(status.st_mode) ? status.st_size : 0));
    switch (status.st_mode & S_IFMT) {
      case S_IFDIR:
        return subdirectory(from, to, name, depth);
      case S_IFREG:
        return file(from, to, name);
      case S_IFLNK:
        return symlink(from, to, name, status);
      case S_IFSOCK:
        return ok();
      default:
        return node(to, name, status);
    }
  }

  Result<void> subdirectory(int from, int to, const std::string& name, int depth) {
    constexpr std::uint64_t kHere = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
    auto source = sys::open_resolved(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, kHere | RESOLVE_NO_XDEV);
    if (mkdirat(to, name.c_str(), 0700) != 0) return errno_error("create directory", name);
    if (!source && source.error().code == EXDEV)
      return ok();  // a mount point: what is mounted there is not ours to copy
    if (!source) return std::move(source).error();
    const UniqueFd target = TRY(sys::open_at(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    return directory(source->get(), target.get(), depth + 1);
  }

  Result<void> file(int from, int to, const std::string& name) {
    const UniqueFd source = TRY(sys::open_at(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    const UniqueFd target = TRY(sys::open_at(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    const struct stat status = TRY(sys::stat_fd(source.get(), name));
    if (!S_ISREG(status.st_mode)) return refusal("copy", name, "was exchanged meanwhile");
    TRY(contents(source.get(), target.get(), name));
    TRY(own(target.get(), "", status));
    if (fchmod(target.get(), status.st_mode & 07777U) != 0) return errno_error("chmod", name);
    const std::array<timespec, 2> times = {status.st_atim, status.st_mtim};
    if (futimens(target.get(), times.data()) != 0) return errno_error("set times", name);
    return ok();
  }

  Result<void> contents(int source, int target, const std::string& name) {
    std::int64_t left = limits_.bytes >= 0 ? limits_.bytes : INT64_MAX;  // a file that grows while it is read
    while (true) {
      const ssize_t count = sendfile(target, source, nullptr, 1U << 20);
      if (count < 0) return errno_error("copy", name);
      if (count == 0) return ok();
      left -= count;
      if (left < 0) return os_error(EFBIG, "copy", name);
    }
  }

  Result<void> symlink(int from, int to, const std::string& name, const struct stat& status) {
    std::array<char, 4097> text{};
    const ssize_t length = readlinkat(from, name.c_str(), text.data(), text.size() - 1);
    if (length < 0) return errno_error("readlink", name);
    if (symlinkat(text.data(), to, name.c_str()) != 0) return errno_error("symlink", name);
    return own(to, name, status);
  }

  Result<void> node(int to, const std::string& name, const struct stat& status) {
    if (mknodat(to, name.c_str(), status.st_mode, status.st_rdev) != 0) {
      if (errno == EPERM) return ok();  // a device node, in a user namespace: it could not be opened there either
      return errno_error("mknod", name);
    }
    return own(to, name, status);
  }

  CopyLimits limits_;
  std::int64_t bytes_ = 0, entries_ = 0;
};

}  // namespace

Result<void> copy_tree(int from, int to, const CopyLimits& limits) {
  const UniqueFd source = TRY(sys::open_at(from, ".", O_RDONLY | O_DIRECTORY));
  const UniqueFd target = TRY(sys::open_at(to, ".", O_RDONLY | O_DIRECTORY));
  return Copy(limits).directory(source.get(), target.get(), 0);
}

}  // namespace agentrun::sandbox
