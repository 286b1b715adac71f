#include "sandbox/seccomp.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <seccomp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bpf.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

using test::ask;
using test::errno_of;

oci::Seccomp profile(const std::string& default_action, std::vector<oci::SeccompRule> rules = {}) {
  oci::Seccomp seccomp;
  seccomp.default_action = default_action;
  seccomp.syscalls = std::move(rules);
  return seccomp;
}

std::uint32_t verdict(const oci::Seccomp& seccomp, long number, const std::array<std::uint64_t, 6>& arguments = {}) {
  const auto program = compile_seccomp(seccomp);
  if (!program) {
    ADD_FAILURE() << program.error().message();
    return 0;
  }
  return ask(program->instructions, number, arguments);
}

std::string refused(const oci::Seccomp& seccomp) {
  const auto program = compile_seccomp(seccomp);
  return program ? "" : program.error().message();
}

TEST(Seccomp, Actions) {
  const std::vector<std::pair<std::string, std::uint32_t>> actions = {
      {"SCMP_ACT_KILL", SECCOMP_RET_KILL_THREAD},
      {"SCMP_ACT_KILL_THREAD", SECCOMP_RET_KILL_THREAD},
      {"SCMP_ACT_KILL_PROCESS", SECCOMP_RET_KILL_PROCESS},
      {"SCMP_ACT_TRAP", SECCOMP_RET_TRAP},
      {"SCMP_ACT_ERRNO", errno_of(EPERM)},
      {"SCMP_ACT_TRACE", SECCOMP_RET_TRACE | EPERM},
      {"SCMP_ACT_LOG", SECCOMP_RET_LOG}};
  for (const auto& [name, expected] : actions) {
    EXPECT_EQ(verdict(profile("SCMP_ACT_ALLOW", {{{"getpid"}, name, {}, {}}}), SYS_getpid), expected) << name;
    EXPECT_EQ(verdict(profile(name, {{{"getpid"}, "SCMP_ACT_ALLOW", {}, {}}}), SYS_getppid), expected) << name;
    EXPECT_EQ(verdict(profile(name, {{{"getpid"}, "SCMP_ACT_ALLOW", {}, {}}}), SYS_getpid), SECCOMP_RET_ALLOW) << name;
  }
  EXPECT_EQ(refused(profile("SCMP_ACT_NOTHING")), "seccomp action SCMP_ACT_NOTHING: unknown");
}

TEST(Seccomp, ErrnoOfTheRuleAndOfTheDefault) {
  auto seccomp =
      profile("SCMP_ACT_ERRNO", {{{"getpid"}, "SCMP_ACT_ERRNO", 7, {}}, {{"getuid"}, "SCMP_ACT_TRACE", 9, {}}});
  seccomp.default_errno_ret = 38;
  EXPECT_EQ(verdict(seccomp, SYS_getpid), errno_of(7));
  EXPECT_EQ(verdict(seccomp, SYS_getuid), SECCOMP_RET_TRACE | 9u);
  EXPECT_EQ(verdict(seccomp, SYS_getppid), errno_of(38));
  EXPECT_EQ(refused(profile("SCMP_ACT_ALLOW", {{{"getpid"}, "SCMP_ACT_KILL", 1, {}}})),
            "seccomp action SCMP_ACT_KILL: takes no errnoRet");
  EXPECT_NE(refused(profile("SCMP_ACT_ALLOW", {{{"getpid"}, "SCMP_ACT_ERRNO", 65536, {}}})), "");
}

TEST(Seccomp, Operators) {
  const auto rule = [](const char* op, std::uint64_t value, std::uint64_t two = 0) {
    return profile("SCMP_ACT_ALLOW", {{{"kill"}, "SCMP_ACT_ERRNO", 1, {{0, value, two, op}}}});
  };
  const auto denied = [](const oci::Seccomp& seccomp, std::uint64_t argument) {
    return verdict(seccomp, SYS_kill, {argument}) == errno_of(1);
  };
  EXPECT_TRUE(denied(rule("SCMP_CMP_EQ", 5), 5) && !denied(rule("SCMP_CMP_EQ", 5), 6));
  EXPECT_TRUE(denied(rule("SCMP_CMP_NE", 5), 6) && !denied(rule("SCMP_CMP_NE", 5), 5));
  EXPECT_TRUE(denied(rule("SCMP_CMP_LT", 5), 4) && !denied(rule("SCMP_CMP_LT", 5), 5));
  EXPECT_TRUE(denied(rule("SCMP_CMP_LE", 5), 5) && !denied(rule("SCMP_CMP_LE", 5), 6));
  EXPECT_TRUE(denied(rule("SCMP_CMP_GE", 5), 5) && !denied(rule("SCMP_CMP_GE", 5), 4));
  EXPECT_TRUE(denied(rule("SCMP_CMP_GT", 5), 6) && !denied(rule("SCMP_CMP_GT", 5), 5));
  EXPECT_TRUE(denied(rule("SCMP_CMP_MASKED_EQ", 0xf0, 0x10), 0x1f) &&
              !denied(rule("SCMP_CMP_MASKED_EQ", 0xf0, 0x10), 0x2f));
  EXPECT_TRUE(denied(rule("SCMP_CMP_EQ", 0x100000005), 0x100000005) && !denied(rule("SCMP_CMP_EQ", 0x100000005), 5));
  EXPECT_EQ(refused(rule("SCMP_CMP_XX", 1)), "seccomp operator SCMP_CMP_XX: unknown");
  EXPECT_NE(refused(profile("SCMP_ACT_ALLOW", {{{"kill"}, "SCMP_ACT_ERRNO", {}, {{6, 0, 0, "SCMP_CMP_EQ"}}}})), "");
}

TEST(Seccomp, SeveralConditionsAreAllOrOfOneArgumentAny) {
  const auto both = profile("SCMP_ACT_ALLOW",
                            {{{"kill"}, "SCMP_ACT_ERRNO", 1, {{0, 1, 0, "SCMP_CMP_EQ"}, {1, 2, 0, "SCMP_CMP_EQ"}}}});
  EXPECT_EQ(verdict(both, SYS_kill, {1, 2}), errno_of(1));
  EXPECT_EQ(verdict(both, SYS_kill, {1, 3}), SECCOMP_RET_ALLOW);
  const auto any = profile("SCMP_ACT_ALLOW",
                           {{{"kill"}, "SCMP_ACT_ERRNO", 1, {{0, 1, 0, "SCMP_CMP_EQ"}, {0, 2, 0, "SCMP_CMP_EQ"}}}});
  EXPECT_EQ(verdict(any, SYS_kill, {1}), errno_of(1));
  EXPECT_EQ(verdict(any, SYS_kill, {2}), errno_of(1));
  EXPECT_EQ(verdict(any, SYS_kill, {3}), SECCOMP_RET_ALLOW);
}

TEST(Seccomp, NamesOfOtherKernelsAreSkippedAndRulesThatSayNothing) {
  const auto seccomp = profile("SCMP_ACT_ERRNO", {{{"no_such_call", "getpid"}, "SCMP_ACT_ALLOW", {}, {}},
                                                  {{"getuid"}, "SCMP_ACT_ERRNO", EPERM, {}}});
  EXPECT_EQ(verdict(seccomp, SYS_getpid), SECCOMP_RET_ALLOW);
  EXPECT_EQ(verdict(seccomp, SYS_getuid), errno_of(EPERM));
}

TEST(Seccomp, Architectures) {
  auto seccomp = profile("SCMP_ACT_ALLOW", {{{"getpid"}, "SCMP_ACT_ERRNO", 5, {}}});
  EXPECT_EQ(ask(compile_seccomp(seccomp)->instructions, 20, {}, AUDIT_ARCH_I386), SECCOMP_RET_KILL_THREAD);
  if (seccomp_arch_native() != SCMP_ARCH_X86_64) GTEST_SKIP() << "x86-64 is missing";
  seccomp.architectures = {"SCMP_ARCH_X86", "SCMP_ARCH_X86_64", "SCMP_ARCH_X32"};
  const auto program = compile_seccomp(seccomp);
  ASSERT_TRUE(program.has_value());
  EXPECT_EQ(ask(program->instructions, 20, {}, AUDIT_ARCH_I386), errno_of(5));  // getpid there
  EXPECT_EQ(ask(program->instructions, SYS_getpid), errno_of(5));
  EXPECT_EQ(ask(program->instructions, 0x40000000 + SYS_getpid), errno_of(5));
  seccomp.architectures = {"SCMP_ARCH_VAX"};
  EXPECT_EQ(refused(seccomp), "seccomp architecture SCMP_ARCH_VAX: unknown");
}

TEST(Seccomp, Flags) {
  auto seccomp = profile("SCMP_ACT_ALLOW");
  seccomp.flags = {"SECCOMP_FILTER_FLAG_TSYNC", "SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_SPEC_ALLOW",
                   "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"};
  EXPECT_EQ(compile_seccomp(seccomp)->flags, 2u | 4u);
  seccomp.syscalls = {{{"mkdir"}, "SCMP_ACT_NOTIFY", {}, {}}};
  seccomp.listener_path = "/run/agent.sock";
  EXPECT_EQ(compile_seccomp(seccomp)->flags, 2u | 4u | 32u);
  seccomp.flags = {"SECCOMP_FILTER_FLAG_NEW_LISTENER"};
  EXPECT_EQ(refused(seccomp), "seccomp flag SECCOMP_FILTER_FLAG_NEW_LISTENER: unknown");
}

TEST(Seccomp, Notify) {
  auto seccomp = profile("SCMP_ACT_ALLOW", {{{"mkdirat"}, "SCMP_ACT_NOTIFY", {}, {}}});
  EXPECT_NE(refused(seccomp), "");  // nobody would listen
  seccomp.listener_path = "/run/agent.sock";
  EXPECT_TRUE(compile_seccomp(seccomp)->listener);
  EXPECT_EQ(verdict(seccomp, SYS_mkdirat), SECCOMP_RET_USER_NOTIF);
  seccomp.syscalls[0].names = {"mkdirat", "write"};
  EXPECT_EQ(refused(seccomp), "seccomp: SCMP_ACT_NOTIFY cannot be used for the write syscall");
  EXPECT_NE(refused(profile("SCMP_ACT_NOTIFY")), "");
}

// --- the order of two filters ---

SeccompProgram named(std::uint32_t mark, bool listener = false) {
  SeccompProgram program;
  program.instructions = {{BPF_RET | BPF_K, 0, 0, mark}};
  program.listener = listener;
  return program;
}

TEST(Seccomp, StackOrders) {
  const auto order = [](const SeccompSides& sides, auto config, auto ours) {
    std::vector<std::uint32_t> marks;
    const auto found = seccomp_order(sides);
    if (!found) return marks;
    for (const auto& program : stack_seccomp(*found, config, ours)) marks.push_back(program.instructions[0].k);
    return marks;
  };
  using Programs = std::vector<SeccompProgram>;
  using Marks = std::vector<std::uint32_t>;
  const Programs config{named(1)}, listening{named(1, true)}, ours{named(2), named(3)};
  EXPECT_EQ(order({false, false, false}, config, ours), (Marks{1, 2, 3}));
  EXPECT_EQ(order({false, true, false}, listening, ours), (Marks{1, 2, 3}));
  EXPECT_EQ(order({true, false, false}, config, ours), (Marks{2, 3, 1}));
  EXPECT_EQ(order({false, false, false}, Programs{}, ours), (Marks{2, 3}));
  EXPECT_EQ(order({false, false, true}, config, ours), (Marks{1, 2, 3}));
  EXPECT_EQ(order({false, true, true}, listening, ours), (Marks{1, 2, 3}));
  // Neither order: no filter is left out in silence.
  EXPECT_EQ(order({true, true, false}, listening, ours), Marks{});
  EXPECT_EQ(order({true, false, true}, config, ours), Marks{});
  EXPECT_NE(seccomp_order({true, true, false}).error().message().find("listener"), std::string::npos);
  EXPECT_NE(seccomp_order({true, false, true}).error().message().find("addition"), std::string::npos);
}

TEST(Seccomp, WhetherAProfileLetsOursBeLoaded) {
  using Rules = std::vector<oci::SeccompRule>;
  const auto denies = [](const char* action, Rules rules) {
    return denies_seccomp_call(profile(action, std::move(rules)));
  };
  EXPECT_FALSE(denies("SCMP_ACT_ALLOW", {}));
  EXPECT_TRUE(denies("SCMP_ACT_ERRNO", {}));
  EXPECT_FALSE(denies("SCMP_ACT_ERRNO", {{{"read", "seccomp"}, "SCMP_ACT_ALLOW", {}, {}}}));
  EXPECT_TRUE(denies("SCMP_ACT_ALLOW", {{{"seccomp"}, "SCMP_ACT_ERRNO", {}, {}}}));
  EXPECT_TRUE(denies("SCMP_ACT_ALLOW", {{{"seccomp"}, "SCMP_ACT_NOTIFY", {}, {}}}));
  // By arguments: GET_ACTION_AVAIL is 2, SET_MODE_FILTER is 1, our flags are 0.
  EXPECT_TRUE(denies("SCMP_ACT_ERRNO", {{{"seccomp"}, "SCMP_ACT_ALLOW", {}, {{0, 2, 0, "SCMP_CMP_EQ"}}}}));
  EXPECT_FALSE(denies("SCMP_ACT_ERRNO", {{{"seccomp"}, "SCMP_ACT_ALLOW", {}, {{0, 1, 0, "SCMP_CMP_EQ"}}}}));
  EXPECT_TRUE(denies("SCMP_ACT_ERRNO", {{{"seccomp"}, "SCMP_ACT_ALLOW", {}, {{2, 0, 0, "SCMP_CMP_EQ"}}}}));
  EXPECT_FALSE(denies("SCMP_ACT_ALLOW", {{{"seccomp"}, "SCMP_ACT_ERRNO", {}, {{1, 8, 8, "SCMP_CMP_MASKED_EQ"}}}}));
  EXPECT_TRUE(denies("SCMP_ACT_ALLOW", {{{"seccomp"}, "SCMP_ACT_ERRNO", {}, {{0, 0, 0, "SCMP_CMP_GT"}}}}));
}

// --- the cache ---

class SeccompCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "agentrun-cache-XXXXXX";
    ASSERT_NE(mkdtemp(path_.data()), nullptr);
    directory_ = *sys::open(path_, O_RDONLY | O_DIRECTORY);
  }
  void TearDown() override {
    const auto parent = sys::open(testing::TempDir(), O_PATH | O_DIRECTORY);
    ASSERT_TRUE(sys::remove_tree_at(parent->get(), path_.substr(testing::TempDir().size())));
  }
  std::vector<std::string> names() { return *sys::list_directory(directory_.get(), "."); }
  std::vector<sock_filter> instructions(const oci::Seccomp& seccomp) {
    return cached_seccomp(seccomp, directory_.get())->instructions;
  }

  std::string path_;
  UniqueFd directory_;
};

bool same(const std::vector<sock_filter>& left, const std::vector<sock_filter>& right) {
  return left.size() == right.size() && std::memcmp(left.data(), right.data(), left.size() * sizeof(sock_filter)) == 0;
}

TEST_F(SeccompCacheTest, TheSecondTimeItIsRead) {
  auto seccomp = profile("SCMP_ACT_ERRNO", {{{"getpid", "mkdir"}, "SCMP_ACT_NOTIFY", {}, {}}});
  seccomp.flags = {"SECCOMP_FILTER_FLAG_LOG"};
  seccomp.listener_path = "/x";
  const auto compiled = compile_seccomp(seccomp);
  ASSERT_TRUE(same(instructions(seccomp), compiled->instructions));
  ASSERT_EQ(names().size(), 1u);
  struct stat before {
  }, after{};
  fstatat(directory_.get(), names()[0].c_str(), &before, 0);
  const auto again = cached_seccomp(seccomp, directory_.get());
  EXPECT_TRUE(same(again->instructions, compiled->instructions));
  EXPECT_EQ(again->flags, compiled->flags);
  EXPECT_TRUE(again->listener);
  fstatat(directory_.get(), names()[0].c_str(), &after, 0);
  EXPECT_EQ(before.st_ino, after.st_ino);  // not written again
  EXPECT_EQ(after.st_mode & 07777, 0600u);
}

// crun's key left out errnoRet, and joined strings without their lengths: one profile got the filter of another.
TEST_F(SeccompCacheTest, EveryFieldIsInTheKey) {
  const auto base = profile("SCMP_ACT_ERRNO", {{{"getpid", "kill"}, "SCMP_ACT_ERRNO", 7, {{0, 1, 2, "SCMP_CMP_EQ"}}}});
  std::vector<oci::Seccomp> others(11, base);
  others[0].default_errno_ret = 2;
  others[1].syscalls[0].errno_ret = 8;
  others[2].syscalls[0].errno_ret.reset();
  others[3].syscalls[0].names = {"getpid"};
  others[4].syscalls[0].args[0].index = 1;
  others[5].syscalls[0].args[0].value = 9;
  others[6].syscalls[0].args[0].value_two = 9;
  others[7].syscalls[0].args[0].op = "SCMP_CMP_NE";
  others[8].default_action = "SCMP_ACT_TRAP";
  others[9].flags = {"SECCOMP_FILTER_FLAG_LOG"};
  others[10].syscalls.push_back({{"mkdir"}, "SCMP_ACT_ALLOW", {}, {}});
  instructions(base);
  for (std::size_t i = 0; i < others.size(); ++i) {
    instructions(others[i]);
    EXPECT_EQ(names().size(), i + 2) << i;
  }
  auto split = base;
  split.syscalls[0].names = {"getpidkill"};
  instructions(split);
  EXPECT_EQ(names().size(), others.size() + 2);
}

TEST_F(SeccompCacheTest, ADamagedEntryIsNotBelieved) {
  const auto seccomp = profile("SCMP_ACT_ERRNO", {{{"getpid"}, "SCMP_ACT_ALLOW", {}, {}}});
  const auto good = instructions(seccomp);
  const std::string name = names().at(0);
  const std::string content = *sys::read_file_at(directory_.get(), name);
  for (std::size_t i = 0; i < content.size(); i += 5) {
    std::string changed = content;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    ASSERT_TRUE(sys::replace_file_at(directory_.get(), name, changed, 0600));
    ASSERT_TRUE(same(instructions(seccomp), good)) << "byte " << i;
  }
  for (const std::string& changed : {std::string(), content.substr(0, content.size() - 1), content + "x"}) {
    ASSERT_TRUE(sys::replace_file_at(directory_.get(), name, changed, 0600));
    EXPECT_TRUE(same(instructions(seccomp), good));
  }
  EXPECT_EQ(*sys::read_file_at(directory_.get(), name), content);  // and mended
}

TEST_F(SeccompCacheTest, AnEntryOfAnotherProfileIsNotBelieved) {
  const auto strict = profile("SCMP_ACT_ERRNO");
  instructions(profile("SCMP_ACT_ALLOW"));
  const std::string open_name = names().at(0);
  const auto good = instructions(strict);
  const auto both = names();
  const std::string strict_name = both[0] == open_name ? both[1] : both[0];
  ASSERT_EQ(renameat(directory_.get(), open_name.c_str(), directory_.get(), strict_name.c_str()), 0);
  EXPECT_TRUE(same(instructions(strict), good));
}

TEST_F(SeccompCacheTest, WhatOthersCouldHaveWrittenIsNotBelieved) {
  const auto seccomp = profile("SCMP_ACT_ERRNO");
  instructions(seccomp);
  const std::string name = names().at(0);
  ASSERT_EQ(fchmodat(directory_.get(), name.c_str(), 0666, 0), 0);
  instructions(seccomp);
  struct stat status {};
  ASSERT_EQ(fstatat(directory_.get(), name.c_str(), &status, 0), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);  // replaced by one of our own
  // A symlink to a good entry elsewhere is none either.
  ASSERT_EQ(renameat(directory_.get(), name.c_str(), directory_.get(), "elsewhere"), 0);
  ASSERT_EQ(symlinkat("elsewhere", directory_.get(), name.c_str()), 0);
  instructions(seccomp);
  ASSERT_EQ(fstatat(directory_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW), 0);
  EXPECT_TRUE(S_ISREG(status.st_mode));
}

TEST_F(SeccompCacheTest, ADirectoryOfOthersIsNotUsed) {
  ASSERT_EQ(fchmod(directory_.get(), 0777), 0);
  EXPECT_FALSE(instructions(profile("SCMP_ACT_ERRNO")).empty());
  EXPECT_TRUE(names().empty());
  EXPECT_TRUE(cached_seccomp(profile("SCMP_ACT_ERRNO"), -1).has_value());
}

TEST_F(SeccompCacheTest, TheNumberIsBounded) {
  const auto first = profile("SCMP_ACT_ERRNO", {{{"getpid"}, "SCMP_ACT_ERRNO", 1000, {}}});
  instructions(first);
  const std::string oldest = names().at(0);
  for (std::uint32_t i = 0; i < 70; ++i) {
    instructions(profile("SCMP_ACT_ERRNO", {{{"getpid"}, "SCMP_ACT_ERRNO", i + 2, {}}}));
  }
  EXPECT_EQ(names().size(), 64u);
  EXPECT_NE(faccessat(directory_.get(), oldest.c_str(), F_OK, 0), 0);
}

}  // namespace
}  // namespace agentrun::sandbox
