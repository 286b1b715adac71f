#include "sandbox/cgroup_devices.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>

namespace agentrun::sandbox {
namespace {

using oci::DeviceRule;

constexpr unsigned kMknod = BPF_DEVCG_ACC_MKNOD, kRead = BPF_DEVCG_ACC_READ, kWrite = BPF_DEVCG_ACC_WRITE;

struct Access {
  char type;
  unsigned bits, major, minor;
};

// Runs the few instructions that the program is made of. -1: it did something else.
int run(const std::vector<bpf_insn>& code, const Access& access) {
  const unsigned type = access.type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR;
  const std::array<std::uint32_t, 3> context = {access.bits << 16 | type, access.major, access.minor};
  std::array<std::uint64_t, 11> reg{};
  for (std::size_t at = 0; at < code.size(); ++at) {
    const bpf_insn& i = code[at];
    const auto word = static_cast<std::uint32_t>(i.imm);
    const auto low = static_cast<std::uint32_t>(reg[i.dst_reg]);
    switch (i.code) {
      case BPF_LDX | BPF_MEM | BPF_W:
        reg[i.dst_reg] = context.at(static_cast<std::size_t>(i.off) / 4);
        break;
      case BPF_ALU | BPF_MOV | BPF_X:
        reg[i.dst_reg] = static_cast<std::uint32_t>(reg[i.src_reg]);
        break;
      case BPF_ALU | BPF_RSH | BPF_K:
        reg[i.dst_reg] = low >> word;
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        reg[i.dst_reg] = low & word;
        break;
      case BPF_ALU64 | BPF_MOV | BPF_K:
        reg[i.dst_reg] = static_cast<std::uint64_t>(static_cast<std::int64_t>(i.imm));
        break;
      case BPF_JMP32 | BPF_JNE | BPF_K:
        if (low != word) at += static_cast<std::size_t>(i.off);
        break;
      case BPF_JMP32 | BPF_JEQ | BPF_K:
        if (low == word) at += static_cast<std::size_t>(i.off);
        break;
      case BPF_JMP | BPF_EXIT:
        return static_cast<int>(reg[0]);
      default:
        return -1;
    }
  }
  return -1;
}

unsigned bits_of(const std::string& access) {
  unsigned bits = 0;
  for (const char c : access) bits |= c == 'r' ? kRead : c == 'w' ? kWrite : kMknod;
  return bits;
}

bool matches(const DeviceRule& rule, const Access& access) {
  return (rule.type == 'a' || rule.type == access.type) && (!rule.major || *rule.major == access.major) &&
         (!rule.minor || *rule.minor == access.minor);
}

// The rule in words: each access on its own, the last rule that names it decides.
bool expected(const std::vector<DeviceRule>& complete, const Access& access) {
  for (const unsigned bit : {kMknod, kRead, kWrite}) {
    if ((access.bits & bit) == 0) continue;
    bool allowed = false;
    for (const DeviceRule& rule : complete) {
      if (matches(rule, access) && (bits_of(rule.access) & bit) != 0) allowed = rule.allow;
    }
    if (!allowed) return false;
  }
  return true;
}

bool allowed(const std::vector<DeviceRule>& rules, const Access& access) {
  return run(*device_program(*complete_rules(rules)), access) == 1;
}

const DeviceRule kDenyAll{false, 'a', {}, {}, "rwm"};
const DeviceRule kAllowAll{true, 'a', {}, {}, "rwm"};

TEST(DeviceProgram, NoRulesAllowTheStandardNodesOnly) {
  EXPECT_TRUE(allowed({}, {'c', kRead | kWrite, 1, 3}));
  EXPECT_TRUE(allowed({}, {'c', kRead | kWrite, 136, 17}));
  EXPECT_TRUE(allowed({}, {'b', kMknod, 8, 0}));
  EXPECT_FALSE(allowed({}, {'b', kRead, 8, 0}));
  EXPECT_FALSE(allowed({}, {'c', kRead, 1, 1}));
  EXPECT_FALSE(allowed({}, {'c', kRead, 10, 229}));
  EXPECT_FALSE(allowed({}, {'b', kRead, 1, 3}));
}

TEST(DeviceProgram, TheLastWordCounts) {
  EXPECT_TRUE(allowed({kDenyAll, kAllowAll}, {'b', kRead | kWrite | kMknod, 8, 0}));
  EXPECT_FALSE(allowed({kAllowAll, kDenyAll}, {'b', kRead, 8, 0}));
  EXPECT_FALSE(allowed({kAllowAll, {false, 'b', 8, {}, "w"}}, {'b', kWrite, 8, 3}));
  EXPECT_TRUE(allowed({kAllowAll, {false, 'b', 8, {}, "w"}}, {'b', kRead, 8, 3}));
}

// The usual way of matching lets O_RDWR through where only w is denied.
TEST(DeviceProgram, ADeniedWriteIsDeniedInAReadAndWriteOpenToo) {
  EXPECT_FALSE(allowed({kAllowAll, {false, 'b', 8, 0, "w"}}, {'b', kRead | kWrite, 8, 0}));
}

TEST(DeviceProgram, AccessesMayComeFromSeveralRules) {
  const std::vector<DeviceRule> rules = {{true, 'c', 10, 229, "r"}, {true, 'c', 10, 229, "w"}};
  EXPECT_TRUE(allowed(rules, {'c', kRead | kWrite, 10, 229}));
  EXPECT_FALSE(allowed(rules, {'c', kRead | kWrite, 10, 228}));
}

TEST(DeviceProgram, AgreesWithTheRuleInWords) {
  std::mt19937 random(7);
  const auto pick = [&](unsigned most) { return static_cast<unsigned>(random() % (most + 1)); };
  const auto number = [&]() -> std::optional<std::int64_t> {
    const unsigned value = pick(3);
    return value == 3 ? std::nullopt : std::optional<std::int64_t>(value);
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<DeviceRule> rules;
    for (unsigned count = pick(8); count > 0; --count) {
      std::string access;
      for (const char c : {'r', 'w', 'm'}) {
        if (pick(1) == 1) access += c;
      }
      rules.push_back({pick(1) == 1, "abc"[pick(2)], number(), number(), access.empty() ? "rwm" : access});
    }
    const auto complete = *complete_rules(rules);
    const auto code = *device_program(complete);
    for (int probe = 0; probe < 20; ++probe) {
      const Access access{"bc"[pick(1)], 1 + pick(6), pick(3), pick(3)};
      ASSERT_EQ(run(code, access), expected(complete, access) ? 1 : 0);
    }
  }
}

TEST(CompleteRules, RefusesNonsense) {
  EXPECT_FALSE(complete_rules({{true, 'x', {}, {}, "r"}}));
  EXPECT_FALSE(complete_rules({{true, 'c', {}, {}, "rx"}}));
  EXPECT_FALSE(complete_rules({{true, 'c', -2, {}, "r"}}));
  EXPECT_FALSE(complete_rules({{true, 'c', 1, std::int64_t{1} << 40, "r"}}));
  EXPECT_FALSE(complete_rules(std::vector<DeviceRule>(1025, kDenyAll)));
}

std::vector<std::string> lines(const std::vector<DeviceRule>& rules) {
  std::vector<std::string> result;
  for (const DeviceWrite& write : *device_writes(*complete_rules(rules))) {
    result.push_back((write.allow ? "+" : "-") + write.line);
  }
  return result;
}

TEST(DeviceWrites, BeginByDenyingEverything) {
  const std::vector<std::string> written = lines({kDenyAll, {true, 'c', 10, 229, "rw"}, {true, 'a', {}, {}, "r"}});
  ASSERT_GE(written.size(), 4u);
  EXPECT_EQ(written[0], "-a");
  EXPECT_EQ(written[1], "+c 10:229 rw");
  EXPECT_EQ(written[2], "+c *:* r");
  EXPECT_EQ(written[3], "+b *:* r");
  EXPECT_EQ(written.back(), "+c 136:* rwm");
}

TEST(DeviceWrites, AllowingEverythingEndsIt) {
  EXPECT_EQ(lines({kDenyAll, {true, 'c', 1, 1, "r"}, kAllowAll}), (std::vector<std::string>{"+a"}));
  EXPECT_EQ(lines({kAllowAll, {false, 'b', 8, {}, "w"}}), (std::vector<std::string>{"+a", "-b 8:* w"}));
}

TEST(DeviceWrites, AnExceptionOfTheSameNumbersIsTakenBack) {
  const std::vector<std::string> written = lines({{true, 'c', 10, 229, "rw"}, {false, 'c', 10, 229, "w"}});
  EXPECT_EQ(written[2], "-c 10:229 w");
}

TEST(DeviceWrites, WhatV1CannotSayIsAnErrorAndNotAHole) {
  EXPECT_FALSE(device_writes(*complete_rules({{true, 'b', 8, {}, "rw"}, {false, 'b', 8, 0, "w"}})));
  EXPECT_FALSE(device_writes(*complete_rules({kAllowAll, {false, 'b', 8, {}, "rw"}, {true, 'b', 8, 0, "r"}})));
  // Denying what was never allowed takes nothing back.
  EXPECT_TRUE(device_writes(*complete_rules({{true, 'b', 8, {}, "r"}, {false, 'b', 9, 0, "r"}})));
}

}  // namespace
}  // namespace agentrun::sandbox
