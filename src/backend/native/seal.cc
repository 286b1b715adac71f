#include "backend/native/seal.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "sys/mount.h"

namespace agentrun::native {

Result<void> run_from_read_only_clone(char** argv) {
  struct statvfs status {};
  if (statvfs("/proc/self/exe", &status) != 0) return errno_error("statvfs", "/proc/self/exe");
  if ((status.f_flag & ST_RDONLY) != 0) return ok();
  const UniqueFd clone = TRY(sys::clone_mount(AT_FDCWD, "/proc/self/exe", false));
  TRY(sys::set_mount_attributes(clone.get(), MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID, 0, 0, false));
  // Close-on-exec is kept: the fd is not needed once the image is mapped, and this is no script.
  execveat(clone.get(), "", argv, environ, AT_EMPTY_PATH);
  return errno_error("execute", "read-only clone of agentrun");
}

}  // namespace agentrun::native
