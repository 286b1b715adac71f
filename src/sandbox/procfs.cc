#include "sandbox/procfs.h"

#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/vfs.h>

#include "sys/file.h"

namespace agentrun::sandbox {

Result<void> check_procfs(int fd, const std::string& name) {
  struct statfs status {};
  if (fstatfs(fd, &status) != 0) return errno_error("statfs", name);
  if (status.f_type != PROC_SUPER_MAGIC) return refusal("open", name, "not on a procfs");
  return ok();
}

Result<UniqueFd> open_in_procfs(int procfs, const std::string& path, int flags) {
  TRY(check_procfs(procfs, "/proc"));
  UniqueFd fd = TRY(sys::open_resolved(procfs, path, static_cast<std::uint64_t>(flags | O_NOFOLLOW),
                                       RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV));
  TRY(check_procfs(fd.get(), path));
  return fd;
}

}  // namespace agentrun::sandbox
