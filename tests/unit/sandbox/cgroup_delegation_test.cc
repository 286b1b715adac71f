#include "sandbox/cgroup_delegation.h"

#include <gtest/gtest.h>

namespace agentrun::sandbox {
namespace {

bool everywhere(const std::string&) { return true; }
bool nowhere(const std::string&) { return false; }
bool only_the_scope(const std::string& directory) { return directory == "/cg/user.slice/run-1.scope"; }

TEST(CgroupDelegation, BesideOurOwnCgroupWhereItsParentIsOurs) {
  EXPECT_EQ(delegated_path("/cg", "/a/shell", "box", everywhere), "/a/agentrun/box");
}

TEST(CgroupDelegation, NeverBesideAUnitInASlice) {
  EXPECT_EQ(delegated_path("/cg", "/user.slice/run-1.scope", "box", everywhere),
            "/user.slice/run-1.scope/agentrun/box");
}

TEST(CgroupDelegation, InOurOwnWhereTheParentIsNot) {
  EXPECT_EQ(delegated_path("/cg", "/user.slice/run-1.scope", "box", only_the_scope),
            "/user.slice/run-1.scope/agentrun/box");
  EXPECT_EQ(delegated_path("/cg", "/a", "box", everywhere), "/a/agentrun/box");  // not in the root of the hierarchy
}

TEST(CgroupDelegation, NowhereWithoutDelegation) {
  EXPECT_FALSE(delegated_path("/cg", "/a/shell", "box", nowhere));
  EXPECT_FALSE(delegated_path("/cg", "/", "box", everywhere));
  EXPECT_FALSE(delegated_path("/cg", "", "box", everywhere));
}

TEST(CgroupDelegation, NearestDirectoryIsOneThatIsThere) {
  EXPECT_EQ(nearest_directory("/proc/self/no/such"), "/proc/self");
  EXPECT_EQ(nearest_directory("/no-such-directory/at/all"), "/");
}

}  // namespace
}  // namespace agentrun::sandbox
