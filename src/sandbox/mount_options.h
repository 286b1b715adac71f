// The options of one mount of config.json, as what the mount API takes: attributes of the mount itself, attributes for
// the whole tree below it, propagation, and parameters of the file system (config.md "Linux mount options", mount(8),
// mount_setattr(2)). Pure: nothing is looked up on the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "oci/config.h"
#include "sys/mount.h"

namespace agentrun::sandbox {

// An access-time choice: one of MOUNT_ATTR_RELATIME, _NOATIME, _STRICTATIME, and whether directories are left out.
struct AtimeChoice {
  std::uint64_t mode = MOUNT_ATTR_RELATIME;
  bool mode_given = false;
  bool directories_given = false;  // nodiratime
  bool given() const { return mode_given || directories_given; }
};

struct MountOptions {
  bool bind = false;
  bool recursive = false;  // rbind: the mounts below the source come too
  bool remount = false;    // changes what is mounted at the destination already

  // MOUNT_ATTR_RDONLY, NOSUID, NODEV, NOEXEC, NOSYMFOLLOW. `set` and `cleared` are disjoint: the later option wins.
  std::uint64_t set = 0, cleared = 0;
  AtimeChoice atime;
  bool any_flag = false;  // any option that names a flag, even one that asks for the default

  std::uint64_t recursive_set = 0, recursive_clear = 0;  // rro, rnosuid, ...: for mount_setattr(AT_RECURSIVE)

  std::uint64_t propagation = 0;  // MS_PRIVATE, MS_SLAVE, MS_SHARED, MS_UNBINDABLE; 0: not said
  bool propagation_recursive = false;

  std::vector<sys::FsOption> data;  // parameters of the file system, in order: size, mode, lowerdir, sync, ...

  bool idmap = false;                                  // uidMappings and gidMappings, or an option idmap or ridmap
  bool idmap_recursive = false;                        // ridmap
  std::vector<oci::IdMapping> idmap_uids, idmap_gids;  // container_id: in the file system; host_id: on the host

  bool copy_up = false;               // tmpcopyup
  bool copy_symlink = false;          // a source that is a symlink becomes one of the same text
  bool source_nofollow = false;       // the source's last component is not followed
  bool destination_nofollow = false;  // nor the destination's
};

// True where `mount` is a bind mount: by its options, or by the type that engines write.
bool is_bind(const oci::Mount& mount);

// `container` gives the id maps that "idmap" alone and "@" of crun's own syntax (idmap=uids=@0-1-10) refer to. A bind
// mount has no file system parameters: an option that is not known is refused there, never dropped.
Result<MountOptions> parse_mount_options(const oci::Mount& mount, const oci::Linux& container);

// What mount_setattr has to set and clear so that a bind mount whose source has the attributes `current` gets what was
// asked (mount(8) "remount,bind", and runc's reading of it): without any flag all of the source's are kept; with one,
// those not named are cleared, but the access-time mode, which stays unless another is named.
//
// `locked`: the source belongs to a mount namespace of a more privileged user (user_namespaces(7)). Then what it has of
// read-only, nosuid, nodev, noexec stays where it is not named, and naming its opposite, or another access-time mode,
// is EPERM, exactly as the kernel would say for a mount that was copied with the namespace.
struct AttributeChange {
  std::uint64_t set = 0, clear = 0;
};
Result<AttributeChange> bind_attributes(const MountOptions& options, std::uint64_t current, bool locked);

// The attributes for a fresh mount.
std::uint64_t new_mount_attributes(const MountOptions& options);

// MOUNT_ATTR_* of the flags that statvfs(3) reports.
std::uint64_t attributes_of_statvfs(unsigned long flags);

// MS_* of a propagation word ("rslave": MS_SLAVE | MS_REC); 0 where it is none.
std::uint64_t propagation_of(const std::string& word);

// Every option that parse_mount_options knows by itself: for `features`.
std::vector<std::string> known_mount_options();

}  // namespace agentrun::sandbox
