// Deny-only additions to the seccomp program of a policy: /etc/agentrun/seccomp.d/*.json, the administrator's answer to
// a kernel bug of the day. Read at each create and exec, so that a new file counts from the next one on. The language
// is in agentrun-seccomp.d(5).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sandbox/seccomp.h"
#include "sandbox/seccomp_rules.h"

namespace agentrun::lifecycle {

inline constexpr const char* kSeccompAdditions = AGENTRUN_SYSCONFDIR "/seccomp.d";

// One entry of "deny": these calls, where all tests hold, fail with the errno in `action`.
struct SeccompDenial {
  std::vector<std::string> syscalls;
  std::vector<sandbox::ArgumentTest> args;
  std::uint32_t action = 0;
};

struct SeccompAddition {
  std::string file;                   // the path
  std::string cve, why;               // may be empty
  std::vector<std::string> syscalls;  // of all entries, each once, in the order of the file
  std::vector<SeccompDenial> deny;
};

// `name` stands for the file in errors, which have the JSON pointer.
Result<SeccompAddition> parse_seccomp_addition(std::string_view json, const std::string& name);

// Every *.json of the directory, by name; hidden files are none. No directory: no additions. An error where directory
// or file is not root's, others can write to it, it is a symlink or no file, or what is in it is no addition: a rule
// that an administrator believes in must not be missing in silence.
Result<std::vector<SeccompAddition>> read_seccomp_additions(const std::string& directory = kSeccompAdditions);

// One program that denies what any of them denies and allows all else, or none for none of them.
Result<std::vector<sandbox::SeccompProgram>> compile_additions(const std::vector<SeccompAddition>& additions);

// Would seccomp(SECCOMP_SET_MODE_FILTER, 0, ...) be denied by one of them?
bool deny_seccomp_call(const std::vector<SeccompAddition>& additions);

}  // namespace agentrun::lifecycle
