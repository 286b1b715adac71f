// OCI profiles to BPF, by libseccomp (runtime specification, config-linux.md, "Seccomp").
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/mman.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string_view>
#include <type_traits>

#include "base/text.h"
#include "sandbox/seccomp.h"
#include "sys/file.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)  // Linux 5.19
#endif

namespace agentrun::sandbox {
namespace {

struct ReleaseFilter {
  void operator()(scmp_filter_ctx context) const { seccomp_release(context); }
};
using Filter = std::unique_ptr<std::remove_pointer_t<scmp_filter_ctx>, ReleaseFilter>;

// libseccomp returns -errno.
Error library_error(int code, std::string operation, std::string object = {}) {
  return os_error(-code, std::move(operation), std::move(object));
}

constexpr std::uint32_t kDefaultErrno = EPERM;

Result<std::uint32_t> action_of(const std::string& name, std::optional<std::uint32_t> errno_ret) {
  const auto plain = [&](std::uint32_t action) -> Result<std::uint32_t> {
    // config-linux.md: an action that does not take errnoRet must fail with it.
    if (errno_ret) return refusal("seccomp action", name, "takes no errnoRet");
    return action;
  };
  if (name == "SCMP_ACT_ALLOW") return plain(SCMP_ACT_ALLOW);
  if (name == "SCMP_ACT_LOG") return plain(SCMP_ACT_LOG);
  if (name == "SCMP_ACT_NOTIFY") return plain(SCMP_ACT_NOTIFY);
  if (name == "SCMP_ACT_TRAP") return plain(SCMP_ACT_TRAP);
  if (name == "SCMP_ACT_KILL" || name == "SCMP_ACT_KILL_THREAD") return plain(SCMP_ACT_KILL_THREAD);
  if (name == "SCMP_ACT_KILL_PROCESS") return plain(SCMP_ACT_KILL_PROCESS);
  const std::uint32_t data = errno_ret.value_or(kDefaultErrno);
  if (data > UINT16_MAX) return refusal("seccomp action", name, "errnoRet has more than 16 bits");
  if (name == "SCMP_ACT_ERRNO") return SCMP_ACT_ERRNO(data);
  if (name == "SCMP_ACT_TRACE") return SCMP_ACT_TRACE(data);
  return refusal("seccomp action", name, "unknown");
}

Result<scmp_compare> operator_of(const std::string& name) {
  if (name == "SCMP_CMP_NE") return SCMP_CMP_NE;
  if (name == "SCMP_CMP_LT") return SCMP_CMP_LT;
  if (name == "SCMP_CMP_LE") return SCMP_CMP_LE;
  if (name == "SCMP_CMP_EQ") return SCMP_CMP_EQ;
  if (name == "SCMP_CMP_GE") return SCMP_CMP_GE;
  if (name == "SCMP_CMP_GT") return SCMP_CMP_GT;
  if (name == "SCMP_CMP_MASKED_EQ") return SCMP_CMP_MASKED_EQ;
  return refusal("seccomp operator", name, "unknown");
}

Result<scmp_arg_cmp> comparison_of(const oci::SeccompArg& argument) {
  if (argument.index > 5) return refusal("seccomp argument", std::to_string(argument.index), "there are six");
  scmp_arg_cmp comparison{};
  comparison.arg = argument.index;
  comparison.op = TRY(operator_of(argument.op));
  comparison.datum_a = argument.value;
  comparison.datum_b = argument.value_two;  // for MASKED_EQ only: `value` is the mask there
  return comparison;
}

Result<unsigned> flag_of(const std::string& name) {
  if (name == "SECCOMP_FILTER_FLAG_TSYNC") return 0u;
  if (name == "SECCOMP_FILTER_FLAG_LOG") return static_cast<unsigned>(SECCOMP_FILTER_FLAG_LOG);
  if (name == "SECCOMP_FILTER_FLAG_SPEC_ALLOW") return static_cast<unsigned>(SECCOMP_FILTER_FLAG_SPEC_ALLOW);
  if (name == "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV") {
    return static_cast<unsigned>(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
  }
  return refusal("seccomp flag", name, "unknown");
}

// "SCMP_ARCH_X86_64": libseccomp knows it as "x86_64". The native architecture is there from the start.
Result<void> add_architecture(scmp_filter_ctx filter, const std::string& name) {
  constexpr std::string_view kPrefix = "SCMP_ARCH_";
  const std::uint32_t token =
      name.starts_with(kPrefix) ? seccomp_arch_resolve_name(text::to_lower(name.substr(kPrefix.size())).c_str()) : 0;
  if (token == 0) return refusal("seccomp architecture", name, "unknown");
  const int added = seccomp_arch_add(filter, token);
  if (added != 0 && added != -EEXIST) return library_error(added, "add seccomp architecture", name);
  return ok();
}

Result<void> add_call(scmp_filter_ctx filter, int call, const std::string& name, std::uint32_t action,
                      const std::vector<scmp_arg_cmp>& comparisons) {
  const auto add = [&](unsigned count, const scmp_arg_cmp* list) -> Result<void> {
    const int added = seccomp_rule_add_array(filter, action, call, count, list);
    if (added != 0) return library_error(added, "add seccomp rule", name);
    return ok();
  };
  std::set<unsigned> indices;
  for (const scmp_arg_cmp& comparison : comparisons) indices.insert(comparison.arg);
  if (indices.size() == comparisons.size()) return add(static_cast<unsigned>(comparisons.size()), comparisons.data());
  // libseccomp takes an argument once in a rule. runc and crun then make a rule of each comparison (any of them, in
  // place of all of them), and profiles are written for that.
  for (const scmp_arg_cmp& comparison : comparisons) TRY(add(1, &comparison));
  return ok();
}

Result<void> add_rule(scmp_filter_ctx filter, const oci::SeccompRule& rule, std::uint32_t default_action,
                      bool& listener) {
  const std::uint32_t action = TRY(action_of(rule.action, rule.errno_ret));
  std::vector<scmp_arg_cmp> comparisons;
  for (const oci::SeccompArg& argument : rule.args) comparisons.push_back(TRY(comparison_of(argument)));
  if (action == default_action) return ok();  // libseccomp refuses a rule that says nothing
  for (const std::string& name : rule.names) {
    if (action == SCMP_ACT_NOTIFY && name == "write") {
      // Whoever takes the listener's fd to the agent would wait for that agent at its first write.
      return refusal("seccomp", {}, "SCMP_ACT_NOTIFY cannot be used for the write syscall");
    }
    const int call = seccomp_syscall_resolve_name(name.c_str());
    if (call == __NR_SCMP_ERROR) continue;
    TRY(add_call(filter, call, name, action, comparisons));
    if (action == SCMP_ACT_NOTIFY) listener = true;
  }
  return ok();
}

Result<std::vector<sock_filter>> export_program(scmp_filter_ctx filter) {
  const UniqueFd memory(memfd_create("seccomp", MFD_CLOEXEC));
  if (!memory) return errno_error("memfd_create", "seccomp");
  if (const int exported = seccomp_export_bpf(filter, memory.get()); exported != 0) {
    return library_error(exported, "export seccomp program");
  }
  const auto size = static_cast<std::size_t>(TRY(sys::stat_fd(memory.get(), "seccomp program")).st_size);
  if (size == 0 || size % sizeof(sock_filter) != 0 || size / sizeof(sock_filter) > BPF_MAXINSNS) {
    return refusal("seccomp", {}, "the profile is too large for one filter");
  }
  std::vector<sock_filter> instructions(size / sizeof(sock_filter));
  if (pread(memory.get(), instructions.data(), size, 0) != static_cast<ssize_t>(size)) {
    return errno_error("read seccomp program");
  }
  return instructions;
}

}  // namespace

Result<SeccompProgram> compile_seccomp(const oci::Seccomp& seccomp) {
  const std::uint32_t default_action = TRY(action_of(seccomp.default_action, seccomp.default_errno_ret));
  if (default_action == SCMP_ACT_NOTIFY) {
    return refusal("seccomp", {}, "SCMP_ACT_NOTIFY cannot be used as default action");
  }
  const Filter filter(seccomp_init(default_action));
  if (!filter) return refusal("seccomp", seccomp.default_action, "libseccomp cannot start a filter with it");
  // A binary tree in place of a list of all calls: half the time to load, and a tenth to run.
  if (const int set = seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2); set != 0) {
    return library_error(set, "optimize seccomp filter");
  }
  SeccompProgram program;
  for (const std::string& flag : seccomp.flags) program.flags |= TRY(flag_of(flag));
  for (const std::string& name : seccomp.architectures) TRY(add_architecture(filter.get(), name));
  for (const oci::SeccompRule& rule : seccomp.syscalls) {
    TRY(add_rule(filter.get(), rule, default_action, program.listener));
  }
  if (program.listener && seccomp.listener_path.empty()) {
    return refusal("seccomp", {}, "SCMP_ACT_NOTIFY is used without a listenerPath");
  }
  // The kernel takes this flag only together with NEW_LISTENER; without one there is nobody to wait for.
  if (!program.listener) program.flags &= ~static_cast<unsigned>(SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
  program.instructions = TRY(export_program(filter.get()));
  return program;
}

}  // namespace agentrun::sandbox
