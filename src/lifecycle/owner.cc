#include "lifecycle/owner.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "base/text.h"
#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

std::string own_uid_map() {
  auto map = sys::read_file("/proc/self/uid_map");
  return map ? std::move(*map) : std::string();
}

}  // namespace

std::optional<uid_t> outer_uid(std::string_view uid_map, uid_t uid) {
  for (const std::string_view line : text::split(uid_map, '\n')) {
    const auto words = text::split_words(line);
    if (words.size() != 3) continue;
    const auto inside = text::parse_unsigned(words[0]), outside = text::parse_unsigned(words[1]),
               size = text::parse_unsigned(words[2]);
    if (!inside || !outside || !size) continue;
    if (uid >= *inside && uid - *inside < *size) return static_cast<uid_t>(*outside + (uid - *inside));
  }
  return std::nullopt;
}

uid_t caller_uid() { return outer_uid(own_uid_map(), geteuid()).value_or(geteuid()); }

Result<bool> is_administrators(const std::string& real_path, uid_t owner) {
  if (sys::in_initial_user_namespace()) return owner == 0;
  constexpr uid_t kUnmapped = 65534;  // /proc/sys/kernel/overflowuid
  const auto outer = outer_uid(TRY(sys::read_file("/proc/self/uid_map")), owner);
  if (outer == uid_t{0}) return true;
  if (owner != kUnmapped || outer == owner) return false;
  return text::path_within(real_path, "/etc") || text::path_within(real_path, "/usr");
}

std::string home_directory() {
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return text::clean_path(home);
  const auto uid = outer_uid(own_uid_map(), geteuid());
  const auto passwd = sys::read_file("/etc/passwd");
  if (!uid || !passwd) return {};
  for (const std::string_view line : text::split(*passwd, '\n')) {
    const auto fields = text::split(line, ':');
    if (fields.size() >= 7 && text::parse_unsigned(fields[2]) == *uid && fields[5].starts_with('/')) {
      return text::clean_path(fields[5]);
    }
  }
  return {};
}

}  // namespace agentrun::lifecycle
