#include "sandbox/rootless.h"

#include <sys/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>

#include "base/text.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

constexpr std::size_t kDatabaseLimit = 4u << 20;  // bytes of /etc/passwd, /etc/subuid
constexpr std::uint64_t kMostIds = std::numeric_limits<std::uint32_t>::max();

bool holds(cap_value_t capability) {
  const cap_t now = cap_get_proc();
  cap_flag_value_t value = CAP_CLEAR;
  const bool held = now != nullptr && cap_get_flag(now, capability, CAP_EFFECTIVE, &value) == 0 && value == CAP_SET;
  cap_free(now);
  return held;
}

// By hand: a static program has no NSS. A user of a directory service has no line here; his ranges name him by number.
std::string login_name(uid_t uid) {
  const auto passwd = sys::read_file("/etc/passwd", kDatabaseLimit);
  if (!passwd) return {};
  for (const std::string_view line : text::split(*passwd, '\n')) {
    const auto fields = text::split(line, ':');
    if (fields.size() >= 3 && text::parse_unsigned(fields[2]) == uid) return std::string(fields[0]);
  }
  return {};
}

// As execvp(3) looks.
bool is_installed(const char* program) {
  const char* path = std::getenv("PATH");
  for (const std::string_view directory : text::split(path != nullptr ? path : "/bin:/usr/bin", ':')) {
    if (access((std::string(directory) + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::vector<IdRange> ranges_of(const char* file, const std::string& name, uid_t uid) {
  const auto text = sys::read_file(file, kDatabaseLimit);
  return text ? subordinate_ranges(*text, name, uid) : std::vector<IdRange>();
}

bool is_mapped(const std::vector<oci::IdMapping>& mappings, std::uint64_t id) {
  return std::any_of(mappings.begin(), mappings.end(), [id](const oci::IdMapping& mapping) {
    return id >= mapping.container_id && id - mapping.container_id < mapping.size;
  });
}

// devpts in a single-id map: the group tty does not exist there, and the kernel refuses the mount.
void drop_unmapped_terminal_group(oci::Config& config, std::vector<std::string>& notes) {
  for (oci::Mount& mount : config.mounts) {
    if (mount.type != "devpts") continue;
    const auto unmapped = [&](const std::string& option) {
      if (!option.starts_with("gid=")) return false;
      const auto gid = text::parse_unsigned(std::string_view(option).substr(4));
      return gid && !is_mapped(config.linux.gid_mappings, *gid);
    };
    const auto found = std::find_if(mount.options.begin(), mount.options.end(), unmapped);
    if (found == mount.options.end()) continue;
    notes.push_back("terminals have the container's own group: " + *found + " is not mapped in its user namespace");
    std::erase_if(mount.options, unmapped);
  }
}

Result<void> check_mapped(const std::vector<oci::IdMapping>& mappings, std::uint32_t id, const char* kind,
                          const char* pointer) {
  if (is_mapped(mappings, id)) return ok();
  return refusal("create", pointer,
                 std::string(kind) + " " + std::to_string(id) +
                     " is not mapped in the container's user namespace (an ordinary user maps more ids than his own "
                     "with newuidmap, of package uidmap, and ranges in /etc/subuid and /etc/subgid)");
}

Error cannot_take(const char* call, std::uint32_t id) {
  return errno_error(call, std::to_string(id) + " in the user namespace");
}

}  // namespace

bool may_make_namespaces() { return holds(CAP_SYS_ADMIN); }

bool may_write_maps() { return holds(CAP_SETUID) && holds(CAP_SETGID); }

std::vector<IdRange> subordinate_ranges(std::string_view text, std::string_view name, uid_t uid) {
  std::vector<IdRange> ranges;
  for (const std::string_view line : text::split(text, '\n')) {
    const auto fields = text::split(text::trim(line), ':');
    if (fields.size() != 3) continue;
    const bool named = (!name.empty() && fields[0] == name) || fields[0] == std::to_string(uid);
    const auto start = text::parse_unsigned(fields[1]), count = text::parse_unsigned(fields[2]);
    if (!named || !start || !count || *count == 0 || *start >= kMostIds || *count > kMostIds - *start) continue;
    ranges.push_back({static_cast<std::uint32_t>(*start), static_cast<std::uint32_t>(*count)});
  }
  return ranges;
}

std::vector<oci::IdMapping> rootless_mappings(std::uint32_t own, const std::vector<IdRange>& ranges) {
  constexpr std::size_t kMostLines = 340;  // uid_map takes no more (Linux 4.15)
  std::vector<oci::IdMapping> mappings = {{0, own, 1}};
  std::uint64_t next = 1;
  for (const IdRange& range : ranges) {
    const std::uint64_t count = std::min<std::uint64_t>(range.count, kMostIds - next);
    if (count == 0 || mappings.size() == kMostLines) break;
    mappings.push_back({static_cast<std::uint32_t>(next), range.start, static_cast<std::uint32_t>(count)});
    next += count;
  }
  return mappings;
}

std::vector<std::string> add_user_namespace(oci::Config& config) {
  std::vector<std::string> notes;
  if (may_make_namespaces() || oci::find_namespace(config, oci::NamespaceType::user) != nullptr) return notes;
  const uid_t uid = geteuid();
  const std::string name = login_name(uid);
  const std::vector<IdRange> uids = ranges_of("/etc/subuid", name, uid), gids = ranges_of("/etc/subgid", name, uid);
  std::string obstacle;
  if (uids.empty() || gids.empty()) {
    obstacle = "neither name nor uid is in /etc/subuid and /etc/subgid";
  } else if (!is_installed("newuidmap") || !is_installed("newgidmap")) {
    obstacle = "newuidmap and newgidmap are not installed (package uidmap)";
  } else if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) {
    obstacle = "the caller has no_new_privs, under which newuidmap has no rights";
  }
  const bool one = !obstacle.empty();
  config.linux.namespaces.push_back({oci::NamespaceType::user, {}});
  config.linux.uid_mappings = rootless_mappings(uid, one ? std::vector<IdRange>() : uids);
  config.linux.gid_mappings = rootless_mappings(getegid(), one ? std::vector<IdRange>() : gids);
  notes.push_back("a user namespace for an ordinary user: uid 0 in the container is uid " + std::to_string(uid) +
                  " outside, " + (one ? "and there is no other: " + obstacle : "the others are ranges of /etc/subuid"));
  drop_unmapped_terminal_group(config, notes);
  return notes;
}

Result<void> check_ids_mapped(const oci::Process& process, const oci::Linux& linux_config) {
  const oci::User& user = process.user;
  TRY(check_mapped(linux_config.uid_mappings, user.uid, "uid", "/process/user/uid"));
  TRY(check_mapped(linux_config.gid_mappings, user.gid, "gid", "/process/user/gid"));
  for (const std::uint32_t gid : user.additional_gids) {
    TRY(check_mapped(linux_config.gid_mappings, gid, "gid", "/process/user/additionalGids"));
  }
  return ok();
}

Result<void> take_ids_inside(const oci::Linux& linux_config) {
  const auto usable = [](const std::vector<oci::IdMapping>& mappings) {
    return mappings.empty() || is_mapped(mappings, 0) ? 0 : mappings.front().container_id;
  };
  const gid_t gid = usable(linux_config.gid_mappings);
  const uid_t uid = usable(linux_config.uid_mappings);
  // EINVAL is "not mapped": of a namespace that was joined by path we do not know the maps.
  const bool known = !linux_config.uid_mappings.empty() && !linux_config.gid_mappings.empty();
  if (setresgid(gid, gid, gid) != 0 && (known || errno != EINVAL)) return cannot_take("setresgid", gid);
  // The kernel takes capabilities away from who leaves uid 0 of his namespace (capabilities(7)). Ids from outside,
  // which have no name in here, are not that.
  if (setresuid(uid, uid, uid) != 0 && (known || errno != EINVAL)) return cannot_take("setresuid", uid);
  return ok();
}

}  // namespace agentrun::sandbox
