#include "lifecycle/liveness.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/clock.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

// The directory whose inode the location has.
const std::string& directory_of(const sandbox::CgroupLocation& location) {
  return location.v2.empty() ? location.v1.begin()->second : location.v2;
}

std::optional<std::uint64_t> inode_of(const std::string& directory) {
  struct stat status {};
  if (lstat(directory.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return std::nullopt;
  return status.st_ino;
}

}  // namespace

bool has_cgroup(const sandbox::CgroupLocation& location) {
  return location.manager != sandbox::CgroupManager::disabled && (!location.v2.empty() || !location.v1.empty());
}

bool cgroup_is_there(const sandbox::CgroupLocation& location) {
  if (!has_cgroup(location)) return false;
  const auto inode = inode_of(directory_of(location));
  return inode && (location.inode == 0 || *inode == location.inode);
}

bool cgroup_is_ours_or_gone(const sandbox::CgroupLocation& location) {
  if (!has_cgroup(location)) return true;
  const auto inode = inode_of(directory_of(location));
  return !inode || location.inode == 0 || *inode == location.inode;
}

Result<bool> kill_everything(const sandbox::CgroupLocation& location, int pidfd, std::int64_t timeout_us) {
  const std::int64_t end = clock::monotonic_us() + timeout_us;
  // Both are tried, whatever becomes of the other: each ends what the other may not reach.
  const auto sent = pidfd < 0 ? ok() : sys::pidfd_send_signal(pidfd, SIGKILL);
  bool gone = true;
  if (cgroup_is_there(location)) {
    const auto killed = sandbox::kill_cgroup(location, timeout_us);
    // ENOENT, ENODEV: it was removed while we looked.
    if (!killed && killed.error().code != ENOENT && killed.error().code != ENODEV) return killed.error();
    gone = !killed || *killed;
  }
  if (!sent && sent.error().code != ESRCH) return sent.error();
  if (pidfd < 0 || !gone) return gone;
  return sys::wait_for_end(pidfd, std::max<std::int64_t>(0, end - clock::monotonic_us()));
}

}  // namespace agentrun::lifecycle
