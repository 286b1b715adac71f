// seccomp(2) filters: config.json's, compiled by libseccomp and cached by a hash of its canonical bytes; ours, compiled
// when agentrun was built. Several stack: the strictest result of all wins; of several ERRNO the last loaded one's.
#pragma once

#include <linux/filter.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "oci/config.h"

namespace agentrun::sandbox {

struct SeccompProgram {
  std::vector<sock_filter> instructions;
  unsigned flags = 0;       // SECCOMP_FILTER_FLAG_*
  bool listener = false;    // wants NEW_LISTENER: listenerPath
};

// libseccomp: up to 17 ms for three architectures.
Result<SeccompProgram> compile_seccomp(const oci::Seccomp& seccomp);

// From the cache in the directory `cache` (0700, root's own) where it is, else compiled and stored there. The key is a
// SHA-256 of length-prefixed fields of the whole profile, the versions of libseccomp and of agentrun, and the architecture.
// A cache that cannot be written is no error.
Result<SeccompProgram> cached_seccomp(const oci::Seccomp& seccomp, int cache);

// Ours by name ("strict"): instructions that were compiled at build time, for this architecture.
Result<SeccompProgram> builtin_seccomp(const std::string& name);

// The order in which both can be loaded: the config's first unless it denies seccomp(2); a refusal where neither order
// works (DESIGN 6, pitfalls).
struct SeccompStack {
  std::vector<SeccompProgram> programs;  // in the order of loading
};
Result<SeccompStack> stack_seccomp(SeccompProgram config, bool config_denies_seccomp, SeccompProgram ours);
bool denies_seccomp_call(const oci::Seccomp& seccomp);  // would seccomp(2) with SET_MODE_FILTER be refused by it

}  // namespace agentrun::sandbox
