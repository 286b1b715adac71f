#include "sandbox/mount_target.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

constexpr int kMostSymlinks = 40;  // as the kernel's own walk
constexpr std::uint64_t kInRoot = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;

bool is_missing(const Error& error) { return error.code == ENOENT || error.code == ENOTDIR; }

Result<std::string> read_link(int link, const std::string& path) {
  std::string text(4096, '\0');
  const ssize_t length = readlinkat(link, "", text.data(), text.size());
  if (length < 0) return errno_error("readlink", path);
  if (static_cast<std::size_t>(length) == text.size()) return os_error(ENAMETOOLONG, "readlink", path);
  text.resize(static_cast<std::size_t>(length));
  return text;
}

// Not "/", and no ".." in it. A name with two dots in it is not worth a closer look.
bool has_names_only(std::string_view path) {
  return path.find("..") == std::string_view::npos && path.find_first_not_of("/.") != std::string_view::npos;
}

// Walks one component at a time and makes what is missing. The directories from the root to here are held open: ".." of
// a symlink's text goes to the one that was passed, never to where a rename has put it, and never above the root.
class Walk {
 public:
  Walk(int root, const std::string& path, const TargetOptions& options) : root_(root), path_(path), options_(options) {
    prepend(path);
  }

  Result<Target> run() {
    while (!rest_.empty()) {
      const std::string name = std::move(rest_.front());
      rest_.pop_front();
      if (name == "..") {
        if (!passed_.empty()) passed_.pop_back();
        continue;
      }
      TRY(step(name));
      if (last_) return Target{std::move(last_), created_};
    }
    // The path ended in a directory that is open already: the root, or what a ".." or a symlink led to.
    return Target{TRY(sys::open_at(here(), ".", O_PATH | O_DIRECTORY)), created_};
  }

 private:
  int here() const { return passed_.empty() ? root_ : passed_.back().get(); }

  void prepend(std::string_view path) {
    const auto parts = text::split(path, '/');
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      if (!part->empty() && *part != ".") rest_.emplace_front(*part);
    }
  }

  Result<void> step(const std::string& name) {
    const bool last = rest_.empty();
    UniqueFd fd(openat(here(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) {
      if (errno != ENOENT) return errno_error("open", path_);
      return make(name, last);
    }
    const struct stat status = TRY(sys::stat_fd(fd.get(), path_));
    if (S_ISLNK(status.st_mode) && !(last && !options_.follow_last)) return follow(fd.get());
    if (last && !S_ISDIR(status.st_mode)) {
      last_ = std::move(fd);
      return ok();
    }
    if (!S_ISDIR(status.st_mode)) return os_error(ENOTDIR, "open", path_);
    passed_.push_back(std::move(fd));
    return ok();
  }

  Result<void> follow(int link) {
    if (++symlinks_ > kMostSymlinks) return os_error(ELOOP, "open", path_);
    const std::string text = TRY(read_link(link, path_));
    if (text.empty()) return os_error(ENOENT, "open", path_);
    if (text.front() == '/') passed_.clear();
    prepend(text);
    return ok();
  }

  Result<void> make(const std::string& name, bool last) {
    created_ = true;
    if (last && options_.kind == TargetKind::file) {
      UniqueFd made(openat(here(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
                           options_.file_mode));
      // EEXIST: somebody else was faster; what is there now is looked at like anything else.
      if (!made && errno != EEXIST) return errno_error("create", path_);
    } else if (mkdirat(here(), name.c_str(), options_.directory_mode) != 0 && errno != EEXIST) {
      return errno_error("create directory", path_);
    }
    if (++made_ > 4096) return os_error(ELOOP, "create", path_);
    rest_.push_front(name);
    return ok();
  }

  int root_;
  const std::string& path_;
  const TargetOptions& options_;
  std::deque<std::string> rest_;
  std::vector<UniqueFd> passed_;
  UniqueFd last_;
  bool created_ = false;
  int symlinks_ = 0, made_ = 0;
};

// The usual case of a missing target: its directory is there, and nothing has its name. An invalid fd where it is not
// that simple: the walk finds out.
Result<UniqueFd> make_last(int root, const std::string& path, const TargetOptions& options) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos || slash + 1 == path.size() || path.substr(slash + 1) == "..") return UniqueFd();
  const std::string directory = slash == 0 ? "/" : path.substr(0, slash), name = path.substr(slash + 1);
  const auto parent = sys::open_resolved(root, directory, O_PATH | O_DIRECTORY, kInRoot);
  if (!parent) return UniqueFd();
  if (options.kind == TargetKind::directory) {
    if (mkdirat(parent->get(), name.c_str(), options.directory_mode) != 0) {
      if (errno == EEXIST) return UniqueFd();
      return errno_error("create directory", path);
    }
  } else {
    const UniqueFd made(openat(parent->get(), name.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, options.file_mode));
    if (!made && errno == EEXIST) return UniqueFd();
    if (!made) return errno_error("create", path);
  }
  UniqueFd made = TRY(sys::open_at(parent->get(), name, O_PATH | O_NOFOLLOW));
  // Exchanged already for a symlink.
  if (S_ISLNK(TRY(sys::stat_fd(made.get(), path)).st_mode)) return UniqueFd();
  return made;
}

}  // namespace

Result<Target> open_target(int root, const std::string& path, const TargetOptions& options) {
  const std::uint64_t flags = O_PATH | (options.follow_last ? 0U : static_cast<unsigned>(O_NOFOLLOW));
  auto found = sys::open_resolved(root, path, flags, kInRoot | RESOLVE_NO_SYMLINKS);
  if (found) return Target{std::move(*found), false, has_names_only(path)};
  // A symlink that is itself the target has been found above.
  if (found.error().code == ELOOP) found = sys::open_resolved(root, path, flags, kInRoot);
  if (found) return Target{std::move(*found), false};
  if (!is_missing(found.error()) && found.error().code != EAGAIN) return std::move(found).error();
  if (found.error().code == ENOENT) {
    UniqueFd made = TRY(make_last(root, path, options));
    if (made) return Target{std::move(made), true};
  }
  return Walk(root, path, options).run();
}

Result<UniqueFd> find_target(int root, const std::string& path, bool follow_last) {
  const std::uint64_t flags = O_PATH | (follow_last ? 0U : static_cast<unsigned>(O_NOFOLLOW));
  auto found = sys::open_resolved(root, path, flags, kInRoot);
  if (!found && is_missing(found.error())) return UniqueFd();
  return found;
}

Result<TargetParent> open_parent(int root, const std::string& path) {
  const std::string clean = text::clean_path(path);
  const auto slash = clean.rfind('/');
  if (clean == "/") return refusal("open the directory of", path, "the root has none");
  const std::string directory = slash == 0 ? "/" : clean.substr(0, slash);
  Target parent = TRY(open_target(root, directory, {}));
  return TargetParent{std::move(parent.fd), clean.substr(slash + 1)};
}

Result<Target> open_ordinary_directory(int root, const std::string& path, const std::string& type) {
  constexpr std::uint64_t kNoLinks = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS;
  const Error bad = refusal("mount", path, "filesystem \"" + type + "\" must be mounted on ordinary directory");
  auto found = sys::open_resolved(root, path, O_PATH | O_DIRECTORY | O_NOFOLLOW, kNoLinks);
  if (found) return Target{std::move(*found), false};
  if (found.error().code == ELOOP || found.error().code == ENOTDIR) return bad;
  if (found.error().code != ENOENT) return std::move(found).error();
  // Made one by one, then opened again by the strict rule: a symlink that came meanwhile is still refused.
  TRY(open_target(root, path, {}));
  found = sys::open_resolved(root, path, O_PATH | O_DIRECTORY | O_NOFOLLOW, kNoLinks);
  if (!found && (found.error().code == ELOOP || found.error().code == ENOTDIR || found.error().code == ENOENT))
    return bad;
  return Target{TRY(std::move(found)), true};
}

std::string clean_destination(const std::string& destination, const std::string& rootfs) {
  const std::string clean = text::clean_path(destination);
  if (rootfs.empty() || rootfs == "/" || !text::path_within(clean, rootfs)) return clean;
  return text::clean_path(clean.substr(rootfs.size()));
}

}  // namespace agentrun::sandbox
