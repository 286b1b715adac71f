// seccomp(2) filters: config.json's, compiled by libseccomp and cached by a hash of its canonical bytes; ours, compiled
// when agentrun was built. Several stack: the strictest result of all wins; of several ERRNO the last loaded one's.
#pragma once

#include <linux/filter.h>

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "oci/config.h"

namespace agentrun::sandbox {

struct SeccompProgram {
  std::vector<sock_filter> instructions;
  unsigned flags = 0;     // SECCOMP_FILTER_FLAG_*
  bool listener = false;  // wants NEW_LISTENER: listenerPath
};

// By libseccomp; up to 17 ms for three architectures. Names of system calls that libseccomp does not know are skipped,
// as runc and crun do; unknown actions, operators, architectures and flags are errors. TSYNC has nothing to do before
// execve (one thread) and excludes a listener, so it is accepted and left out of `flags`.
Result<SeccompProgram> compile_seccomp(const oci::Seccomp& seccomp);

// From the cache in the directory `cache` (0700, root's own) where it is, else compiled and stored there. The key is a
// SHA-256 of length-prefixed fields of the whole profile, the versions of libseccomp and of agentrun, and the
// architecture. A cache that cannot be written is no error. An entry is used only if it is whole, by its own digest,
// and nobody but us could have written it.
Result<SeccompProgram> cached_seccomp(const oci::Seccomp& seccomp, int cache);

// Ours by name ("strict"): instructions that were compiled at build time, for this architecture.
Result<std::vector<SeccompProgram>> builtin_seccomp(const std::string& name);

// What decides in which order the config's programs and ours are loaded.
struct SeccompSides {
  bool config_denies = false;   // seccomp(2) is not certainly allowed by the config's profile
  bool config_listens = false;  // it has a listener
  bool ours_deny = false;       // seccomp(2) is denied by ours
};
enum class SeccompOrder { config_first, ours_first };

// The config's first, unless it denies the seccomp(2) that loads ours: then ours first. A refusal where that fails too:
// ours refuses listeners, or denies the seccomp(2) that would load the config's.
Result<SeccompOrder> seccomp_order(const SeccompSides& sides);

std::vector<SeccompProgram> stack_seccomp(SeccompOrder order, std::vector<SeccompProgram> config,
                                          std::vector<SeccompProgram> ours);

// One program in the place of several, in their order of loading: each call then costs one run of a filter instead of
// one for each. Decides as the stack does as long as what comes after the first program is ours (which allows, denies
// by errno, or kills foreign ABIs) and the first one neither kills nor traps calls of our own ABI, which would be
// stricter than an errno of ours. Nothing where the kernel would not take it, or a flag is about one program only.
std::optional<SeccompProgram> merge_seccomp(const std::vector<SeccompProgram>& stack);

// Would seccomp(SECCOMP_SET_MODE_FILTER, 0, ...) be anything but allowed by it? A profile that leaves it to its
// listener counts as denying: the listener may say no.
bool denies_seccomp_call(const oci::Seccomp& seccomp);

}  // namespace agentrun::sandbox
