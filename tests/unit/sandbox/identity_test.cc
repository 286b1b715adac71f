#include "sandbox/identity.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "forked.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

class IdentityTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "root is missing";
  }
};

TEST_F(IdentityTest, UserGroupsAndUmask) {
  EXPECT_EQ(0, test::in_child([] {
              oci::User user;
              user.uid = 1234;
              user.gid = 2345;
              user.additional_gids = {7, 5};
              const int failed = test::report(set_groups(user)) + test::report(set_user(user));
              set_umask(user);
              if (failed != 0) return failed;
              gid_t groups[3] = {};
              const bool right = getuid() == 1234 && geteuid() == 1234 && getgid() == 2345 && getegid() == 2345 &&
                                 getgroups(3, groups) == 2 && umask(0) == 0022;
              return right && setuid(0) != 0 ? 0 : 2;
            }));
}

// setresuid(-1) leaves the uid as it is: root.
TEST_F(IdentityTest, TheIdThatMeansUnchangedIsRefused) {
  EXPECT_EQ(0, test::in_child([] {
              oci::User user;
              user.uid = 4294967295u;
              if (set_user(user)) return 2;
              user.uid = 1000;
              user.gid = 4294967295u;
              if (set_user(user)) return 3;
              user.gid = 1000;
              user.additional_gids = {4294967295u};
              return set_groups(user) ? 4 : 0;
            }));
}

TEST_F(IdentityTest, GroupsInANamespaceThatDeniesSetgroups) {
  EXPECT_EQ(0, test::in_child([] {
              const gid_t inherited = 5;
              if (setgroups(1, &inherited) != 0 || unshare(CLONE_NEWUSER) != 0) return 119;
              if (!sys::write_file("/proc/self/setgroups", "deny") || !sys::write_file("/proc/self/uid_map", "0 0 1") ||
                  !sys::write_file("/proc/self/gid_map", "0 0 1")) {
                return 118;
              }
              oci::User user;
              if (const int failed = test::report(set_groups(user)); failed != 0) return failed;
              user.additional_gids = {1};
              const auto refused = set_groups(user);
              return !refused && refused.error().reason.find("denies setgroups") != std::string::npos ? 0 : 2;
            }));
}

TEST(Identity, RlimitsByName) {
  EXPECT_EQ(0, test::in_child([] {
              if (const int failed = test::report(set_rlimits({{"RLIMIT_NOFILE", 64, 32}, {"RLIMIT_CORE", 0, 0}}));
                  failed != 0) {
                return failed;
              }
              struct rlimit limit {};
              getrlimit(RLIMIT_NOFILE, &limit);
              return limit.rlim_cur == 32 && limit.rlim_max == 64 ? 0 : 2;
            }));
}

TEST(Identity, RlimitsThatAreNone) {
  EXPECT_EQ(set_rlimits({{"RLIMIT_NOTHING", 1, 1}}).error().message(), "rlimit RLIMIT_NOTHING: unknown");
  EXPECT_EQ(0, test::in_child([] {
              const auto twice = set_rlimits({{"RLIMIT_CORE", 0, 0}, {"RLIMIT_CORE", 0, 0}});
              const auto turned = set_rlimits({{"RLIMIT_NOFILE", 1, 2}});
              return !twice && !turned && turned.error().code == EINVAL ? 0 : 2;
            }));
}

TEST(Identity, OomScore) {
  EXPECT_EQ(0, test::in_child([] {
              if (const int failed = test::report(set_oom_score_adj(321)); failed != 0) return failed;
              return *sys::read_file("/proc/self/oom_score_adj") == "321\n" ? 0 : 2;
            }));
}

TEST(Identity, Schedulers) {
  EXPECT_EQ(0, test::in_child([] {
              oci::Scheduler batch;
              batch.policy = "SCHED_BATCH";
              batch.nice = 5;
              batch.flags = {"SCHED_FLAG_RESET_ON_FORK"};
              if (const int failed = test::report(set_scheduler(batch)); failed != 0) return failed;
              if (sched_getscheduler(0) != (SCHED_BATCH | SCHED_RESET_ON_FORK)) return 2;
              return getpriority(PRIO_PROCESS, 0) == 5 ? 0 : 3;
            }));
  oci::Scheduler unknown;
  unknown.policy = "SCHED_ISO";
  EXPECT_EQ(set_scheduler(unknown).error().message(), "scheduler policy SCHED_ISO: unknown");
}

TEST(Identity, IoPriority) {
  EXPECT_EQ(0, test::in_child([] {
              if (const int failed = test::report(set_io_priority({"IOPRIO_CLASS_BE", 6})); failed != 0) return failed;
              return syscall(SYS_ioprio_get, 1, 0) == ((2 << 13) | 6) ? 0 : 2;
            }));
  EXPECT_FALSE(set_io_priority({"IOPRIO_CLASS_BE", 8}));
  EXPECT_FALSE(set_io_priority({"IOPRIO_CLASS_NONE", 0}));
}

TEST(Identity, PersonalityHasNoFlags) {
  EXPECT_EQ(0, test::in_child([] { return test::report(set_personality({"LINUX32", {}})); }));
  EXPECT_FALSE(set_personality({"LINUX", {"ADDR_NO_RANDOMIZE"}}));
  EXPECT_FALSE(set_personality({"BSD", {}}));
}

TEST(Identity, MemoryPolicy) {
  EXPECT_EQ(0, test::in_child([] {
              const auto set = set_memory_policy({"MPOL_BIND", "0", {"MPOL_F_STATIC_NODES"}});
              if (!set && set.error().code == ENOSYS) return 0;  // a kernel without NUMA
              if (!set) return test::report(set);
              int mode = 0;
              return syscall(SYS_get_mempolicy, &mode, nullptr, 0, 0, 0) == 0 && (mode & 0xff) == 2 ? 0 : 2;
            }));
  EXPECT_TRUE(set_memory_policy({"MPOL_NONE", "", {}}).error().message().starts_with("invalid memory policy"));
  EXPECT_TRUE(set_memory_policy({"MPOL_BIND", "0-", {}}).error().message().starts_with("invalid memory policy"));
}

TEST(Identity, Affinity) {
  EXPECT_EQ(0, test::in_child([] {
              if (const int failed = test::report(set_affinity("0")); failed != 0) return failed;
              cpu_set_t set;
              sched_getaffinity(0, sizeof set, &set);
              return CPU_COUNT(&set) == 1 && CPU_ISSET(0, &set) ? 0 : 2;
            }));
}

TEST(Identity, NumberLists) {
  EXPECT_EQ(*parse_number_list("7,0-2,1", 8, "list"), (std::vector<unsigned>{0, 1, 2, 7}));
  for (const char* text : {"", ",", "1-", "-1", "2-1", "8", "0-4294967296", "a", "1 ", "0,,1"}) {
    EXPECT_FALSE(parse_number_list(text, 8, "list")) << text;
  }
}

}  // namespace
}  // namespace agentrun::sandbox
