#include "lifecycle/guard.h"

#include <fcntl.h>

#include <cerrno>

#include "lifecycle/lock.h"
#include "lifecycle/store.h"
#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

constexpr const char* kLockFile = "/.guard";  // in the default root: one for all roots
constexpr std::int64_t kLockWait = 60'000'000;

Result<std::size_t> count_containers() {
  std::size_t count = 0;
  for (const std::string& root : TRY(Store::roots())) {
    const auto names = sys::list_directory(AT_FDCWD, root);
    if (!names && names.error().code == ENOENT) continue;
    if (!names) return names.error();
    for (const std::string& name : *names) count += !name.starts_with('.');
  }
  return count;
}

}  // namespace

bool guard_holds(const policy::Guard& guard) { return guard.any() && !(guard.exempt_users && !sys::is_host_root()); }

Result<UniqueFd> enter_guard(const policy::Guard& guard) {
  if (!guard_holds(guard) || !guard.containers) return UniqueFd();
  if (!sys::is_host_root()) {
    return refusal("count the containers", "",
                   "the host-wide guard (agentrun.json, /guard) cannot count an ordinary user's: it has to say "
                   "exempt_users for them to run");
  }
  const std::string path = TRY(Store::open("")).path() + kLockFile;
  UniqueFd lock = TRY(sys::open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  TRY(take_lock(lock.get(), path, kLockWait));
  const std::size_t count = TRY(count_containers());
  if (count >= static_cast<std::size_t>(*guard.containers)) {
    return refusal("create a container", "",
                   "there are " + std::to_string(count) +
                       ", and the host-wide guard (agentrun.json, /guard/containers) "
                       "allows " +
                       std::to_string(*guard.containers));
  }
  return lock;
}

sandbox::CgroupGuard cgroup_guard(const policy::Guard& guard) { return {guard.memory, guard.pids}; }

Result<void> place_below_guard(const policy::Guard& guard, sandbox::CgroupRequest& request,
                               std::vector<std::string>& notes) {
  if (!guard_holds(guard) || (!guard.memory && !guard.pids)) return ok();
  const std::string asked = request.cgroups_path;
  request.cgroups_path = TRY(sandbox::guarded_path(request.manager, asked, request.id));
  if (request.cgroups_path != asked) {
    notes.push_back("the cgroup is " + request.cgroups_path +
                    ", below the guard that bounds all containers (agentrun.json, /guard)");
  }
  return ok();
}

}  // namespace agentrun::lifecycle
