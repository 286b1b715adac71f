#include "lifecycle/trusted_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "lifecycle/owner.h"
#include "sys/file.h"

namespace agentrun::lifecycle {
namespace {

constexpr std::size_t kSizeLimit = 1u << 20;

// Sticky directories (/tmp) let others add names and take none away.
bool others_can_rename_in(const struct stat& status) {
  return (status.st_mode & 022) != 0 && (status.st_mode & S_ISVTX) == 0;
}

Result<void> check_directories(const std::string& what, const std::string& path, const std::string& real_path) {
  for (std::size_t slash = real_path.rfind('/'); slash != std::string::npos && slash > 0;
       slash = real_path.rfind('/', slash - 1)) {
    const std::string directory = real_path.substr(0, slash);
    struct stat status {};
    if (lstat(directory.c_str(), &status) != 0) return errno_error(what + " " + path + ": stat", directory);
    if (!TRY(is_administrators(directory, status.st_uid))) {
      return refusal(what, path, "the directory " + directory + " is owned by uid " + std::to_string(status.st_uid));
    }
    if (others_can_rename_in(status)) return refusal(what, path, "others can write to the directory " + directory);
  }
  return ok();
}

Result<void> check_not_shared(const std::string& what, const std::string& path, const struct stat& status) {
  if ((status.st_mode & 022) != 0) return refusal(what, path, "others can write to it");
  return ok();
}

}  // namespace

Result<void> check_administrators(const std::string& what, const std::string& path, const std::string& real_path,
                                  const struct stat& status) {
  if (!TRY(is_administrators(real_path, status.st_uid))) {
    return refusal(what, path, "owned by uid " + std::to_string(status.st_uid));
  }
  return check_not_shared(what, path, status);
}

Result<std::string> read_trusted_file(const std::string& what, const std::string& path, TrustedOwner owner) {
  // O_NONBLOCK: a FIFO would hold us for ever.
  auto opened = sys::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!opened) return os_error(opened.error().code, what, path);
  const UniqueFd& file = *opened;
  const struct stat status = TRY(sys::stat_fd(file.get(), path));
  if (!S_ISREG(status.st_mode)) return refusal(what, path, "not a regular file");
  const std::string real_path = TRY(sys::path_of(file.get()));
  const bool callers = owner == TrustedOwner::caller && status.st_uid == geteuid();
  TRY(callers ? check_not_shared(what, path, status) : check_administrators(what, path, real_path, status));
  if (owner == TrustedOwner::administrator) TRY(check_directories(what, path, real_path));
  return sys::read_fd(file.get(), path, kSizeLimit);
}

Result<void> check_trusted_program(const std::string& what, const std::string& path) {
  auto opened = sys::open_resolved(AT_FDCWD, path, O_PATH, RESOLVE_NO_SYMLINKS);
  if (!opened && opened.error().code == ELOOP) return refusal(what, path, "a symbolic link is on its way");
  if (!opened) return os_error(opened.error().code, what, path);
  const struct stat status = TRY(sys::stat_fd(opened->get(), path));
  if (!S_ISREG(status.st_mode)) return refusal(what, path, "not a regular file");
  TRY(check_administrators(what, path, path, status));
  return check_directories(what, path, path);
}

}  // namespace agentrun::lifecycle
