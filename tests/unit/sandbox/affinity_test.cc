#include "sandbox/affinity.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace agentrun::sandbox {
namespace {

using Cpus = std::vector<unsigned>;

TEST(Affinity, IsSetAndCopied) {
  const Cpus all = *cpus_of(0);
  ASSERT_FALSE(all.empty());
  const pid_t narrow = fork();
  if (narrow == 0) _exit(pause());
  const pid_t other = fork();
  if (other == 0) _exit(pause());
  const Cpus one = {all.back()};
  EXPECT_TRUE(set_cpus_of(narrow, one).has_value());
  EXPECT_EQ(*cpus_of(narrow), one);
  EXPECT_TRUE(copy_affinity(narrow, other).has_value());
  EXPECT_EQ(*cpus_of(other), one);
  for (const pid_t pid : {narrow, other}) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

TEST(Affinity, TheLeastUsedAreChosen) {
  EXPECT_EQ(least_used({0, 1, 2, 3}, 1, {{0, 2}, {1, 1}, {2, 3}, {3, 2}}, 0), (Cpus{1}));
  EXPECT_EQ(least_used({0, 1, 2, 3}, 2, {{0, 2}, {1, 1}, {2, 3}}, 0), (Cpus{1, 3}));
  EXPECT_EQ(least_used({4, 6}, 1, {{0, 9}, {4, 1}}, 0), (Cpus{6})) << "only of the mask";
}

TEST(Affinity, BetweenEqualsTheTurnGoesRound) {
  EXPECT_EQ(least_used({0, 1, 2}, 1, {}, 0), (Cpus{1}));
  EXPECT_EQ(least_used({0, 1, 2}, 1, {}, 1), (Cpus{2}));
  EXPECT_EQ(least_used({0, 1, 2}, 1, {}, 2), (Cpus{0}));
  EXPECT_EQ(least_used({0, 1, 2}, 2, {}, 1), (Cpus{0, 2}));
}

TEST(Affinity, NeverMoreThanAllowed) { EXPECT_EQ(least_used({1, 5}, 9, {}, 77), (Cpus{1, 5})); }

}  // namespace
}  // namespace agentrun::sandbox
