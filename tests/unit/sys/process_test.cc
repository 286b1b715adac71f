#include "sys/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace agentrun::sys {
namespace {

TEST(ParseSignal, TakesNumbersAndNames) {
  EXPECT_EQ(parse_signal("9"), SIGKILL);
  EXPECT_EQ(parse_signal("KILL"), SIGKILL);
  EXPECT_EQ(parse_signal("sigterm"), SIGTERM);
  EXPECT_EQ(parse_signal("SIGRTMIN+1"), SIGRTMIN + 1);
  EXPECT_EQ(parse_signal("RTMAX"), SIGRTMAX);
  EXPECT_EQ(parse_signal("0"), 0);
  for (const char* bad : {"", "65", "-1", "SIGFOO", "RTMIN+31", "RTMIN-1", "KILL "}) {
    EXPECT_FALSE(parse_signal(bad)) << bad;
  }
}

TEST(OpenProcess, KnowsALaterProcessOfThePid) {
  const pid_t pid = fork();
  if (pid == 0) {
    pause();
    _exit(0);
  }
  ProcessId id{pid, *start_time(pid), *boot_id()};
  EXPECT_TRUE(open_process(id)->valid());
  ProcessId later = id;
  later.start_time += 1;
  EXPECT_FALSE(open_process(later)->valid());
  ProcessId other_boot = id;
  other_boot.boot_id = "0";
  EXPECT_FALSE(open_process(other_boot)->valid());
  UniqueFd pidfd = *open_process(id);
  EXPECT_FALSE(*wait_for_end(pidfd.get(), 1000));
  ASSERT_TRUE(pidfd_send_signal(pidfd.get(), SIGKILL).has_value());
  EXPECT_TRUE(*wait_for_end(pidfd.get(), 5'000'000));
  EXPECT_TRUE(process_is_zombie(pid));
  EXPECT_EQ(wait_process(pid)->code(), 128 + SIGKILL);
  EXPECT_FALSE(open_process(id)->valid());
}

TEST(CloneProcess, GivesAPidfd) {
  auto cloned = clone_process(0);
  ASSERT_TRUE(cloned.has_value());
  if (cloned->pid == 0) _exit(7);
  EXPECT_TRUE(*wait_for_end(cloned->pidfd.get(), 5'000'000));
  EXPECT_EQ(wait_process(cloned->pid)->code(), 7);
}

}  // namespace
}  // namespace agentrun::sys
