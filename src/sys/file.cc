#include "sys/file.h"

#include <dirent.h>
#include <linux/close_range.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U  // Linux 6.3
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3
#endif

namespace agentrun::sys {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

Result<Directory> open_directory(int directory, const std::string& name) {
  UniqueFd fd(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return errno_error("open directory", name);
  Directory opened(fdopendir(fd.get()));
  if (!opened) return errno_error("open directory", name);
  fd.release();
  return opened;
}

}  // namespace

Result<UniqueFd> open(const std::string& path, int flags, mode_t mode) { return open_at(AT_FDCWD, path, flags, mode); }

Result<UniqueFd> open_at(int directory, const std::string& path, int flags, mode_t mode) {
  UniqueFd fd(::openat(directory, path.c_str(), flags | O_CLOEXEC, mode));
  if (!fd) return errno_error("open", path);
  return fd;
}

Result<UniqueFd> open_resolved(int directory, const std::string& path, std::uint64_t flags, std::uint64_t resolve,
                               mode_t mode) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = resolve;
  how.mode = mode;
  // EAGAIN: a rename or mount elsewhere raced with "..": openat2(2) says to try again.
  for (int attempt = 0; attempt < 128; ++attempt) {
    UniqueFd fd(static_cast<int>(syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how)));
    if (fd) return fd;
    if (errno != EAGAIN && errno != EINTR) return errno_error("open", path);
  }
  return os_error(EAGAIN, "open", path);
}

Result<std::string> read_fd(int fd, const std::string& name, std::size_t limit) {
  std::string data;
  struct stat status {};
  std::size_t step = 4096;
  if (fstat(fd, &status) == 0 && status.st_size > 0) step = static_cast<std::size_t>(status.st_size) + 1;
  while (true) {
    const std::size_t before = data.size();
    if (before > limit) {
      return refusal("read", name, "larger than " + std::to_string(limit) + " bytes");
    }
    data.resize(before + std::min(step, limit + 1 - before));
    const ssize_t count = ::read(fd, data.data() + before, data.size() - before);
    if (count < 0) {
      data.resize(before);
      if (errno == EINTR) continue;
      return errno_error("read", name);
    }
    data.resize(before + static_cast<std::size_t>(count));
    if (count == 0) return data;
    step = 4096;
  }
}

Result<std::string> read_file_at(int directory, const std::string& path, std::size_t limit) {
  const UniqueFd fd = TRY(open_at(directory, path, O_RDONLY));
  return read_fd(fd.get(), path, limit);
}

Result<std::string> read_file(const std::string& path, std::size_t limit, bool regular_only) {
  // O_NONBLOCK: a FIFO in the place of a file would hold us for ever.
  const UniqueFd fd = TRY(open(path, O_RDONLY | (regular_only ? O_NONBLOCK : 0)));
  if (regular_only) {
    const struct stat status = TRY(stat_fd(fd.get(), path));
    if (!S_ISREG(status.st_mode)) return refusal("read", path, "not a regular file");
  }
  return read_fd(fd.get(), path, limit);
}

Result<void> write_all(int fd, std::string_view data, const std::string& name) {
  while (!data.empty()) {
    const ssize_t count = ::write(fd, data.data(), data.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      return errno_error("write", name);
    }
    data.remove_prefix(static_cast<std::size_t>(count));
  }
  return ok();
}

Result<void> write_file(const std::string& path, std::string_view text) { return write_file_at(AT_FDCWD, path, text); }

Result<void> write_file_at(int directory, const std::string& path, std::string_view text) {
  UniqueFd fd(::openat(directory, path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return errno_error("open", path);
  ssize_t count = 0;
  do {
    count = ::write(fd.get(), text.data(), text.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) return errno_error("write", path);
  if (static_cast<std::size_t>(count) != text.size()) return refusal("write", path, "the kernel took only a part");
  return ok();
}

Result<void> replace_file_at(int directory, const std::string& name, std::string_view text, mode_t mode) {
  const std::string temporary = "." + name + "." + std::to_string(getpid()) + ".tmp";
  UniqueFd fd(::openat(directory, temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!fd) return errno_error("create", name);
  const auto give_up = [&](Error error) {
    unlinkat(directory, temporary.c_str(), 0);
    return error;
  };
  if (auto written = write_all(fd.get(), text, name); !written) return give_up(std::move(written).error());
  if (fsync(fd.get()) != 0) return give_up(errno_error("fsync", name));
  if (renameat(directory, temporary.c_str(), directory, name.c_str()) != 0) return give_up(errno_error("rename", name));
  return ok();
}

Result<struct stat> stat_fd(int fd, const std::string& name) {
  struct stat status {};
  if (fstatat(fd, "", &status, AT_EMPTY_PATH) != 0) return errno_error("stat", name);
  return status;
}

Result<void> make_directory_at(int directory, const std::string& name, mode_t mode) {
  if (mkdirat(directory, name.c_str(), mode) != 0) return errno_error("mkdir", name);
  return ok();
}

Result<std::vector<std::string>> list_directory(int directory, const std::string& name) {
  const Directory opened = TRY(open_directory(directory, name));
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = readdir(opened.get());
    if (entry == nullptr) {
      if (errno != 0) return errno_error("list", name);
      return names;
    }
    const std::string_view entry_name = entry->d_name;
    if (entry_name != "." && entry_name != "..") names.emplace_back(entry_name);
  }
}

Result<void> remove_tree_at(int directory, const std::string& name) {
  if (unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT) return ok();
  if (errno != EISDIR && errno != EPERM) return errno_error("remove", name);
  if (unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return ok();
  if (errno != ENOTEMPTY && errno != EEXIST) return errno_error("remove", name);
  const UniqueFd fd =
      TRY(open_resolved(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS));
  for (const std::string& entry : TRY(list_directory(fd.get(), "."))) {
    TRY(remove_tree_at(fd.get(), entry));
  }
  if (unlinkat(directory, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) return errno_error("remove", name);
  return ok();
}

Result<std::string> path_of(int fd) {
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  std::string path(4096, '\0');
  const ssize_t length = readlink(link.c_str(), path.data(), path.size());
  if (length < 0) return errno_error("readlink", link);
  if (static_cast<std::size_t>(length) == path.size()) return os_error(ENAMETOOLONG, "readlink", link);
  path.resize(static_cast<std::size_t>(length));
  return path;
}

Result<UniqueFd> duplicate(int fd) {
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy) return errno_error("duplicate fd", std::to_string(fd));
  return copy;
}

Result<UniqueFd> sealed_memory(const char* name, std::string_view data, bool executable) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd fd(memfd_create(name, flags | (executable ? MFD_EXEC : MFD_NOEXEC_SEAL)));
  if (!fd && errno == EINVAL) fd.reset(memfd_create(name, flags));  // before Linux 6.3
  if (!fd) return errno_error("memfd_create", name);
  TRY(write_all(fd.get(), data, name));
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
    return errno_error("seal", name);
  }
  if (lseek(fd.get(), 0, SEEK_SET) != 0) return errno_error("seek", name);
  return fd;
}

Result<void> close_all_but(const std::vector<int>& keep, int first) {
  std::vector<int> sorted;
  for (const int fd : keep) {
    if (fd >= first) sorted.push_back(fd);
  }
  std::sort(sorted.begin(), sorted.end());
  auto next = static_cast<unsigned>(first);
  const auto close_range = [](unsigned from, unsigned to) { return syscall(SYS_close_range, from, to, 0U) == 0; };
  for (const int fd : sorted) {
    const auto kept = static_cast<unsigned>(fd);
    if (kept > next && !close_range(next, kept - 1)) return errno_error("close_range");
    if (kept >= next) next = kept + 1;
  }
  if (!close_range(next, ~0U)) return errno_error("close_range");
  return ok();
}

}  // namespace agentrun::sys
