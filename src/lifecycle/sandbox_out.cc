#include "lifecycle/sandbox_out.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/stat.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "lifecycle/sandbox_config.h"
#include "sys/file.h"

namespace agentrun::lifecycle {
namespace {

constexpr int kDeepest = 64;
constexpr std::size_t kExamples = 10;

Result<std::string> resolve(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> resolved(realpath(path.c_str(), nullptr), &free);
  if (resolved == nullptr) return errno_error("--out", path);
  return std::string(resolved.get());
}

// A path whose last component may be missing.
Result<std::string> resolve_new(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  auto there = resolve(path);
  if (there || there.error().code != ENOENT) return there;
  struct stat attributes {};
  if (lstat(path.c_str(), &attributes) == 0) return refusal("--out", path, "is a symlink that leads nowhere");
  const auto slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const std::string parent = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  if (name.empty() || name == "." || name == "..") return there;
  const std::string above = TRY(resolve(parent));
  return (above == "/" ? "" : above) + "/" + name;
}

bool has_control(std::string_view name) {
  return std::any_of(name.begin(), name.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

// Resolving it never leaves the tree, whatever other links of the same kind are in it: it goes up from a real directory
// at most to the top, and from there only down.
bool stays_inside(std::string_view target, int depth) {
  if (target.empty() || target.front() == '/' || has_control(target)) return false;
  bool descending = false;
  for (const std::string_view part : text::split(target, '/')) {
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      descending = true;
    } else if (descending || --depth < 0) {
      return false;
    }
  }
  return true;
}

class Collector {
 public:
  Collector(const OutPlace& place, const OutLimits& limits, dev_t device)
      : place_(place), limits_(limits), device_(device) {}

  // `depth`: how many directories `to` is below the top.
  Result<void> directory(int from, int to, const std::string& path, int depth) {
    for (const std::string& name : TRY(sys::list_directory(from, "."))) {
      TRY(entry(from, to, name, path.empty() ? name : path + "/" + name, depth));
    }
    return ok();
  }

  void set_top(int top) { top_ = top; }
  Collected take() { return std::move(collected_); }

 private:
  Error too_much(const char* what, std::int64_t limit) const {
    return refusal("--out", place_.path, "the results are more than " + std::to_string(limit) + " " + what);
  }

  void leave_out(const std::string& path, const char* why) {
    ++collected_.left_out;
    if (collected_.examples.size() >= kExamples) return;
    collected_.examples.push_back(text::printable(path.substr(0, 200)) + " (" + why + ")");
  }

  Result<void> entry(int from, int to, const std::string& name, const std::string& path, int depth) {
    struct stat status {};
    if (fstatat(from, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return errno_error("--out: stat", path);
    if (++entries_ > limits_.entries) return too_much("files", limits_.entries);
    if (has_control(name)) return leave_out(path, "a name with control characters"), ok();
    if (status.st_dev != device_) return leave_out(path, "a mount"), ok();
    switch (status.st_mode & S_IFMT) {
      case S_IFDIR:
        return subdirectory(from, to, name, path, depth);
      case S_IFREG:
        return file(from, to, name, path);
      case S_IFLNK:
        return symlink(from, to, name, path, depth);
      case S_IFIFO:
        return leave_out(path, "a FIFO"), ok();
      case S_IFSOCK:
        return leave_out(path, "a socket"), ok();
      default:
        return leave_out(path, "a device"), ok();
    }
  }

  Result<void> subdirectory(int from, int to, const std::string& name, const std::string& path, int depth) {
    if (depth + 1 > kDeepest) return leave_out(path, "too deep"), ok();
    const UniqueFd source = TRY(sys::open_at(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    TRY(sys::make_directory_at(to, name, 0700));
    const UniqueFd target = TRY(sys::open_at(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    TRY(directory(source.get(), target.get(), path, depth + 1));
    return finish(target.get(), TRY(sys::stat_fd(source.get(), path)), path);
  }

  Result<void> file(int from, int to, const std::string& name, const std::string& path) {
    const UniqueFd source = TRY(sys::open_at(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    const struct stat status = TRY(sys::stat_fd(source.get(), path));
    if (!S_ISREG(status.st_mode)) return refusal("--out", path, "was exchanged meanwhile");
    if (status.st_nlink > 1) {
      const auto [known, is_new] = linked_.try_emplace(status.st_ino, path);
      if (!is_new) {
        if (linkat(top_, known->second.c_str(), to, name.c_str(), 0) == 0) return ok();
        return errno_error("--out: link", path);
      }
    }
    const UniqueFd target = TRY(sys::open_at(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    TRY(contents(source.get(), target.get(), status.st_size, path));
    ++collected_.files;
    return finish(target.get(), status, path);
  }

  // What is between the holes.
  Result<void> contents(int source, int target, off_t size, const std::string& path) {
    if (ftruncate(target, size) != 0) return errno_error("--out: set the size of", path);
    off_t at = 0;
    while (at < size) {
      const off_t begin = lseek(source, at, SEEK_DATA);
      if (begin < 0 && errno == ENXIO) return ok();
      if (begin < 0) return errno_error("--out: read", path);
      const off_t end = lseek(source, begin, SEEK_HOLE);
      if (end < 0) return errno_error("--out: read", path);
      if (end - begin > limits_.bytes - collected_.bytes) return too_much("bytes", limits_.bytes);
      collected_.bytes += end - begin;
      if (lseek(target, begin, SEEK_SET) < 0) return errno_error("--out: write", path);
      TRY(extent(source, target, begin, end, path));
      at = end;
    }
    return ok();
  }

  static Result<void> extent(int source, int target, off_t begin, off_t end, const std::string& path) {
    while (begin < end) {
      const ssize_t count = sendfile(target, source, &begin, static_cast<std::size_t>(end - begin));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return errno_error("--out: write", path);
      if (count == 0) return refusal("--out", path, "became shorter meanwhile");
    }
    return ok();
  }

  Result<void> symlink(int from, int to, const std::string& name, const std::string& path, int depth) {
    std::array<char, 4097> text{};
    const ssize_t length = readlinkat(from, name.c_str(), text.data(), text.size() - 1);
    if (length < 0) return errno_error("--out: readlink", path);
    if (!stays_inside({text.data(), static_cast<std::size_t>(length)}, depth)) {
      return leave_out(path, "a link that may lead out"), ok();
    }
    if (symlinkat(text.data(), to, name.c_str()) != 0) return errno_error("--out: symlink", path);
    return ok();
  }

  Result<void> finish(int target, const struct stat& status, const std::string& path) const {
    const bool executable = S_ISDIR(status.st_mode) || (status.st_mode & 0100U) != 0;
    if (fchmod(target, (executable ? 0755U : 0644U) & ~limits_.umask) != 0) return errno_error("--out: chmod", path);
    const std::array<timespec, 2> times = {status.st_mtim, status.st_mtim};
    if (futimens(target, times.data()) != 0) return errno_error("--out: set the time of", path);
    return ok();
  }

  const OutPlace& place_;
  const OutLimits& limits_;
  dev_t device_;
  int top_ = -1;
  std::map<ino_t, std::string> linked_;  // of files with several names, the first one
  std::int64_t entries_ = 0;
  Collected collected_;
};

Result<std::string> hidden_name(const std::string& name) {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) return errno_error("getrandom");
  return "." + name.substr(0, 200) + "." + std::to_string(number);
}

Result<Collected> copy_and_rename(int from, const OutPlace& place, const OutLimits& limits, const std::string& beside) {
  Collector collector(place, limits, TRY(sys::stat_fd(from, "results")).st_dev);
  const UniqueFd source = TRY(sys::open_at(from, ".", O_RDONLY | O_DIRECTORY));
  const UniqueFd top = TRY(sys::open_at(place.parent.get(), beside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  collector.set_top(top.get());
  TRY(collector.directory(source.get(), top.get(), "", 0));
  if (fchmod(top.get(), place.mode) != 0) return errno_error("--out: chmod", place.path);
  // Onto nothing or an empty directory; anything else that is there by now stays (rename(2)).
  if (renameat(place.parent.get(), beside.c_str(), place.parent.get(), place.name.c_str()) != 0) {
    return errno_error("--out: rename to", place.path);
  }
  return collector.take();
}

}  // namespace

Result<OutPlace> open_out_place(const std::string& path, mode_t umask) {
  OutPlace place;
  place.path = TRY(resolve_new(path));
  place.name = place.path.substr(place.path.rfind('/') + 1);
  if (place.name.empty()) return refusal("--out", path, "cannot be replaced");
  const std::string above = place.path.substr(0, place.path.size() - place.name.size());
  place.parent = TRY(sys::open(above, O_RDONLY | O_DIRECTORY));
  place.mode = 0755U & ~umask;
  if (faccessat(place.parent.get(), ".", W_OK | X_OK, AT_EACCESS) != 0) return errno_error("--out: write to", above);
  struct stat there {};
  if (fstatat(place.parent.get(), place.name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno != ENOENT) return errno_error("--out", path);
    return place;
  }
  if (!S_ISDIR(there.st_mode)) return refusal("--out", path, "is no directory");
  const UniqueFd directory = TRY(sys::open_at(place.parent.get(), place.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (!TRY(sys::list_directory(directory.get(), ".")).empty()) return refusal("--out", path, "is not empty");
  if (there.st_dev != TRY(sys::stat_fd(place.parent.get(), above)).st_dev) {
    return refusal("--out", path, "is a mount point, which cannot be replaced: name a directory in it");
  }
  place.mode = there.st_mode & 0777U;
  return place;
}

Result<UniqueFd> open_sandbox_out(pid_t pid) {
  const UniqueFd root = TRY(sys::open("/proc/" + std::to_string(pid) + "/root", O_PATH | O_DIRECTORY));
  const std::string name = std::string(kSandboxOut).substr(1);
  auto opened = sys::open_resolved(root.get(), name, O_RDONLY | O_DIRECTORY, RESOLVE_IN_ROOT);
  if (!opened && opened.error().code != ENOENT) return opened;
  if (!opened) return refusal("--out", kSandboxOut, "cannot be made in this root");
  UniqueFd directory = std::move(*opened);
  struct statx status {};
  if (statx(directory.get(), "", AT_EMPTY_PATH, STATX_TYPE, &status) != 0) return errno_error("stat", kSandboxOut);
  if ((status.stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0) {
    return refusal("--out", kSandboxOut, "cannot be made in this root");
  }
  return directory;
}

Result<OutLimits> out_limits(int from, mode_t umask) {
  struct statvfs status {};
  if (fstatvfs(from, &status) != 0) return errno_error("--out: statvfs", kSandboxOut);
  OutLimits limits;
  limits.bytes = static_cast<std::int64_t>(status.f_blocks * status.f_frsize);
  limits.entries = static_cast<std::int64_t>(status.f_files);
  limits.umask = umask;
  return limits;
}

Result<Collected> collect_sandbox_out(int from, const OutPlace& place, const OutLimits& limits) {
  const std::string beside = TRY(hidden_name(place.name));
  TRY(sys::make_directory_at(place.parent.get(), beside, 0700));
  auto collected = copy_and_rename(from, place, limits, beside);
  if (!collected) (void)sys::remove_tree_at(place.parent.get(), beside);
  return collected;
}

}  // namespace agentrun::lifecycle
