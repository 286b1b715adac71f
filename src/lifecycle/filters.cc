#include "lifecycle/filters.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "sys/socket.h"

namespace agentrun::lifecycle {
namespace {

// It crosses an execve as one argument: MAX_ARG_STRLEN of execve(2).
constexpr std::size_t kLongestMessage = 128 * 1024;

bool notifies(const oci::Seccomp& profile) {
  constexpr const char* kNotify = "SCMP_ACT_NOTIFY";
  if (profile.listener_path.empty()) return false;  // refused by the compiler of the profile, with a better word
  return profile.default_action == kNotify ||
         std::any_of(profile.syscalls.begin(), profile.syscalls.end(),
                     [](const oci::SeccompRule& rule) { return rule.action == kNotify; });
}

}  // namespace

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

Result<UniqueFd> connect_listener(const oci::Linux& linux_config, const oci::State& state) {
  if (!linux_config.seccomp || !notifies(*linux_config.seccomp)) return UniqueFd();
  if (listener_message(linux_config, state, INT_MAX).size() >= kLongestMessage) {
    return refusal("tell the seccomp listener of", state.id, "the container's state is longer than 128 KiB");
  }
  auto connected = sys::connect_stream(linux_config.seccomp->listener_path);
  if (connected) return connected;
  Error error = std::move(connected).error();
  error.operation = "connect to seccomp listener";
  return error;
}

std::string listener_message(const oci::Linux& linux_config, const oci::State& state, pid_t pid) {
  return oci::print_container_process_state(state, pid, linux_config.seccomp->listener_metadata);
}

}  // namespace agentrun::lifecycle
