#include "sandbox/masks.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <set>
#include <utility>

#include "base/text.h"
#include "sandbox/devices.h"
#include "sandbox/mount_target.h"
#include "sys/file.h"
#include "sys/mount.h"

namespace agentrun::sandbox {
namespace {

constexpr std::uint64_t kSealed = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;

// One mount that covers many places: the first time it is attached itself, then, attached as it is and thereby in this
// mount namespace, it can be cloned (a detached one cannot before 6.15).
class Cover {
 public:
  explicit Cover(const UniqueFd& mount) : mount_(mount) {}

  Result<void> lay_over(int target) {
    if (!attached_) {
      TRY(sys::attach_mount(mount_.get(), target));
      attached_ = true;
      return ok();
    }
    const UniqueFd copy = TRY(sys::clone_mount(mount_.get(), "", false));
    return sys::attach_mount(copy.get(), target);
  }

 private:
  const UniqueFd& mount_;
  bool attached_ = false;
};

Result<UniqueFd> empty_directory() {
  return sys::new_mount(
      "tmpfs",
      {{"source", "tmpfs", false}, {"mode", "0755", false}, {"nr_blocks", "1", false}, {"nr_inodes", "1", false}},
      kSealed | MOUNT_ATTR_NODEV);
}

Error mask_error(const Error& error, const std::string& path) {
  return os_error(error.code, "mask " + error.operation, path);
}

bool is_null(const struct stat& status) { return S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3); }

}  // namespace

Result<UniqueFd> prepare_null_mask() {
  const UniqueFd null = TRY(open_host_null());
  UniqueFd copy = TRY(sys::clone_mount(null.get(), "", false));
  TRY(sys::set_mount_attributes(copy.get(), kSealed, 0, MS_PRIVATE, false));
  return copy;
}

Result<void> make_readonly(int root, const std::vector<std::string>& paths) {
  std::set<std::string> seen;
  for (const std::string& path : paths) {
    const std::string clean = text::clean_path(path);
    if (!seen.insert(clean).second) continue;
    const UniqueFd target = TRY(find_target(root, clean));
    if (!target) continue;
    auto copy = sys::clone_mount(target.get(), "", true);
    if (!copy) return os_error(copy.error().code, "make read-only", path);
    auto changed = sys::set_mount_attributes(copy->get(), MOUNT_ATTR_RDONLY, 0, 0, true);
    if (changed) changed = sys::attach_mount(copy->get(), target.get());
    if (!changed) return os_error(changed.error().code, "make read-only", path);
  }
  return ok();
}

Result<void> mask(int root, const std::vector<std::string>& paths, const UniqueFd& null) {
  std::set<std::string> seen;
  UniqueFd empty;
  Cover over_files(null), over_directories(empty);
  for (const std::string& path : paths) {
    const std::string clean = text::clean_path(path);
    if (!seen.insert(clean).second) continue;
    const UniqueFd target = TRY(find_target(root, clean));
    if (!target) continue;
    const struct stat status = TRY(sys::stat_fd(target.get(), path));
    if (is_null(status)) continue;  // covered already, by another name
    Result<void> covered = ok();
    if (S_ISDIR(status.st_mode)) {
      if (!empty) empty = TRY(empty_directory());
      covered = over_directories.lay_over(target.get());
    } else {
      covered = over_files.lay_over(target.get());
    }
    if (!covered) return mask_error(covered.error(), path);
  }
  return ok();
}

}  // namespace agentrun::sandbox
