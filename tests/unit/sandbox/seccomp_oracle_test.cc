// The strict program as it was built, for both architectures, against policies/seccomp/strict.json as a reader would
// understand it; and stacks of filters as we think that they decide, against the kernel.
#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include "bpf.h"
#include "forked.h"
#include "sandbox/last_step.h"
#include "sandbox/seccomp.h"
#include "sandbox/seccomp_rules.h"

namespace agentrun::sandbox {
namespace {

namespace json = boost::json;
using test::ask;
using test::errno_of;
using Arguments = std::array<std::uint64_t, 6>;
using Program = std::vector<sock_filter>;

constexpr sock_filter kX86[] = {
#include "sandbox/seccomp_strict_x86_64.inc"
};
constexpr sock_filter kArm[] = {
#include "sandbox/seccomp_strict_aarch64.inc"
};

struct Target {
  const char* name;
  std::uint32_t audit, library;
  Program program;
};

std::vector<Target> targets() {
  return {{"x86_64", AUDIT_ARCH_X86_64, SCMP_ARCH_X86_64, Program(std::begin(kX86), std::end(kX86))},
          {"aarch64", AUDIT_ARCH_AARCH64, SCMP_ARCH_AARCH64, Program(std::begin(kArm), std::end(kArm))}};
}

const json::object& file() {
  static const json::value parsed = [] {
    std::ifstream input(SOURCE_DIR "/policies/seccomp/strict.json");
    std::stringstream text;
    text << input.rdbuf();
    return json::parse(text.str());
  }();
  return parsed.as_object();
}

std::uint32_t number_of(const json::value& text) {
  return static_cast<std::uint32_t>(std::stoul(std::string(text.as_string()), nullptr, 0));
}

std::uint32_t action_of(const json::value& text) {
  const std::string name(text.as_string());
  if (name == "allow") return SECCOMP_RET_ALLOW;
  if (name == "success") return errno_of(0);
  if (name == "EPERM") return errno_of(EPERM);
  if (name == "EINVAL") return errno_of(EINVAL);
  if (name == "ENOSYS") return errno_of(ENOSYS);
  if (name == "EXDEV") return errno_of(EXDEV);
  if (name == "EOPNOTSUPP") return errno_of(EOPNOTSUPP);
  if (name == "EAFNOSUPPORT") return errno_of(EAFNOSUPPORT);
  if (name == "ENOPROTOOPT") return errno_of(ENOPROTOOPT);
  if (name == "EPROTONOSUPPORT") return errno_of(EPROTONOSUPPORT);
  throw std::runtime_error("unknown to this test: " + name);
}

// The program says 32 bits; so does this.
bool holds(const json::object& condition, const Arguments& arguments) {
  const auto argument =
      static_cast<std::uint32_t>(arguments.at(static_cast<std::size_t>(condition.at("arg").as_int64())));
  if (const auto* bits = condition.if_contains("any_bit")) return (argument & number_of(*bits)) != 0;
  const std::uint32_t mask = condition.contains("mask") ? number_of(condition.at("mask")) : UINT32_MAX;
  for (const auto& value : condition.at("is").as_array()) {
    if ((argument & mask) == number_of(value)) return true;
  }
  return false;
}

std::uint32_t decide(const std::string& name, const Arguments& arguments) {
  for (const auto& allowed : file().at("allow").as_array()) {
    if (allowed.as_string() == name) return SECCOMP_RET_ALLOW;
  }
  const auto* rules = file().at("rules").as_object().if_contains(name);
  if (rules == nullptr) return action_of(file().at("default"));
  for (const auto& rule : rules->as_array()) {
    bool all = true;
    if (const auto* conditions = rule.as_object().if_contains("if")) {
      for (const auto& condition : conditions->as_array()) all = all && holds(condition.as_object(), arguments);
    }
    if (all) return action_of(rule.as_object().at("then"));
  }
  throw std::runtime_error("no rule of " + name + " decides");
}

// Every number that any rule has, its neighbours, and these with bits that the kernel does not look at.
std::vector<std::uint64_t> interesting_values() {
  std::vector<std::uint64_t> values = {0, 1, 2, 3, 5, 6, 10, 16, 17, 31, 38, 40, 132, 262, 0xffffffff};
  for (const auto& [name, rules] : file().at("rules").as_object()) {
    for (const auto& rule : rules.as_array()) {
      const auto* conditions = rule.as_object().if_contains("if");
      if (conditions == nullptr) continue;
      for (const auto& condition : conditions->as_array()) {
        for (const auto& [key, value] : condition.as_object()) {
          if (key == "any_bit" || key == "mask") values.push_back(number_of(value));
          if (key != "is") continue;
          for (const auto& one : value.as_array()) values.insert(values.end(), {number_of(one), number_of(one) + 1});
        }
      }
    }
  }
  return values;
}

TEST(SeccompOracle, TheBuiltProgramsDecideAsTheFile) {
  const std::vector<std::uint64_t> values = interesting_values();
  std::mt19937_64 engine(1);
  for (const Target& target : targets()) {
    int known = 0;
    for (int number = 0; number < 512; ++number) {
      char* resolved = seccomp_syscall_resolve_num_arch(target.library, number);
      if (resolved == nullptr) continue;  // too young for this library, or nobody's
      const std::string name(resolved);
      free(resolved);
      ++known;
      for (int i = 0; i < (file().at("rules").as_object().contains(name) ? 4000 : 4); ++i) {
        Arguments arguments{};
        for (auto& argument : arguments) {
          argument = values[engine() % values.size()];
          if (engine() % 4 == 0) argument |= values[engine() % values.size()];
          if (engine() % 2 == 0) argument |= std::uint64_t{1} << 32;
          if (engine() % 4 == 0) argument |= engine() << 32;
        }
        ASSERT_EQ(ask(target.program, number, arguments, target.audit), decide(name, arguments))
            << target.name << " " << name << " " << std::hex << arguments[0] << " " << arguments[1] << " "
            << arguments[2] << " " << arguments[3];
      }
    }
    EXPECT_GT(known, 250) << target.name;
  }
}

// Numbers from the kernel's tables (include/uapi/asm-generic/unistd.h), not from a library: those where being wrong
// would be an escape.
TEST(SeccompOracle, ArmByNumber) {
  const Program program = targets()[1].program;
  const auto answer = [&](int number, const Arguments& arguments = {}) {
    return ask(program, number, arguments, AUDIT_ARCH_AARCH64);
  };
  for (const int allowed :
       {56 /* openat */, 57 /* close */, 63 /* read */, 64 /* write */, 73 /* ppoll */, 93 /* exit */,
        94 /* exit_group */, 98 /* futex */, 134 /* rt_sigaction */, 139 /* rt_sigreturn */, 214 /* brk */,
        221 /* execve */, 222 /* mmap */, 226 /* mprotect */, 260 /* wait4 */, 261 /* prlimit64 */, 278 /* getrandom */,
        293 /* rseq */, 462 /* mseal */}) {
    EXPECT_EQ(answer(allowed), SECCOMP_RET_ALLOW) << allowed;
  }
  for (const int absent : {0 /* io_setup */,
                           5 /* setxattr */,
                           39 /* umount2 */,
                           40 /* mount */,
                           41 /* pivot_root */,
                           51 /* chroot */,
                           92 /* personality */,
                           97 /* unshare */,
                           104 /* kexec_load */,
                           105 /* init_module */,
                           117 /* ptrace */,
                           142 /* reboot */,
                           217 /* add_key */,
                           219 /* keyctl */,
                           235 /* mbind */,
                           241 /* perf_event_open */,
                           264 /* name_to_handle_at */,
                           265 /* open_by_handle_at */,
                           268 /* setns */,
                           270 /* process_vm_readv */,
                           272 /* kcmp */,
                           273 /* finit_module */,
                           280 /* bpf */,
                           282 /* userfaultfd */,
                           294 /* kexec_file_load */,
                           425 /* io_uring_setup */,
                           428 /* open_tree */,
                           429 /* move_mount */,
                           430 /* fsopen */,
                           435 /* clone3 */,
                           438 /* pidfd_getfd */,
                           442 /* mount_setattr */,
                           467 /* open_tree_attr */,
                           500 /* nobody's */}) {
    EXPECT_EQ(answer(absent), errno_of(ENOSYS)) << absent;
  }
  constexpr std::uint64_t kHigh = std::uint64_t{1} << 32;
  EXPECT_EQ(answer(220, {SIGCHLD}), SECCOMP_RET_ALLOW);  // clone
  EXPECT_EQ(answer(220, {kHigh | 0x10000000 | SIGCHLD}), errno_of(EPERM));
  EXPECT_EQ(answer(198, {2, 1, 0}), SECCOMP_RET_ALLOW);  // socket
  EXPECT_EQ(answer(198, {kHigh | 38, 5, 0}), errno_of(EAFNOSUPPORT));
  EXPECT_EQ(answer(198, {2, 5, 132}), errno_of(EPROTONOSUPPORT));
  EXPECT_EQ(answer(208, {3, kHigh | 6, kHigh | 31}), errno_of(ENOPROTOOPT));  // setsockopt
  EXPECT_EQ(answer(29, {0, kHigh | 0x5412}), errno_of(EPERM));                // ioctl
  EXPECT_EQ(answer(76), errno_of(EINVAL));                                    // splice
  EXPECT_EQ(answer(277, {1, kHigh | 8}), errno_of(EPERM));                    // seccomp
  EXPECT_EQ(answer(122), errno_of(0));                                        // sched_setaffinity
  EXPECT_EQ(answer(-1), errno_of(ENOSYS));
  for (const std::uint32_t arch : std::array<std::uint32_t, 3>{AUDIT_ARCH_ARM, AUDIT_ARCH_X86_64, AUDIT_ARCH_I386}) {
    EXPECT_EQ(ask(program, 56, {}, arch), SECCOMP_RET_KILL_PROCESS) << arch;
  }
}

// --- stacks ---

// `action` for getppid(2), and nothing else.
Program about_getppid(std::uint32_t action) {
  return {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
          {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_getppid},
          {BPF_RET | BPF_K, 0, 0, action},
          {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
}

// What getppid(2) comes to in a process with these filters: 0 for an answer, an errno, or 128 and a signal.
int kernel_says(const std::vector<Program>& programs) {
  return test::in_child([&] {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 119;
    for (const Program& program : programs) {
      if (test::report(load_seccomp({program, 0, false})) != 0) return 118;
    }
    errno = 0;
    return syscall(SYS_getppid) >= 0 ? 0 : errno;
  });
}

int expected_of(std::uint32_t result) {
  switch (result & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_KILL_PROCESS:
    case SECCOMP_RET_KILL_THREAD:
    case SECCOMP_RET_TRAP:
      return 128 + SIGSYS;
    case SECCOMP_RET_ERRNO:
      return static_cast<int>(result & SECCOMP_RET_DATA);
    case SECCOMP_RET_USER_NOTIF:
    case SECCOMP_RET_TRACE:
      return ENOSYS;  // nobody listens, nobody traces
    default:
      return 0;
  }
}

TEST(SeccompOracle, TheKernelStacksAsWeThink) {
  const std::vector<std::uint32_t> actions = {
      SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_TRAP,  errno_of(5),     errno_of(7),
      SECCOMP_RET_USER_NOTIF,   SECCOMP_RET_TRACE, SECCOMP_RET_LOG, SECCOMP_RET_ALLOW};
  seccomp_data data{};
  data.nr = SYS_getppid;
  data.arch = test::kNative;
  for (const std::uint32_t first : actions) {
    for (const std::uint32_t last : actions) {
      const std::vector<Program> programs = {about_getppid(first), about_getppid(last)};
      EXPECT_EQ(kernel_says(programs), expected_of(test::run_stack(programs, data)))
          << std::hex << "first " << first << " last " << last;
    }
  }
}

// The config's answer for a call (row) under ours (column), in both orders: what a container meets.
TEST(SeccompOracle, TheConfigsProfileUnderOurs) {
  const auto strict = builtin_seccomp("strict")->at(0).instructions;
  const auto meets = [&](const char* action, std::optional<std::uint32_t> code, const char* call, SeccompOrder order) {
    oci::Seccomp profile;
    profile.default_action = "SCMP_ACT_ALLOW";
    profile.listener_path = "/agent";
    profile.syscalls = {{{call}, action, code, {}}};
    std::vector<Program> programs;
    for (const auto& program : stack_seccomp(order, {*compile_seccomp(profile)}, *builtin_seccomp("strict"))) {
      programs.push_back(program.instructions);
    }
    seccomp_data data{};
    data.nr = seccomp_syscall_resolve_name(call);
    data.arch = test::kNative;
    return test::run_stack(programs, data);
  };
  for (const SeccompOrder order : {SeccompOrder::config_first, SeccompOrder::ours_first}) {
    // Ours allows: the config's counts, with its errno and its agent.
    EXPECT_EQ(meets("SCMP_ACT_ERRNO", 28, "mkdirat", order), errno_of(28));
    EXPECT_EQ(meets("SCMP_ACT_NOTIFY", {}, "mkdirat", order), SECCOMP_RET_USER_NOTIF);
    EXPECT_EQ(meets("SCMP_ACT_TRAP", {}, "mkdirat", order), SECCOMP_RET_TRAP);
    EXPECT_EQ(meets("SCMP_ACT_LOG", {}, "mkdirat", order), SECCOMP_RET_LOG);
    EXPECT_EQ(meets("SCMP_ACT_KILL_PROCESS", {}, "mkdirat", order), SECCOMP_RET_KILL_PROCESS);
    // Ours denies: no agent is asked, nobody traces; who kills, kills.
    EXPECT_EQ(meets("SCMP_ACT_NOTIFY", {}, "mount", order), errno_of(ENOSYS));
    EXPECT_EQ(meets("SCMP_ACT_TRACE", 1, "mount", order), errno_of(ENOSYS));
    EXPECT_EQ(meets("SCMP_ACT_LOG", {}, "mount", order), errno_of(ENOSYS));
    EXPECT_EQ(meets("SCMP_ACT_ALLOW", {}, "mount", order), errno_of(ENOSYS));
    EXPECT_EQ(meets("SCMP_ACT_KILL_PROCESS", {}, "mount", order), SECCOMP_RET_KILL_PROCESS);
  }
  // Both deny by errno: the last loaded one's.
  EXPECT_EQ(meets("SCMP_ACT_ERRNO", 28, "mount", SeccompOrder::config_first), errno_of(ENOSYS));
  EXPECT_EQ(meets("SCMP_ACT_ERRNO", 28, "mount", SeccompOrder::ours_first), errno_of(28));
}

// --- one program in the place of a stack ---

// A profile as engines write them, but for what it says.
oci::Seccomp generated_profile(std::mt19937_64& engine) {
  static const std::vector<std::string> names = {"read",   "socket", "ioctl",      "mount",   "mkdirat", "clone",
                                                 "sendto", "bpf",    "setsockopt", "unshare", "splice",  "seccomp"};
  static const std::vector<std::string> mild = {"SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", "SCMP_ACT_LOG", "SCMP_ACT_TRACE",
                                                "SCMP_ACT_NOTIFY"};
  oci::Seccomp profile;
  profile.default_action = mild[engine() % 4];
  profile.listener_path = "/agent";
  if (engine() % 2 == 0) profile.architectures = {"SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"};
  if (engine() % 2 == 0) profile.flags = {"SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"};
  for (const std::string& name : names) {
    if (engine() % 3 == 0) continue;
    oci::SeccompRule rule;
    rule.names = {name};
    rule.action = mild[engine() % mild.size()];
    if (rule.action == "SCMP_ACT_ERRNO") rule.errno_ret = engine() % 40;
    if (engine() % 2 == 0) rule.args = {{static_cast<unsigned>(engine() % 3), engine() % 3, 0, "SCMP_CMP_EQ"}};
    profile.syscalls.push_back(rule);
  }
  return profile;
}

TEST(SeccompOracle, OneProgramDecidesAsTheStack) {
  const std::vector<std::uint64_t> values = interesting_values();
  // As the additions of an administrator: calls with an errno, all else allowed.
  SeccompProgram additions;
  additions.instructions =
      *assemble({SECCOMP_RET_ALLOW, {{static_cast<std::uint32_t>(SYS_getppid), {{{}, errno_of(77)}}}}}, kNativeCallAbi);
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937_64 engine(seed);
    std::vector<SeccompProgram> stack;
    if (seed % 10 != 0) stack.push_back(*compile_seccomp(generated_profile(engine)));
    stack.push_back(builtin_seccomp("strict")->at(0));
    if (seed % 2 == 0) stack.push_back(additions);
    const auto merged = merge_seccomp(stack);
    ASSERT_TRUE(merged);
    EXPECT_EQ(merged->listener, stack[0].listener);
    EXPECT_EQ(merged->flags, stack[0].flags);
    std::vector<Program> programs;
    for (const auto& program : stack) programs.push_back(program.instructions);
    for (int i = 0; i < 20000; ++i) {
      seccomp_data data{};
      data.nr = static_cast<int>(engine() % 480);
      if (engine() % 50 == 0) data.nr = static_cast<int>(engine());
      data.arch = test::kNative;
      if (engine() % 20 == 0) data.arch = AUDIT_ARCH_I386;
      if (engine() % 50 == 0) data.arch = static_cast<std::uint32_t>(engine());
      for (auto& argument : data.args) {
        argument = values[engine() % values.size()];
        if (engine() % 4 == 0) argument |= engine() << 32;
      }
      const std::uint32_t one = test::run_bpf(merged->instructions, data), all = test::run_stack(programs, data);
      ASSERT_EQ(one, all) << "seed " << seed << " call " << data.nr << " arch " << std::hex << data.arch;
    }
  }
}

TEST(SeccompOracle, WhatIsNotMadeOneProgram) {
  const SeccompProgram ours = builtin_seccomp("strict")->at(0);
  SeccompProgram config;
  config.instructions = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  EXPECT_TRUE(merge_seccomp({config, ours}));
  EXPECT_TRUE(merge_seccomp({ours}));
  EXPECT_FALSE(merge_seccomp({}));
  config.flags = SECCOMP_FILTER_FLAG_LOG;
  EXPECT_FALSE(merge_seccomp({config, ours}));
  config.flags = 0;
  config.listener = true;
  EXPECT_TRUE(merge_seccomp({config, ours}));
  EXPECT_FALSE(merge_seccomp({ours, config}));  // the listener would be asked in the name of another program
  config.instructions.insert(config.instructions.begin(), BPF_MAXINSNS - 1, {BPF_LD | BPF_IMM, 0, 0, 1});
  EXPECT_FALSE(merge_seccomp({config, ours}));
}

}  // namespace
}  // namespace agentrun::sandbox
