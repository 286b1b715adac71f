#include "backend/native/seal.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/text.h"
#include "base/unique_fd.h"
#include "sys/file.h"
#include "sys/mount.h"

namespace agentrun::native {
namespace {

constexpr std::size_t kLongestCommandLine = 8u << 20;  // bytes; the kernel takes at most 6 MiB

}  // namespace

namespace {

// Our own command line: no caller has to hand argv down to here.
Result<std::vector<std::string>> own_arguments() {
  const std::string text = TRY(sys::read_file("/proc/self/cmdline", kLongestCommandLine));
  std::vector<std::string> arguments;
  for (const std::string_view part : text::split(text, '\0')) arguments.emplace_back(part);
  if (!arguments.empty()) arguments.pop_back();  // what follows the last NUL
  return arguments;
}

}  // namespace

Result<void> run_from_read_only_clone() {
  struct statvfs status {};
  if (statvfs("/proc/self/exe", &status) != 0) return errno_error("statvfs", "/proc/self/exe");
  if ((status.f_flag & ST_RDONLY) != 0) return ok();
  const UniqueFd clone = TRY(sys::clone_mount(AT_FDCWD, "/proc/self/exe", false));
  TRY(sys::set_mount_attributes(clone.get(), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, 0, 0, false));
  std::vector<std::string> arguments = TRY(own_arguments());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  // Close-on-exec is kept: the fd is not needed once the image is mapped, and this is no script.
  execveat(clone.get(), "", argv.data(), environ, AT_EMPTY_PATH);
  return errno_error("execute", "read-only clone of agentrun");
}

}  // namespace agentrun::native
