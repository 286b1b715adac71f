#include "sandbox/mount_options.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/text.h"

#ifndef ST_NOSYMFOLLOW
#define ST_NOSYMFOLLOW 0x2000  // <linux/statfs.h>, 5.10
#endif

namespace agentrun::sandbox {
namespace {

constexpr std::uint64_t kPlainFlags =
    MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NOSYMFOLLOW;
// Those that the kernel locks when a mount is copied to a less privileged namespace (MNT_LOCK_*).
constexpr std::uint64_t kLockable = kPlainFlags & ~static_cast<std::uint64_t>(MOUNT_ATTR_NOSYMFOLLOW);
constexpr std::uint64_t kAtime = MOUNT_ATTR__ATIME | MOUNT_ATTR_NODIRATIME;

struct PlainFlag {
  std::string_view on, off;
  std::uint64_t attribute;
};
constexpr std::array<PlainFlag, 5> kFlags = {{{"ro", "rw", MOUNT_ATTR_RDONLY},
                                              {"nosuid", "suid", MOUNT_ATTR_NOSUID},
                                              {"nodev", "dev", MOUNT_ATTR_NODEV},
                                              {"noexec", "exec", MOUNT_ATTR_NOEXEC},
                                              {"nosymfollow", "symfollow", MOUNT_ATTR_NOSYMFOLLOW}}};

struct AtimeWord {
  std::string_view word;
  std::uint64_t mode;
  bool keeps;  // asks for no mode of its own: it takes back an earlier option's, and leaves what the source has
  std::uint64_t opposite;
};
constexpr std::array<AtimeWord, 6> kAtimeWords = {
    {{"noatime", MOUNT_ATTR_NOATIME, false, 0},
     {"relatime", MOUNT_ATTR_RELATIME, false, 0},
     {"strictatime", MOUNT_ATTR_STRICTATIME, false, 0},
     {"atime", MOUNT_ATTR_RELATIME, true, MOUNT_ATTR_NOATIME},
     {"norelatime", MOUNT_ATTR_RELATIME, true, MOUNT_ATTR_RELATIME},
     {"nostrictatime", MOUNT_ATTR_RELATIME, true, MOUNT_ATTR_STRICTATIME}}};

constexpr std::array<std::pair<std::string_view, std::uint64_t>, 8> kPropagation = {
    {{"private", MS_PRIVATE},
     {"rprivate", MS_PRIVATE | MS_REC},
     {"slave", MS_SLAVE},
     {"rslave", MS_SLAVE | MS_REC},
     {"shared", MS_SHARED},
     {"rshared", MS_SHARED | MS_REC},
     {"unbindable", MS_UNBINDABLE},
     {"runbindable", MS_UNBINDABLE | MS_REC}}};

// Flags of the file system, not of the mount: for fsconfig(2). Their opposites are what every file system starts with.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kSuperblockFlags = {
    {{"sync", "async"}, {"dirsync", "nodirsync"}, {"mand", "nomand"}, {"lazytime", "nolazytime"}}};

// Words that mean the default, or that the kernel made meaningless: iversion is the file system's own choice since 6.x,
// silent is about the kernel's log. "notmpcopyup" is what Podman writes for the default.
constexpr std::array<std::string_view, 11> kNoEffect = {"defaults",   "silent",      "loud",     "iversion",
                                                        "noiversion", "async",       "nomand",   "nolazytime",
                                                        "diratime",   "notmpcopyup", "nodirsync"};

void set_plain(MountOptions& options, std::uint64_t attribute, bool on) {
  (on ? options.set : options.cleared) |= attribute;
  (on ? options.cleared : options.set) &= ~attribute;
  options.any_flag = true;
}

void set_recursive(MountOptions& options, std::uint64_t set, std::uint64_t clear) {
  options.recursive_set = (options.recursive_set & ~clear) | set;
  options.recursive_clear = (options.recursive_clear & ~set) | clear;
}

bool take_plain_flag(MountOptions& options, std::string_view word) {
  for (const PlainFlag& flag : kFlags) {
    if (word == flag.on || word == flag.off) {
      set_plain(options, flag.attribute, word == flag.on);
      return true;
    }
    if (word.substr(0, 1) == "r" && (word.substr(1) == flag.on || word.substr(1) == flag.off)) {
      const bool on = word.substr(1) == flag.on;
      set_recursive(options, on ? flag.attribute : 0, on ? 0 : flag.attribute);
      return true;
    }
  }
  return false;
}

bool take_atime(MountOptions& options, std::string_view word) {
  if (word == "nodiratime") {
    options.atime.directories_given = options.any_flag = true;
    return true;
  }
  if (word == "rnodiratime" || word == "rdiratime") {
    const bool on = word == "rnodiratime";
    set_recursive(options, on ? MOUNT_ATTR_NODIRATIME : 0, on ? 0 : MOUNT_ATTR_NODIRATIME);
    return true;
  }
  for (const AtimeWord& known : kAtimeWords) {
    if (word == known.word) {
      options.any_flag = true;
      if (!known.keeps) {
        options.atime.mode = known.mode;
        options.atime.mode_given = true;
      } else if (options.atime.mode_given && options.atime.mode == known.opposite) {
        options.atime.mode = MOUNT_ATTR_RELATIME;
        options.atime.mode_given = false;
      }
      return true;
    }
    if (word.substr(0, 1) == "r" && word.substr(1) == known.word) {
      // The field is a number, not bits: all of it is cleared, then one value set (mount_setattr(2)).
      options.recursive_set = (options.recursive_set & ~std::uint64_t{MOUNT_ATTR__ATIME}) | known.mode;
      options.recursive_clear |= MOUNT_ATTR__ATIME;
      return true;
    }
  }
  return false;
}

Result<bool> take_superblock_flag(MountOptions& options, std::string_view word) {
  for (const auto& [on, off] : kSuperblockFlags) {
    if (word == on) {
      if (options.bind) {
        return refusal("mount option", std::string(word),
                       "belongs to the file system: a bind mount cannot have its own");
      }
      options.data.push_back({std::string(word), "", true});
      return true;
    }
  }
  return false;
}

// "0-1000-10#10-2000-5", each perhaps with "@" before it: crun's syntax, file system id, host id, count.
Result<std::vector<oci::IdMapping>> parse_triplets(std::string_view text,
                                                   const std::vector<oci::IdMapping>& container) {
  std::vector<oci::IdMapping> result;
  for (std::string_view triplet : text::split(text, '#')) {
    const bool relative = triplet.substr(0, 1) == "@";
    if (relative) triplet.remove_prefix(1);
    const auto numbers = text::split(triplet, '-');
    std::array<std::uint64_t, 3> value{};
    bool good = numbers.size() == 3;
    for (std::size_t i = 0; good && i < 3; ++i) {
      const auto number = text::parse_unsigned(numbers[i]);
      good = number && *number <= UINT32_MAX;
      if (good) value[i] = *number;
    }
    if (!good || value[2] == 0) return refusal("mount option idmap", std::string(triplet), "expected ID-ID-COUNT");
    if (relative) {
      const auto range = std::find_if(container.begin(), container.end(), [&](const oci::IdMapping& map) {
        return value[1] >= map.container_id && value[1] + value[2] <= std::uint64_t{map.container_id} + map.size;
      });
      if (range == container.end()) {
        return refusal("mount option idmap", std::string(triplet), "is not within one range of the user namespace");
      }
      value[1] = value[1] - range->container_id + range->host_id;
    }
    result.push_back({static_cast<std::uint32_t>(value[0]), static_cast<std::uint32_t>(value[1]),
                      static_cast<std::uint32_t>(value[2])});
  }
  return result;
}

Result<void> take_idmap(MountOptions& options, std::string_view word, const oci::Linux& container) {
  const auto equals = word.find('=');
  options.idmap = true;
  options.idmap_recursive = options.idmap_recursive || word.substr(0, equals) == "ridmap";
  if (equals == std::string_view::npos) return ok();
  for (std::string_view part : text::split(word.substr(equals + 1), ';')) {
    if (part.substr(0, 5) == "uids=") {
      options.idmap_uids = TRY(parse_triplets(part.substr(5), container.uid_mappings));
    } else if (part.substr(0, 5) == "gids=") {
      options.idmap_gids = TRY(parse_triplets(part.substr(5), container.gid_mappings));
    } else {
      return refusal("mount option", std::string(word), "only uids= and gids= may follow idmap=");
    }
  }
  return ok();
}

bool take_word(MountOptions& options, std::string_view word) {
  if (word == "bind") return true;  // read in a pass before
  if (word == "rbind") return options.recursive = true;
  if (word == "remount") return options.remount = true;
  if (word == "tmpcopyup") return options.copy_up = true;
  if (word == "copy-symlink") return options.copy_symlink = true;
  if (word == "src-nofollow") return options.source_nofollow = true;
  if (word == "dest-nofollow") return options.destination_nofollow = true;
  if (std::find(kNoEffect.begin(), kNoEffect.end(), word) != kNoEffect.end()) {
    if (word == "diratime") {
      options.any_flag = true;
      options.atime.directories_given = false;
    }
    return true;
  }
  if (const std::uint64_t propagation = propagation_of(std::string(word))) {
    options.propagation = propagation & ~std::uint64_t{MS_REC};
    options.propagation_recursive = (propagation & MS_REC) != 0;
    return true;
  }
  return take_plain_flag(options, word) || take_atime(options, word);
}

Result<void> finish_idmap(MountOptions& options, const oci::Mount& mount, const oci::Linux& container) {
  if (!mount.uid_mappings.empty() || !mount.gid_mappings.empty()) {
    if (mount.uid_mappings.empty() || mount.gid_mappings.empty()) {
      return refusal("mount", mount.destination, "uidMappings and gidMappings must come together");
    }
    options.idmap = true;
    options.idmap_uids = mount.uid_mappings;
    options.idmap_gids = mount.gid_mappings;
  }
  if (!options.idmap) return ok();
  if (!options.bind) return refusal("mount", mount.destination, "only bind mounts can be idmapped");
  const bool joins =
      std::any_of(container.namespaces.begin(), container.namespaces.end(),
                  [](const oci::Namespace& ns) { return ns.type == oci::NamespaceType::user && !ns.path.empty(); });
  const bool any = !options.idmap_uids.empty() || !options.idmap_gids.empty();
  if (any && (options.idmap_uids.empty() || options.idmap_gids.empty())) {
    return refusal("mount", mount.destination, "an idmap needs both uids and gids");
  }
  if (any || joins) return ok();  // a namespace that is joined is used itself
  if (container.uid_mappings.empty() || container.gid_mappings.empty()) {
    return refusal("mount", mount.destination, "idmap without mappings needs a user namespace with mappings");
  }
  options.idmap_uids = container.uid_mappings;
  options.idmap_gids = container.gid_mappings;
  return ok();
}

}  // namespace

bool is_bind(const oci::Mount& mount) {
  if (mount.type == "bind" || mount.type == "rbind") return true;
  return std::any_of(mount.options.begin(), mount.options.end(),
                     [](const std::string& option) { return option == "bind" || option == "rbind"; });
}

std::uint64_t propagation_of(const std::string& word) {
  for (const auto& [name, flags] : kPropagation) {
    if (word == name) return flags;
  }
  return 0;
}

Result<MountOptions> parse_mount_options(const oci::Mount& mount, const oci::Linux& container) {
  MountOptions options;
  options.bind = is_bind(mount);
  options.recursive = mount.type == "rbind";
  for (const std::string& word : mount.options) {
    if (take_word(options, word)) continue;
    if (TRY(take_superblock_flag(options, word))) continue;
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    if (name == "idmap" || name == "ridmap") {
      TRY(take_idmap(options, word, container));
      continue;
    }
    if (options.bind || options.remount) {
      return refusal("mount", mount.destination, "unknown option " + word + ": there is no file system to give it to");
    }
    if (word.empty()) continue;
    if (name.size() == word.size()) {
      options.data.push_back({word, "", true});
    } else {
      options.data.push_back({std::string(name), word.substr(name.size() + 1), false});
    }
  }
  if (options.remount && !options.data.empty()) {
    return refusal("mount", mount.destination, "remount changes flags of the mount only");
  }
  if (options.copy_up && mount.type != "tmpfs") {
    return refusal("mount", mount.destination, "tmpcopyup is for tmpfs");
  }
  TRY(finish_idmap(options, mount, container));
  return options;
}

Result<AttributeChange> bind_attributes(const MountOptions& options, std::uint64_t current, bool locked) {
  AttributeChange change;
  if (!options.any_flag) return change;
  change.set = options.set;
  change.clear = kPlainFlags & ~options.set;
  if (locked) {
    if ((options.cleared & current & kLockable) != 0) {
      return os_error(EPERM, "clear a flag of the source that is locked in a user namespace");
    }
    change.clear &= ~(current & kLockable);
  }
  if (!options.atime.given()) return change;
  const std::uint64_t wanted =
      options.atime.mode | (options.atime.directories_given ? std::uint64_t{MOUNT_ATTR_NODIRATIME} : 0);
  if (locked) {
    if ((current & kAtime) != wanted) {
      return os_error(EPERM, "change the access-time mode of the source, which is locked in a user namespace");
    }
    return change;
  }
  change.set |= wanted;
  change.clear |= kAtime;
  return change;
}

std::uint64_t new_mount_attributes(const MountOptions& options) {
  return options.set | options.atime.mode |
         (options.atime.directories_given ? std::uint64_t{MOUNT_ATTR_NODIRATIME} : 0);
}

std::uint64_t attributes_of_statvfs(unsigned long flags) {
  std::uint64_t attributes = 0;
  if (flags & ST_RDONLY) attributes |= MOUNT_ATTR_RDONLY;
  if (flags & ST_NOSUID) attributes |= MOUNT_ATTR_NOSUID;
  if (flags & ST_NODEV) attributes |= MOUNT_ATTR_NODEV;
  if (flags & ST_NOEXEC) attributes |= MOUNT_ATTR_NOEXEC;
  if (flags & ST_NOSYMFOLLOW) attributes |= MOUNT_ATTR_NOSYMFOLLOW;
  if (flags & ST_NODIRATIME) attributes |= MOUNT_ATTR_NODIRATIME;
  if (flags & ST_NOATIME) {
    attributes |= MOUNT_ATTR_NOATIME;
  } else if (!(flags & ST_RELATIME)) {
    attributes |= MOUNT_ATTR_STRICTATIME;  // has no bit of its own: neither of the others
  }
  return attributes;
}

std::vector<std::string> known_mount_options() {
  std::vector<std::string> names = {"bind",          "rbind", "remount", "tmpcopyup",  "copy-symlink", "src-nofollow",
                                    "dest-nofollow", "idmap", "ridmap",  "nodiratime", "rnodiratime",  "rdiratime"};
  for (const PlainFlag& flag : kFlags) {
    for (const std::string& prefix : {std::string(), std::string("r")}) {
      names.push_back(prefix + std::string(flag.on));
      names.push_back(prefix + std::string(flag.off));
    }
  }
  for (const AtimeWord& word : kAtimeWords) {
    names.emplace_back(word.word);
    names.push_back("r" + std::string(word.word));
  }
  for (const auto& [name, flags] : kPropagation) names.emplace_back(name);
  for (const auto& [on, off] : kSuperblockFlags) names.emplace_back(on);
  for (const std::string_view word : kNoEffect) {
    if (word != "notmpcopyup" && word != "nodirsync") names.emplace_back(word);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace agentrun::sandbox
