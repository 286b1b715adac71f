#include "lifecycle/store.h"

#include <sha2.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <set>

#include "base/text.h"
#include "lifecycle/lock.h"
#include "lifecycle/store_names.h"
#include "sys/file.h"
#include "sys/process.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1U
#endif

namespace agentrun::lifecycle {
namespace {

constexpr std::size_t kMostIdBytes = 200;
constexpr const char* kRootsDirectory = ".roots";
constexpr int kOpenDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;

bool id_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '+' ||
         c == '.' || c == '-';
}

Error missing(const std::string& id) { return refusal("container " + id + " does not exist", "", ""); }

Error exists(const std::string& id) {
  Error error = refusal("container with id exists", "", id);
  error.code = EEXIST;
  return error;
}

Result<void> make_directories(const std::string& path) {
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const bool last = slash == std::string::npos;
    const std::string part = path.substr(0, slash);
    if (mkdir(part.c_str(), last ? 0700 : 0755) != 0 && errno != EEXIST) return errno_error("mkdir", part);
    if (last) return ok();
  }
}

// Whoever can write to the root can make a container's directory that says "kill process 1" to us.
Result<void> check_root(int root, const std::string& path) {
  const struct stat status = TRY(sys::stat_fd(root, path));
  if (status.st_uid != geteuid()) {
    return refusal("state root", path, "owned by uid " + std::to_string(status.st_uid) + ", not by the caller");
  }
  if ((status.st_mode & 022) != 0) return refusal("state root", path, "others can write to it");
  return ok();
}

Result<UniqueFd> open_root(const std::string& path) {
  auto root = sys::open(path, O_RDONLY | O_DIRECTORY);
  if (!root && root.error().code == ENOENT) {
    TRY(make_directories(path));
    root = sys::open(path, O_RDONLY | O_DIRECTORY);
  }
  if (!root) return refusal("state root", path, root.error().message());
  TRY(check_root(root->get(), path));
  return root;
}

Result<UniqueFd> ensure_directory(int directory, const std::string& name) {
  auto opened = sys::open_at(directory, name, kOpenDirectory);
  if (opened || opened.error().code != ENOENT) return opened;
  const auto made = sys::make_directory_at(directory, name, 0700);
  if (!made && made.error().code != EEXIST) return made.error();
  return sys::open_at(directory, name, kOpenDirectory);
}

Result<std::string> absolute_path(const std::string& path) {
  if (path.starts_with('/')) return text::clean_path(path);
  std::array<char, 4096> here{};
  if (getcwd(here.data(), here.size()) == nullptr) return errno_error("getcwd");
  return text::clean_path(std::string(here.data()) + "/" + path);
}

std::string hash_of(const std::string& path) {
  std::array<char, SHA256_DIGEST_STRING_LENGTH> digest{};
  SHA256Data(reinterpret_cast<const std::uint8_t*>(path.data()), path.size(), digest.data());
  return digest.data();
}

Result<void> register_root(const std::string& path) {
  const std::string home = default_root();
  if (path == home) return ok();
  const std::string name = hash_of(path);
  // The common case is one system call: it is registered.
  if (faccessat(AT_FDCWD, (home + "/" + kRootsDirectory + "/" + name).c_str(), F_OK, 0) == 0) return ok();
  const UniqueFd root = TRY(open_root(home));
  const UniqueFd index = TRY(ensure_directory(root.get(), kRootsDirectory));
  return sys::replace_file_at(index.get(), name, path, 0600);
}

Result<UniqueFd> rename_into_place(int root, const std::string& from, const std::string& id, UniqueFd directory) {
  long renamed = syscall(SYS_renameat2, root, from.c_str(), root, id.c_str(), RENAME_NOREPLACE);
  // A file system without the flag: a plain rename replaces only an empty directory, and a container's never is.
  if (renamed != 0 && errno == EINVAL) renamed = renameat(root, from.c_str(), root, id.c_str());
  if (renamed == 0) return directory;
  if (errno == EEXIST || errno == ENOTEMPTY) return exists(id);
  return errno_error("create container", id);
}

// True where `id` in `root` still is the directory that is open as `directory`: its removal, and the creation of
// another of that name, may have come between the open and the lock.
bool still_there(int root, const std::string& id, int directory) {
  struct stat by_name {
  }, by_fd{};
  return fstatat(root, id.c_str(), &by_name, AT_SYMLINK_NOFOLLOW) == 0 && fstat(directory, &by_fd) == 0 &&
         by_name.st_dev == by_fd.st_dev && by_name.st_ino == by_fd.st_ino;
}

}  // namespace

Result<std::string> random_hex() {
  std::array<unsigned char, 8> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return errno_error("getrandom");
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : bytes) {
    hex += kHex[byte >> 4];
    hex += kHex[byte & 15];
  }
  return hex;
}

void remove_leftovers(int root) {
  const auto names = sys::list_directory(root, ".");
  if (!names) return;
  for (const std::string& name : *names) {
    if (name.starts_with(kNewPrefix)) {
      const auto parts = text::split(name, '-');
      const auto maker = parts.size() > 1 ? text::parse_unsigned(parts[1]) : std::nullopt;
      if (maker && *maker > 0 && *maker <= INT32_MAX && ::kill(static_cast<pid_t>(*maker), 0) != 0 && errno == ESRCH) {
        static_cast<void>(sys::remove_tree_at(root, name));
      }
    } else if (name.starts_with(kGonePrefix)) {
      static_cast<void>(sys::remove_tree_at(root, name));
    }
  }
}

Result<void> check_id(const std::string& id) {
  constexpr std::size_t kShown = 64;
  const std::string shown = id.size() <= kShown ? id : id.substr(0, kShown) + "...";
  if (id.empty()) return refusal("container id", "", "it is empty");
  if (id.size() > kMostIdBytes) {
    return refusal(
        "container id", shown,
        "it has " + std::to_string(id.size()) + " bytes, at most " + std::to_string(kMostIdBytes) + " are allowed");
  }
  if (id.front() == '.' || id.front() == '-') return refusal("container id", shown, "it starts with '.' or '-'");
  if (!std::all_of(id.begin(), id.end(), id_character)) {
    return refusal("container id", shown, "only letters, digits and the characters _ + . - are allowed");
  }
  return ok();
}

std::string default_root() {
  // Root of the host has one place, whatever its environment: Podman's systemd units and a shell must see the same
  // containers. In a user namespace root is an ordinary user (rootless engines).
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (!sys::is_host_root() && runtime != nullptr && runtime[0] == '/') return text::clean_path(runtime) + "/agentrun";
  return "/run/agentrun";
}

Result<Store> Store::open(const std::string& root) {
  const std::string wanted = TRY(absolute_path(root.empty() ? default_root() : root));
  Store store;
  store.root_ = TRY(open_root(wanted));
  store.path_ = TRY(sys::path_of(store.root_.get()));
  const auto registered = register_root(store.path_);
  if (!registered && sys::is_host_root()) return registered.error();
  return store;
}

Result<std::vector<std::string>> Store::roots() {
  const std::string home = default_root();
  std::vector<std::string> paths;
  if (access(home.c_str(), F_OK) == 0) paths.push_back(home);
  const auto index = sys::open(home + "/" + kRootsDirectory, kOpenDirectory);
  if (!index) {
    if (index.error().code == ENOENT) return paths;
    return index.error();
  }
  for (const std::string& name : TRY(sys::list_directory(index->get(), "."))) {
    const auto path = sys::read_file_at(index->get(), name, 8192);
    if (!path || !path->starts_with('/')) continue;
    if (access(path->c_str(), F_OK) == 0) {
      paths.push_back(*path);
    } else if (errno == ENOENT) {
      unlinkat(index->get(), name.c_str(), 0);  // the whole root is gone, and its containers with it
    }
  }
  return paths;
}

Result<Container> Store::create(const std::string& id) const {
  TRY(check_id(id));
  Container container;
  container.id_ = id;
  container.root_ = TRY(sys::duplicate(root_.get()));
  // Filled and locked under another name first: no moment in which the container is there and its lock is free.
  const std::string name = kNewPrefix + std::to_string(getpid()) + "-" + TRY(random_hex());
  TRY(sys::make_directory_at(root_.get(), name, 0700));
  const auto fill = [&]() -> Result<void> {
    container.directory_ = TRY(sys::open_at(root_.get(), name, kOpenDirectory));
    container.lock_ = TRY(sys::open_at(container.directory(), kLockFile, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    TRY(take_lock(container.lock_.get(), "container " + id, 0));
    container.directory_ = TRY(rename_into_place(root_.get(), name, id, std::move(container.directory_)));
    return ok();
  };
  if (auto filled = fill(); !filled) {
    static_cast<void>(sys::remove_tree_at(root_.get(), name));
    return std::move(filled).error();
  }
  return container;
}

Result<std::optional<Container>> Store::look_up(const std::string& id) const {
  TRY(check_id(id));
  Container container;
  container.id_ = id;
  auto directory = sys::open_at(root_.get(), id, kOpenDirectory);
  if (!directory) {
    if (directory.error().code == ENOENT) return std::optional<Container>();
    return std::move(directory).error();
  }
  container.directory_ = std::move(*directory);
  container.root_ = TRY(sys::duplicate(root_.get()));
  return std::optional<Container>(std::move(container));
}

Result<std::optional<Container>> Store::lock_if_there(const std::string& id, std::int64_t timeout_us) const {
  auto found = TRY(look_up(id));
  if (!found) return found;
  // Never created here: a directory without its lock is one that is being removed.
  auto lock = sys::open_at(found->directory(), kLockFile, O_RDWR | O_NOFOLLOW);
  if (!lock) {
    if (lock.error().code == ENOENT) return std::optional<Container>();
    return std::move(lock).error();
  }
  TRY(take_lock(lock->get(), "container " + id, timeout_us));
  if (!still_there(root_.get(), id, found->directory())) return std::optional<Container>();
  found->lock_ = std::move(*lock);
  return found;
}

Result<Container> Store::find(const std::string& id) const {
  auto found = TRY(look_up(id));
  if (!found) return missing(id);
  return std::move(*found);
}

Result<Container> Store::lock(const std::string& id, std::int64_t timeout_us) const {
  auto locked = TRY(lock_if_there(id, timeout_us));
  if (!locked) return missing(id);
  return std::move(*locked);
}

Result<std::vector<std::string>> Store::ids() const {
  std::vector<std::string> ids = TRY(sys::list_directory(root_.get(), "."));
  std::erase_if(ids, [](const std::string& name) { return !check_id(name); });
  std::sort(ids.begin(), ids.end());
  return ids;
}

Result<UniqueFd> Store::seccomp_cache() const {
  const UniqueFd cache = TRY(ensure_directory(root_.get(), ".cache"));
  return ensure_directory(cache.get(), "seccomp");
}

}  // namespace agentrun::lifecycle
