#include "sandbox/affinity.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace agentrun::sandbox {
namespace {

int cpus_of(pid_t pid) {
  cpu_set_t set;
  return sched_getaffinity(pid, sizeof set, &set) == 0 ? CPU_COUNT(&set) : -1;
}

TEST(Affinity, IsCutToTheWidthAndCopied) {
  if (cpus_of(0) < 2) GTEST_SKIP() << "one CPU";
  const pid_t narrow = fork();
  if (narrow == 0) _exit(pause());
  const pid_t other = fork();
  if (other == 0) _exit(pause());
  EXPECT_TRUE(narrow_affinity(narrow, 1).has_value());
  EXPECT_EQ(cpus_of(narrow), 1);
  EXPECT_TRUE(copy_affinity(narrow, other).has_value());
  EXPECT_EQ(cpus_of(other), 1);
  for (const pid_t pid : {narrow, other}) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

TEST(Affinity, IsNeverWidened) {
  const int before = cpus_of(0);
  EXPECT_TRUE(narrow_affinity(getpid(), 100'000).has_value());
  EXPECT_TRUE(narrow_affinity(getpid(), 0).has_value());
  EXPECT_EQ(cpus_of(0), before);
}

}  // namespace
}  // namespace agentrun::sandbox
