// The assembler of our own filters: its programs against a reader of the rules that knows nothing of BPF.
#include "sandbox/seccomp_rules.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <random>
#include <string>

#include "bpf.h"

namespace agentrun::sandbox {
namespace {

using test::ask;
using test::errno_of;

constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr std::uint64_t kHigh = std::uint64_t{1} << 32;
using Arguments = std::array<std::uint64_t, 6>;

std::uint32_t arch_of(CallAbi abi) { return abi == CallAbi::x86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64; }

bool holds(const ArgumentTest& test, const Arguments& arguments) {
  const auto bits = static_cast<std::uint32_t>(arguments.at(test.argument)) & test.mask;
  if (test.any_bit) return bits != 0;
  for (const std::uint32_t value : test.values) {
    if (bits == value) return true;
  }
  return false;
}

std::uint32_t decide(const CallRules& rules, std::uint32_t number, const Arguments& arguments) {
  const auto found = rules.calls.find(number);
  if (found == rules.calls.end()) return rules.otherwise;
  for (const CallRule& rule : found->second) {
    bool all = true;
    for (const ArgumentTest& test : rule.tests) all = all && holds(test, arguments);
    if (all) return rule.action;
  }
  return rules.otherwise;
}

std::string refused(const CallRules& rules) {
  const auto program = assemble(rules, CallAbi::x86_64);
  return program ? "" : program.error().message();
}

TEST(SeccompRules, TheFirstThatMatchesDecidesAndElseTheDefault) {
  CallRules rules{kAllow, {}};
  rules.calls[5] = {{{{0, UINT32_MAX, false, {1}}}, errno_of(1)}, {{{0, UINT32_MAX, false, {1, 2}}}, errno_of(2)}};
  const auto program = *assemble(rules, kNativeCallAbi);
  EXPECT_EQ(ask(program, 5, {1}), errno_of(1));
  EXPECT_EQ(ask(program, 5, {2}), errno_of(2));
  EXPECT_EQ(ask(program, 5, {3}), kAllow);
  EXPECT_EQ(ask(program, 5, {kHigh | 2}), errno_of(2));
  EXPECT_EQ(ask(program, 4, {1}), kAllow);
  EXPECT_EQ(ask(program, 6, {1}), kAllow);
}

TEST(SeccompRules, OtherAbisAreKilled) {
  for (const CallAbi abi : {CallAbi::x86_64, CallAbi::aarch64}) {
    const auto program = *assemble({kAllow, {}}, abi);
    EXPECT_EQ(ask(program, 1, {}, arch_of(abi)), kAllow);
    for (const std::uint32_t arch :
         std::array<std::uint32_t, 4>{AUDIT_ARCH_X86_64, AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64, AUDIT_ARCH_ARM}) {
      if (arch == arch_of(abi)) continue;
      EXPECT_EQ(ask(program, 1, {}, arch), SECCOMP_RET_KILL_PROCESS) << arch;
    }
  }
  const auto program = *assemble({kAllow, {}}, CallAbi::x86_64);
  EXPECT_EQ(ask(program, 0x40000001, {}, AUDIT_ARCH_X86_64), SECCOMP_RET_KILL_PROCESS);  // x32
  EXPECT_EQ(ask(program, -1, {}, AUDIT_ARCH_X86_64), kAllow);                            // nobody's call
}

TEST(SeccompRules, RulesThatCannotBe) {
  const auto with = [](ArgumentTest test) {
    CallRules rules{kAllow, {}};
    rules.calls[1] = {{{std::move(test)}, errno_of(1)}};
    return refused(rules);
  };
  EXPECT_NE(with({6, UINT32_MAX, false, {1}}), "");
  EXPECT_NE(with({0, 0, false, {0}}), "");
  EXPECT_NE(with({0, 0, true, {}}), "");
  EXPECT_NE(with({0, 0xff, false, {0x100}}), "");
  EXPECT_NE(with({0, UINT32_MAX, false, {}}), "");
  EXPECT_NE(with({0, UINT32_MAX, true, {1}}), "");
  EXPECT_NE(with({0, UINT32_MAX, false, std::vector<std::uint32_t>(300, 1)}), "");
  EXPECT_EQ(with({0, UINT32_MAX, false, std::vector<std::uint32_t>(250, 1)}), "");
  CallRules rules{kAllow, {}};
  rules.calls[0x40000000] = {{{}, errno_of(1)}};
  EXPECT_NE(refused(rules), "");
  rules.calls.clear();
  for (std::uint32_t i = 0; i < 3000; ++i) rules.calls[i] = {{{}, errno_of(static_cast<int>(i % 2))}};
  EXPECT_NE(refused(rules).find("more than the kernel takes"), std::string::npos);
}

TEST(SeccompRules, Names) {
  EXPECT_EQ(**call_number("openat", CallAbi::x86_64), 257u);
  EXPECT_EQ(**call_number("openat", CallAbi::aarch64), 56u);
  EXPECT_EQ(**call_number("mseal", CallAbi::aarch64), 462u);
  EXPECT_EQ(**call_number("470", CallAbi::aarch64), 470u);
  EXPECT_FALSE(*call_number("open", CallAbi::aarch64));
  EXPECT_FALSE(*call_number("socketcall", CallAbi::x86_64));
  EXPECT_FALSE(call_number("opennat", CallAbi::x86_64));
  EXPECT_FALSE(call_number("1073741824", CallAbi::x86_64));
  EXPECT_FALSE(call_number("", CallAbi::x86_64));
  EXPECT_EQ(errno_action("ENOSYS"), errno_of(ENOSYS));
  EXPECT_FALSE(errno_action("allow") || errno_action("ENOTHING") || errno_action(""));
  EXPECT_EQ(parse_call_value("0x7e020000"), 0x7e020000u);
  EXPECT_EQ(parse_call_value("0200"), 128u);
  EXPECT_EQ(parse_call_value("0"), 0u);
  for (const char* bad : {"", "0x", "-1", "4294967296", "0x100000000", "1 ", " 1", "08", "1e3", "0x-1"}) {
    EXPECT_FALSE(parse_call_value(bad)) << bad;
  }
}

// Small numbers, so that rules meet arguments and calls meet calls.
class Generator {
 public:
  explicit Generator(unsigned seed) : engine_(seed) {}
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(engine_() % limit); }

  CallRules rules() {
    CallRules rules{below(2) == 0 ? kAllow : errno_of(ENOSYS), {}};
    for (std::uint32_t i = below(60); i > 0; --i) {
      std::vector<CallRule> list(1 + below(4));
      for (CallRule& rule : list) rule = this->rule();
      rules.calls[below(3) == 0 ? below(470) : below(40)] = std::move(list);
    }
    return rules;
  }

  Arguments arguments() {
    Arguments arguments{};
    for (auto& argument : arguments) {
      argument = below(8);
      if (below(3) == 0) argument |= kHigh;
      if (below(5) == 0) argument |= std::uint64_t{0xffffffff} << 32;
      if (below(9) == 0) argument |= 0x80000000u;
    }
    return arguments;
  }

 private:
  CallRule rule() {
    CallRule rule{{}, below(3) == 0 ? kAllow : errno_of(static_cast<int>(below(40)))};
    for (std::uint32_t i = below(4); i > 0; --i) {
      ArgumentTest test{below(6), below(2) == 0 ? UINT32_MAX : 1 + below(15), below(3) == 0, {}};
      if (!test.any_bit) {
        for (std::uint32_t j = 1 + below(4); j > 0; --j) test.values.push_back(below(8) & test.mask);
      }
      rule.tests.push_back(std::move(test));
    }
    return rule;
  }

  std::mt19937 engine_;
};

TEST(SeccompRules, GeneratedProgramsDecideAsTheirRules) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    Generator generator(seed);
    const CallRules rules = generator.rules();
    const CallAbi abi = seed % 2 == 0 ? CallAbi::x86_64 : CallAbi::aarch64;
    const auto program = assemble(rules, abi);
    ASSERT_TRUE(program) << program.error().message();
    for (std::uint32_t number = 0; number < 480; ++number) {
      for (int i = 0; i < (rules.calls.contains(number) ? 40 : 1); ++i) {
        const Arguments arguments = generator.arguments();
        ASSERT_EQ(ask(*program, number, arguments, arch_of(abi)), decide(rules, number, arguments))
            << "seed " << seed << " call " << number;
      }
    }
  }
}

}  // namespace
}  // namespace agentrun::sandbox
