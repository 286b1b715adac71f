#include "sandbox/cgroup_limits.h"

#include <gtest/gtest.h>

namespace agentrun::sandbox {
namespace {

TEST(WeightOfShares, MeetsTheThreeFixedPointsAndGrows) {
  EXPECT_EQ(weight_of_shares(0), 0u);
  EXPECT_EQ(weight_of_shares(2), 1u);
  EXPECT_EQ(weight_of_shares(1024), 100u);
  EXPECT_EQ(weight_of_shares(262144), 10000u);
  EXPECT_EQ(weight_of_shares(1), 1u);
  EXPECT_EQ(weight_of_shares(UINT64_MAX), 10000u);
  EXPECT_EQ(weight_of_shares(3333), 256u);
  std::uint64_t last = 0;
  for (std::uint64_t shares = 2; shares <= 262144; shares += 97) {
    EXPECT_GE(weight_of_shares(shares), last);
    last = weight_of_shares(shares);
  }
}

TEST(IoWeight, IsLinear) {
  EXPECT_EQ(io_weight_of_blkio(10), 1u);
  EXPECT_EQ(io_weight_of_blkio(750), 7475u);
  EXPECT_EQ(io_weight_of_blkio(1000), 10000u);
  EXPECT_EQ(io_weight_of_blkio(9), 0u);
  EXPECT_EQ(io_weight_of_blkio(1001), 0u);
}

TEST(SwapOnV2, TakesTheMemoryOff) {
  EXPECT_EQ(**swap_on_v2(300, 100), 200);
  EXPECT_EQ(**swap_on_v2(100, 100), 0);
  EXPECT_EQ(**swap_on_v2(-1, 100), -1);
  EXPECT_EQ(**swap_on_v2(0, 100), 0);
  EXPECT_EQ(**swap_on_v2(300, -1), 300);
  EXPECT_EQ(**swap_on_v2(std::nullopt, -1), -1);
  EXPECT_FALSE(*swap_on_v2(std::nullopt, 100));
  EXPECT_FALSE(swap_on_v2(99, 100));
  EXPECT_FALSE(swap_on_v2(99, std::nullopt));
}

TEST(PidsMax, ZeroIsNotUnlimited) {
  EXPECT_EQ(pids_max(0), "1");
  EXPECT_EQ(pids_max(-1), "max");
  EXPECT_EQ(pids_max(12), "12");
}

TEST(AskedControllers, OnlyWhatIsSet) {
  oci::Resources resources;
  EXPECT_TRUE(asked_controllers(resources).empty());
  resources.memory.emplace();
  resources.cpu.emplace();
  resources.cpu->shares = 0;
  resources.cpu->quota = 0;
  resources.block_io.emplace();
  resources.network.emplace();
  resources.memory->check_before_update = true;
  resources.memory->disable_oom_killer = false;
  EXPECT_TRUE(asked_controllers(resources).empty());
  resources.memory->limit = 1;
  resources.cpu->mems = "0";
  resources.pids_limit = -1;
  resources.unified["hugetlb.2MB.max"] = "1";
  resources.unified["cgroup.max.depth"] = "1";
  resources.network->class_id = 1;
  resources.block_io->read_bps.push_back({8, 0, 1});
  EXPECT_EQ(asked_controllers(resources),
            (std::set<std::string>{"memory", "cpuset", "pids", "hugetlb", "net_cls", "io"}));
}

TEST(CheckNames, UnifiedKeysCannotLeaveTheLimits) {
  for (const char* good : {"memory.max", "io.max", "cgroup.max.depth", "hugetlb.2MB.max"}) {
    oci::Resources resources;
    resources.unified[good] = "1";
    EXPECT_TRUE(check_names(resources)) << good;
  }
  for (const char* bad : {"cgroup.procs", "cgroup.threads", "cgroup.subtree_control", "cgroup.kill", "cgroup.freeze",
                          "cgroup.type", "../memory.max", "a/b.max", "memory", ".max", "", "memory.max\n", "a b.c"}) {
    oci::Resources resources;
    resources.unified[bad] = "1";
    EXPECT_FALSE(check_names(resources)) << bad;
  }
}

TEST(CheckNames, NamesThatBecomeFilesAndLines) {
  for (const char* bad : {"2MB/../../x", "0MB", "MB", "2mb", "2 MB", "02MB", "2TB"}) {
    oci::Resources resources;
    resources.hugepage_limits.push_back({bad, 1});
    EXPECT_FALSE(check_names(resources)) << bad;
  }
  oci::Resources resources;
  resources.hugepage_limits.push_back({"2MB", 1});
  resources.rdma["mlx5_1"] = {1, 2};
  EXPECT_TRUE(check_names(resources));
  resources.rdma["mlx5 hca_handle=max\nother"] = {1, 2};
  EXPECT_FALSE(check_names(resources));
}

TEST(CpuMask, IsLittleEndian) {
  EXPECT_EQ(*cpu_mask("0-3,7"), (std::vector<std::uint8_t>{0x8f}));
  EXPECT_EQ(*cpu_mask("8,0"), (std::vector<std::uint8_t>{1, 1}));
  EXPECT_EQ(*cpu_mask(" 1 , 2-2\n"), (std::vector<std::uint8_t>{6}));
  for (const char* bad : {"", "a", "3-1", "1-", "-1", "0,,1", "9999999", "1-2-3"}) EXPECT_FALSE(cpu_mask(bad)) << bad;
}

}  // namespace
}  // namespace agentrun::sandbox
