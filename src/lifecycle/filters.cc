#include "lifecycle/filters.h"

#include <utility>

namespace agentrun::lifecycle {

Result<std::vector<sandbox::SeccompProgram>> filters_for(const Store& store, const oci::Linux& linux_config,
                                                         const std::string& ours) {
  const auto& profile = linux_config.seccomp;
  std::vector<sandbox::SeccompProgram> programs;
  if (profile) {
    const auto cache = store.seccomp_cache();
    programs.push_back(
        TRY(cache ? sandbox::cached_seccomp(*profile, cache->get()) : sandbox::compile_seccomp(*profile)));
  }
  if (ours.empty()) return programs;
  auto builtin = TRY(sandbox::builtin_seccomp(ours));
  return sandbox::stack_seccomp(std::move(programs), profile && sandbox::denies_seccomp_call(*profile),
                                std::move(builtin));
}

}  // namespace agentrun::lifecycle
