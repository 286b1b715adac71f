#include "sandbox/executable.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/text.h"
#include "base/unique_fd.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

constexpr std::string_view kDefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
constexpr int kCannotExecute = 126, kNotFound = 127;

// 0, or why execve would refuse the file.
int obstacle(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return errno;
  if (S_ISDIR(status.st_mode)) return EISDIR;
  if (!S_ISREG(status.st_mode)) return EACCES;
  if (faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) != 0) return errno;
  return 0;
}

Error cannot_open(const std::string& name, int code) {
  Error error = os_error(code, "open executable `" + name + "`");
  error.exit_status = code == ENOENT || code == ENOTDIR ? kNotFound : kCannotExecute;
  // Podman takes "open executable" for 127 where it does not read "permission denied" first.
  if (error.exit_status == kCannotExecute && code != EACCES) {
    error.reason = std::string("Permission denied (") + std::strerror(code) + ")";
  }
  return error;
}

std::string_view search_path(const std::vector<std::string>& env) {
  constexpr std::string_view kName = "PATH=";
  for (const std::string_view variable : env) {
    if (variable.starts_with(kName)) return variable.substr(kName.size());
  }
  return kDefaultPath;
}

Result<UniqueFd> open_directory(int root, const std::string& path) {
  // No magic links: /proc/self/fd/N leads to whatever directory of the host is still open (CVE-2024-21626).
  return sys::open_resolved(root, path, O_PATH | O_DIRECTORY, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

}  // namespace

Result<std::string> find_executable(const std::string& name, const std::vector<std::string>& env) {
  const auto not_found = [&] {
    Error error = os_error(ENOENT, "executable file `" + name + "` not found in $PATH");
    error.exit_status = kNotFound;
    return error;
  };
  if (name.empty()) return not_found();
  if (name.find('/') != std::string::npos) {
    const int code = obstacle(name);
    if (code != 0) return cannot_open(name, code);
    return name;
  }
  bool denied = false;
  for (const std::string_view directory : text::split(search_path(env), ':')) {
    // execvp(3): an empty part is the working directory.
    const std::string path = directory.empty() ? "./" + name : std::string(directory) + "/" + name;
    const int code = obstacle(path);
    if (code == 0) return path;
    denied = denied || code == EACCES;
  }
  return denied ? cannot_open(name, EACCES) : not_found();
}

Result<void> enter_directory(const std::string& cwd) {
  if (!cwd.starts_with('/')) return refusal("chdir to", "`" + cwd + "`", "not an absolute path");
  const auto failed = [&](Error error) {
    error.operation = "chdir to `" + cwd + "`" + (error.operation == "open" ? "" : ": " + error.operation);
    if (error.object == cwd) error.object.clear();
    return error;
  };
  const UniqueFd root = TRY(sys::open("/", O_PATH | O_DIRECTORY));
  const auto directory = open_directory(root.get(), cwd);
  if (!directory) return failed(directory.error());
  if (fchdir(directory->get()) != 0) return failed(errno_error("open"));
  // By system call: the kernel prefixes "(unreachable)" where the directory is outside of the root, glibc has its own
  // idea.
  std::array<char, 4096> where{};
  const long length = syscall(SYS_getcwd, where.data(), where.size());
  if (length < 0) return failed(errno_error("getcwd"));
  if (where[0] != '/') return refusal("chdir to `" + cwd + "`", {}, "it is outside of the container's root");
  return ok();
}

}  // namespace agentrun::sandbox
