// The language that our own seccomp filters are made of: rules by system call, and their program. Used when agentrun is
// built, for policies/seccomp/*.json, and when a container is made, for the additions of the administrator.
//
// Arguments are compared by their low 32 bits. The kernel truncates `int` arguments, a filter sees the whole register:
// a rule on all 64 bits is passed by whoever sets bit 32. No argument that the kernel takes as 64 bits may get a rule
// (clone's flags: the kernel reads the low half only).
//
// Not libseccomp's filters: those cannot say "the first that matches", so that the same rules would take two programs
// of four times the size.
#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace agentrun::sandbox {

enum class CallAbi { x86_64, aarch64 };
#if defined(__x86_64__)
inline constexpr CallAbi kNativeCallAbi = CallAbi::x86_64;
#elif defined(__aarch64__)
inline constexpr CallAbi kNativeCallAbi = CallAbi::aarch64;
#else
#error "our seccomp programs know x86-64 and aarch64 only"
#endif

struct ArgumentTest {
  unsigned argument = 0;                // 0 to 5
  std::uint32_t mask = UINT32_MAX;      // the bits that are looked at
  bool any_bit = false;                 // holds where one of them is set; else where they are one of `values`
  std::vector<std::uint32_t> values{};  // each within `mask`
};

struct CallRule {
  std::vector<ArgumentTest> tests{};  // all of them hold
  std::uint32_t action = 0;           // SECCOMP_RET_*
};

struct CallRules {
  std::uint32_t otherwise = 0;  // for calls without rules, and where no rule of a call matches
  std::map<std::uint32_t, std::vector<CallRule>> calls{};  // by number: the first rule that matches decides
};

// A program that decides so. Calls by another ABI than `abi` (int 0x80, x32, ARM's 32 bits) are killed: they have other
// numbers and other structures, so that no rule would be about them. An error where a test can never hold, or where the
// rules are more than the kernel takes.
Result<std::vector<sock_filter>> assemble(const CallRules& rules, CallAbi abi);

// By name, or a number in decimal digits for calls that are younger than we are. Nothing where `abi` has no such call;
// an error where nobody has one: a misspelt name would be a rule that is not there.
Result<std::optional<std::uint32_t>> call_number(const std::string& name, CallAbi abi);

// "EPERM" as SECCOMP_RET_ERRNO with it. Those that programs meet from a system call; nothing for others.
std::optional<std::uint32_t> errno_action(std::string_view name);

// Decimal, 0x hexadecimal or 0 octal, at most 32 bits.
std::optional<std::uint32_t> parse_call_value(std::string_view text);

}  // namespace agentrun::sandbox
