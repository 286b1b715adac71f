// Landlock (landlock(7), Linux 5.13): rules that a process sets itself, and that neither it nor its descendants can
// take off. The numbers are here because the headers of the oldest system that this builds on (Linux 6.1) lack the
// later ones.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/unique_fd.h"

namespace agentrun::sys {

namespace landlock {
// Rights over files, of a directory and all below it. Reading and executing are not among ours.
inline constexpr std::uint64_t kWriteFile = 1ULL << 1, kRemoveDirectory = 1ULL << 4, kRemoveFile = 1ULL << 5,
                               kMakeCharacterDevice = 1ULL << 6, kMakeDirectory = 1ULL << 7, kMakeRegular = 1ULL << 8,
                               kMakeSocket = 1ULL << 9, kMakeFifo = 1ULL << 10, kMakeBlockDevice = 1ULL << 11,
                               kMakeSymlink = 1ULL << 12;
inline constexpr std::uint64_t kRefer = 1ULL << 13;        // ABI 2, Linux 5.19
inline constexpr std::uint64_t kTruncate = 1ULL << 14;     // ABI 3, Linux 6.2
inline constexpr std::uint64_t kIoctlDevice = 1ULL << 15;  // ABI 5, Linux 6.10
// TCP, ABI 4, Linux 6.7.
inline constexpr std::uint64_t kBindTcp = 1ULL << 0, kConnectTcp = 1ULL << 1;
// Scopes, ABI 6, Linux 6.12.
inline constexpr std::uint64_t kScopeAbstractSockets = 1ULL << 0, kScopeSignals = 1ULL << 1;
}  // namespace landlock

// The version that the kernel has; 0 where it has none, where it is off, or where an outer filter hides it.
int landlock_abi();

struct LandlockAttributes {
  std::uint64_t files = 0, net = 0, scopes = 0;  // what is denied, but for rules
};

// Close-on-exec. A right that this kernel does not know is EINVAL or E2BIG: ask for what landlock_abi says.
Result<UniqueFd> new_landlock_ruleset(const LandlockAttributes& attributes);

// `rights` for the file or directory that `fd` is (O_PATH will do) and everything below it, also what is mounted there.
// Errors: EBADFD for what is in no tree, as a pipe or a memfd, which needs no rule; EINVAL for rights of a directory
// over a file. The caller keeps `fd`.
Result<void> landlock_allow_path(int ruleset, int fd, std::uint64_t rights);

Result<void> landlock_allow_port(int ruleset, std::uint16_t port, std::uint64_t rights);

// For good. Needs no_new_privs or CAP_SYS_ADMIN.
Result<void> landlock_restrict_self(int ruleset);

}  // namespace agentrun::sys
