#include "sys/landlock.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <string>

namespace agentrun::sys {
namespace {

constexpr unsigned kVersion = 1U << 0;  // LANDLOCK_CREATE_RULESET_VERSION
constexpr int kPathBeneath = 1, kPort = 2;

struct [[gnu::packed]] PathRule {
  std::uint64_t rights = 0;
  std::int32_t fd = -1;
};

struct PortRule {
  std::uint64_t rights = 0, port = 0;
};

}  // namespace

int landlock_abi() {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, kVersion);
  return version > 0 ? static_cast<int>(version) : 0;
}

Result<UniqueFd> new_landlock_ruleset(const LandlockAttributes& attributes) {
  // An older kernel takes a longer struct whose tail is zero.
  const long fd = syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0U);
  if (fd < 0) return errno_error("landlock_create_ruleset");
  return UniqueFd(static_cast<int>(fd));
}

Result<void> landlock_allow_path(int ruleset, int fd, std::uint64_t rights) {
  const PathRule rule{rights, fd};
  if (syscall(SYS_landlock_add_rule, ruleset, kPathBeneath, &rule, 0U) != 0) return errno_error("landlock_add_rule");
  return ok();
}

Result<void> landlock_allow_port(int ruleset, std::uint16_t port, std::uint64_t rights) {
  const PortRule rule{rights, port};
  if (syscall(SYS_landlock_add_rule, ruleset, kPort, &rule, 0U) != 0) {
    return errno_error("landlock_add_rule", "port " + std::to_string(port));
  }
  return ok();
}

Result<void> landlock_restrict_self(int ruleset) {
  if (syscall(SYS_landlock_restrict_self, ruleset, 0U) != 0) return errno_error("landlock_restrict_self");
  return ok();
}

}  // namespace agentrun::sys
