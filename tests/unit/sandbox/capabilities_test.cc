#include "sandbox/capabilities.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <sstream>
#include <string>

#include "forked.h"
#include "sandbox/identity.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

constexpr std::uint64_t kChown = 1u << 0, kKill = 1u << 5, kNetBind = 1u << 10;

// CapInh, CapPrm, CapEff, CapBnd, CapAmb of this process, as the kernel says.
std::map<std::string, std::uint64_t> status() {
  std::map<std::string, std::uint64_t> sets;
  std::istringstream text(*sys::read_file("/proc/self/status"));
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("Cap")) sets[line.substr(0, 6)] = std::stoull(line.substr(8), nullptr, 16);
  }
  return sets;
}

int expect_sets(std::uint64_t inheritable, std::uint64_t permitted, std::uint64_t effective, std::uint64_t bounding,
                std::uint64_t ambient) {
  auto now = status();
  const std::map<std::string, std::uint64_t> wanted = {
      {"CapInh", inheritable}, {"CapPrm", permitted}, {"CapEff", effective}, {"CapBnd", bounding}, {"CapAmb", ambient}};
  if (now == wanted) return 0;
  for (const auto& [name, mask] : now)
    std::fprintf(stderr, "%s %llx\n", name.c_str(), static_cast<unsigned long long>(mask));
  return 2;
}

int apply(const CapabilitySets& sets, std::uint32_t uid) {
  oci::User user;
  user.uid = user.gid = uid;
  return test::report(limit_bounding(sets)) + test::report(keep_over_setuid()) + test::report(set_user(user)) +
         test::report(set_capabilities(sets));
}

class CapabilitiesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "root is missing";
  }
};

TEST(Capabilities, NamesBecomeBits) {
  oci::Capabilities names;
  names.bounding = {"CAP_CHOWN", "CAP_KILL", "CAP_CHECKPOINT_RESTORE"};
  const auto sets = resolve_capabilities(names);
  ASSERT_TRUE(sets.has_value());
  EXPECT_EQ(sets->bounding, kChown | kKill | (std::uint64_t{1} << 40));
  EXPECT_EQ(sets->permitted, 0u);
}

TEST(Capabilities, UnknownNamesAreRefused) {
  for (const char* name : {"CAP_NOTHING", "cap_chown", "5", "CAP_5", "", "CHOWN"}) {
    oci::Capabilities names;
    names.bounding = {name};
    const auto sets = resolve_capabilities(names);
    ASSERT_FALSE(sets.has_value()) << name;
    EXPECT_EQ(sets.error().reason, "unknown");
  }
}

TEST(Capabilities, WhatCannotBeGrantedIsLeftOut) {
  oci::Capabilities names;
  names.permitted = {"CAP_KILL"};
  names.effective = {"CAP_KILL", "CAP_CHOWN"};
  names.inheritable = {"CAP_CHOWN"};
  names.ambient = {"CAP_KILL", "CAP_CHOWN"};
  const auto sets = resolve_capabilities(names);
  ASSERT_TRUE(sets.has_value());
  EXPECT_EQ(sets->effective, kKill);
  EXPECT_EQ(sets->ambient, 0u);
}

TEST_F(CapabilitiesTest, AllFiveSetsAsAskedForAsAnotherUser) {
  EXPECT_EQ(0, test::in_child([] {
              CapabilitySets sets;
              sets.bounding = kChown | kKill | kNetBind;
              sets.permitted = kChown | kKill;
              sets.effective = kChown;
              sets.inheritable = kKill | kNetBind;
              sets.ambient = kKill;
              const int failed = apply(sets, 1000);
              return failed != 0 ? failed : expect_sets(sets.inheritable, sets.permitted, kChown, sets.bounding, kKill);
            }));
}

TEST_F(CapabilitiesTest, NoneIsNoneForRootToo) {
  EXPECT_EQ(0, test::in_child([] {
              const int failed = apply({}, 0);
              return failed != 0 ? failed : expect_sets(0, 0, 0, 0, 0);
            }));
}

TEST_F(CapabilitiesTest, NoneSurvivesAnExec) {
  EXPECT_EQ(0, test::in_child([] {
              if (const int failed = apply({}, 0); failed != 0) return failed;
              execl("/bin/sh", "sh", "-c", "grep -q 'CapEff:.0000000000000000' /proc/self/status", nullptr);
              return 3;
            }));
}

TEST_F(CapabilitiesTest, WhatThisProcessHasNotIsNotGiven) {
  EXPECT_EQ(0, test::in_child([] {
              CapabilitySets fewer;
              fewer.bounding = fewer.permitted = fewer.effective = kChown;
              CapabilitySets more;
              more.bounding = more.permitted = more.effective = more.inheritable = kChown | kKill;
              if (const int failed = apply(fewer, 0) + test::report(set_capabilities(more)); failed != 0) return failed;
              return expect_sets(kChown, kChown, kChown, kChown, 0);
            }));
}

}  // namespace
}  // namespace agentrun::sandbox
