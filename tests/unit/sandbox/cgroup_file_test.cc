#include "sandbox/cgroup_file.h"

#include <gtest/gtest.h>

namespace agentrun::sandbox {
namespace {

using Lines = std::vector<std::string>;

TEST(LinesToRestore, OneValueIsWrittenAsItWas) {
  EXPECT_EQ(lines_to_restore("memory.max", "67108864\n", "1"), Lines{"67108864\n"});
  EXPECT_EQ(lines_to_restore("cpu.max", "max 100000\n", "1 2"), Lines{"max 100000\n"});
  EXPECT_EQ(lines_to_restore("cpuset.cpus", "\n", "0"), Lines{"\n"});  // empties it again
}

TEST(LinesToRestore, OnlyTheLineOfTheDevice) {
  EXPECT_EQ(lines_to_restore("io.max", "8:0 rbps=1 wbps=max riops=max wiops=max\n8:16 rbps=2\n", "8:0 rbps=7"),
            Lines{"8:0 rbps=1 wbps=max riops=max wiops=max"});
  EXPECT_EQ(lines_to_restore("io.weight", "default 100\n8:0 50\n", "default 200"), Lines{"default 100"});
}

TEST(LinesToRestore, ADeviceWithoutALineGetsItsLimitLifted) {
  EXPECT_EQ(lines_to_restore("io.max", "8:16 rbps=2\n", "8:0 rbps=7"),
            Lines{"8:0 rbps=max wbps=max riops=max wiops=max"});
  EXPECT_EQ(lines_to_restore("blkio.throttle.read_bps_device", "", "8:0 1024"), Lines{"8:0 0"});
}

TEST(LinesToRestore, TheOomSwitchOfV1ReadsOtherwiseThanItIsWritten) {
  EXPECT_EQ(lines_to_restore("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "1"), Lines{"0"});
}

}  // namespace
}  // namespace agentrun::sandbox
