#include "lifecycle/filters.h"

#include <algorithm>
#include <climits>
#include <iterator>
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

// Does it answer a call with more than an errno? Not asked of calls by ABIs that it does not list: ours kills those
// too.
bool kills(const oci::Seccomp& profile) {
  const auto harsh = [](const std::string& action) {
    return action.starts_with("SCMP_ACT_KILL") || action == "SCMP_ACT_TRAP";
  };
  return harsh(profile.default_action) || std::any_of(profile.syscalls.begin(), profile.syscalls.end(),
                                                      [&](const auto& rule) { return harsh(rule.action); });
}

}  // namespace

Result<FilterPlan> plan_filters(const oci::Linux& linux_config, const std::string& program) {
  FilterPlan plan;
  if (program.empty()) return plan;
  plan.additions = TRY(read_seccomp_additions());
  plan.ours = TRY(sandbox::builtin_seccomp(program));
  auto additions = TRY(compile_additions(plan.additions));
  std::move(additions.begin(), additions.end(), std::back_inserter(plan.ours));
  sandbox::SeccompSides sides;
  const auto& profile = linux_config.seccomp;
  sides.config_denies = profile && sandbox::denies_seccomp_call(*profile);
  sides.config_listens = profile && notifies(*profile);
  sides.ours_deny = deny_seccomp_call(plan.additions);
  plan.order = TRY(sandbox::seccomp_order(sides));
  plan.one_program = plan.order == sandbox::SeccompOrder::config_first && !(profile && kills(*profile));
  return plan;
}

Result<std::vector<sandbox::SeccompProgram>> filters_for(const Store& store, const oci::Linux& linux_config,
                                                         const FilterPlan& plan) {
  const auto& profile = linux_config.seccomp;
  std::vector<sandbox::SeccompProgram> programs;
  if (profile) {
    const auto cache = store.seccomp_cache();
    programs.push_back(
        TRY(cache ? sandbox::cached_seccomp(*profile, cache->get()) : sandbox::compile_seccomp(*profile)));
  }
  programs = sandbox::stack_seccomp(plan.order, std::move(programs), plan.ours);
  if (!plan.one_program) return programs;
  auto merged = sandbox::merge_seccomp(programs);
  if (!merged) return programs;
  return std::vector<sandbox::SeccompProgram>{std::move(*merged)};
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
