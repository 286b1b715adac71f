#include "sandbox/private_root.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "sandbox/devices.h"
#include "sandbox/idmap.h"
#include "sandbox/mount_options.h"
#include "sys/file.h"
#include "sys/mount.h"

namespace agentrun::sandbox {
namespace {

Error cannot_map(int rootfs, const std::string& path, const Error& error) {
  struct statfs status {};
  if (fstatfs(rootfs, &status) == 0 && status.f_type == OVERLAYFS_SUPER_MAGIC) {
    return refusal("map the ids of root", path,
                   "an overlay cannot be idmapped: let the engine make the user namespace (podman run --userns=auto)");
  }
  if (error.code != EINVAL && error.code != EPERM) return os_error(error.code, "map the ids of root", path);
  return refusal("map the ids of root", path,
                 "its file system, or one that is mounted in it, cannot be idmapped by this kernel (ext4, xfs, btrfs, "
                 "erofs and tmpfs can)");
}

Result<UniqueFd> map_root(int rootfs, const std::string& path, int ids) {
  auto copy = sys::clone_mount(rootfs, "", true);
  if (!copy) return os_error(copy.error().code, "clone root", path);
  const auto mapped = sys::idmap_mount(copy->get(), ids, true);
  if (!mapped) return cannot_map(rootfs, path, mapped.error());
  return copy;
}

// Empty: it has its map. Else why not.
Result<std::string> map_source(BindSource& source, int mount, const MountOptions& options,
                               IdmapNamespaces& namespaces) {
  if (!source.detached) return std::string("it could not be cloned");
  const int ids = TRY(namespaces.get(options.idmap_uids, options.idmap_gids));
  const auto mapped = sys::idmap_mount(mount, ids, options.idmap_recursive);
  if (mapped) {
    source.idmapped = true;
    return std::string();
  }
  if (mapped.error().code != EINVAL && mapped.error().code != EPERM) return mapped.error();
  return "its file system cannot: " + std::string(std::strerror(mapped.error().code));
}

}  // namespace

Result<std::vector<Unmapped>> map_private_ids(BindSources& sources, const oci::Config& config, int rootfs,
                                              const std::string& path, const std::string& bundle) {
  const UniqueFd procfs = TRY(sys::open("/proc", O_PATH | O_DIRECTORY));
  IdmapNamespaces namespaces(procfs.get());
  const int ids = TRY(namespaces.get(config.linux.uid_mappings, config.linux.gid_mappings));
  sources.root = TRY(map_root(rootfs, path, ids));
  std::vector<Unmapped> unmapped;
  for (std::size_t i = 0; i < config.mounts.size(); ++i) {
    const oci::Mount& mount = config.mounts[i];
    if (mount.uid_mappings.empty()) continue;
    const std::string& name = mount.source;
    const std::string source = text::clean_path(name.starts_with('/') ? name : bundle + "/" + name);
    if (text::path_within(source, path)) {
      unmapped.push_back({i, "it is a part of the root, which is mapped as a whole"});
      continue;
    }
    const auto entry = sources.find(i);
    if (entry == sources.end()) continue;  // missing: the mount says so
    BindSource& opened = entry->second;
    const UniqueFd& fd = sources.fds.at(opened.slot);
    if (!fd || opened.idmapped) continue;
    const MountOptions options = TRY(parse_mount_options(mount, config.linux));
    std::string reason = TRY(map_source(opened, fd.get(), options, namespaces));
    if (!reason.empty()) unmapped.push_back({i, std::move(reason)});
  }
  sources.devices = TRY(stage_devices(config));
  return unmapped;
}

}  // namespace agentrun::sandbox
