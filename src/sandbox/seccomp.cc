#include "sandbox/seccomp.h"

#include <linux/seccomp.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)  // Linux 5.19
#endif

namespace agentrun::sandbox {
namespace {

// Made from policies/seccomp/strict.json by src/tools/compile_seccomp.cc.
constexpr sock_filter kStrict[] = {
#if defined(__x86_64__)
#include "sandbox/seccomp_strict_x86_64.inc"
#elif defined(__aarch64__)
#include "sandbox/seccomp_strict_aarch64.inc"
#endif
};

// Whether a comparison holds for seccomp(SECCOMP_SET_MODE_FILTER, 0, pointer); nothing where it is about the pointer.
std::optional<bool> holds(const oci::SeccompArg& argument) {
  constexpr std::array<std::uint64_t, 2> kArguments = {SECCOMP_SET_MODE_FILTER, 0};
  if (argument.index >= kArguments.size()) return std::nullopt;
  const std::uint64_t actual = kArguments[argument.index];
  if (argument.op == "SCMP_CMP_NE") return actual != argument.value;
  if (argument.op == "SCMP_CMP_LT") return actual < argument.value;
  if (argument.op == "SCMP_CMP_LE") return actual <= argument.value;
  if (argument.op == "SCMP_CMP_EQ") return actual == argument.value;
  if (argument.op == "SCMP_CMP_GE") return actual >= argument.value;
  if (argument.op == "SCMP_CMP_GT") return actual > argument.value;
  if (argument.op == "SCMP_CMP_MASKED_EQ") return (actual & argument.value) == argument.value_two;
  return std::nullopt;
}

bool lets_through(const std::string& action) { return action == "SCMP_ACT_ALLOW" || action == "SCMP_ACT_LOG"; }

bool certainly_matches(const oci::SeccompRule& rule) {
  return std::all_of(rule.args.begin(), rule.args.end(), [](const auto& argument) { return holds(argument) == true; });
}

bool may_match(const oci::SeccompRule& rule) {
  // Not "all may hold": a rule that names an argument twice is any of its comparisons (see add_call).
  return rule.args.empty() ||
         std::any_of(rule.args.begin(), rule.args.end(), [](const auto& argument) { return holds(argument) != false; });
}

}  // namespace

Result<std::vector<SeccompProgram>> builtin_seccomp(const std::string& name) {
  if (name != "strict") return refusal("seccomp program", name, "there is no built-in program of that name");
  SeccompProgram program;
  program.instructions.assign(std::begin(kStrict), std::end(kStrict));
  return std::vector<SeccompProgram>{std::move(program)};
}

bool denies_seccomp_call(const oci::Seccomp& seccomp) {
  bool allowed = lets_through(seccomp.default_action);
  for (const oci::SeccompRule& rule : seccomp.syscalls) {
    if (std::find(rule.names.begin(), rule.names.end(), "seccomp") == rule.names.end()) continue;
    if (!lets_through(rule.action)) {
      // With the default action's own name libseccomp drops the rule, and nothing is lost: that one denies as well.
      if (may_match(rule)) return true;
    } else if (certainly_matches(rule)) {
      allowed = true;
    }
  }
  return !allowed;
}

Result<SeccompOrder> seccomp_order(const SeccompSides& sides) {
  // Ours last where that is possible: of several ERRNO results the last loaded filter's wins, and ours are those that
  // programs know how to live with. Ours refuses listeners, so that the config's has to be there before it.
  if (!sides.config_denies) return SeccompOrder::config_first;
  if (sides.config_listens) {
    return refusal("seccomp", {},
                   "the profile refuses seccomp(2), so that the policy's filter cannot be loaded after it, and has a "
                   "listener, which the policy's filter would refuse before it");
  }
  if (sides.ours_deny) {
    return refusal("seccomp", {},
                   "the profile refuses seccomp(2), and so does an addition of the administrator's: neither can be "
                   "loaded after the other");
  }
  return SeccompOrder::ours_first;
}

std::vector<SeccompProgram> stack_seccomp(SeccompOrder order, std::vector<SeccompProgram> config,
                                          std::vector<SeccompProgram> ours) {
  auto& first = order == SeccompOrder::config_first ? config : ours;
  auto& last = order == SeccompOrder::config_first ? ours : config;
  std::move(last.begin(), last.end(), std::back_inserter(first));
  return std::move(first);
}

std::optional<SeccompProgram> merge_seccomp(const std::vector<SeccompProgram>& stack) {
  if (stack.empty()) return std::nullopt;
  SeccompProgram merged;
  merged.flags = stack.front().flags;
  merged.listener = stack.front().listener;
  // Waiting for a listener is about no decision; SECCOMP_FILTER_FLAG_LOG would log what the other programs deny.
  if ((merged.flags & ~static_cast<unsigned>(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)) != 0) return std::nullopt;
  for (auto program = stack.rbegin(); program != stack.rend(); ++program) {
    if (program + 1 != stack.rend() && (program->flags != 0 || program->listener)) return std::nullopt;
    const std::vector<sock_filter>& rows = program->instructions;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      sock_filter row = rows[i];
      // What this program allows the next one is asked about, from its beginning.
      if (row.code == (BPF_RET | BPF_K) && row.k == SECCOMP_RET_ALLOW && program + 1 != stack.rend()) {
        row = {BPF_JMP | BPF_JA, 0, 0, static_cast<std::uint32_t>(rows.size() - i - 1)};
      }
      merged.instructions.push_back(row);
    }
  }
  if (merged.instructions.size() > BPF_MAXINSNS) return std::nullopt;
  return merged;
}

}  // namespace agentrun::sandbox
