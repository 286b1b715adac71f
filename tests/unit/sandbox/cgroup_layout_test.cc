#include "sandbox/cgroup_layout.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace agentrun::sandbox {
namespace {

constexpr char kHybridMounts[] =
    "23 1 0:22 / / rw - ext4 /dev/root rw\n"
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
constexpr char kHybridOwn[] = "4:memory:/a/b\n3:name=systemd:/\n2:cpu,cpuacct:/\n0::/x\n";

TEST(ParseLayout, Hybrid) {
  const CgroupLayout layout = parse_layout(kHybridMounts, kHybridOwn);
  ASSERT_TRUE(layout.v2);
  EXPECT_EQ(layout.v2->mount, "/sys/fs/cgroup/unified");
  EXPECT_EQ(layout.v2->own, "/x");
  ASSERT_EQ(layout.v1.size(), 3u);
  EXPECT_EQ(layout.v1[0].name, "cpu,cpuacct");
  EXPECT_EQ(layout.v1[0].mount, "/sys/fs/cgroup/cpu,cpuacct");
  EXPECT_EQ(layout.v1[1].own, "/a/b");
  EXPECT_EQ(layout.v1[2].name, "name=systemd");
  EXPECT_TRUE(layout.v1[2].controllers.empty());
  EXPECT_FALSE(layout.unified());
  ASSERT_NE(layout.v1_with("cpuacct"), nullptr);
  EXPECT_EQ(layout.v1_with("cpuacct")->mount, "/sys/fs/cgroup/cpu,cpuacct");
  EXPECT_EQ(layout.v1_with("pids"), nullptr);
}

TEST(ParseLayout, V2AloneAlsoBesideANameOnlyHierarchy) {
  const char* mounts =
      "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
      "42 31 0:39 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";
  EXPECT_TRUE(parse_layout(mounts, "1:name=systemd:/\n0::/\n").unified());
}

TEST(ParseLayout, AMountOfAPartShowsOurOwnCgroupOnlyInside) {
  const char* mounts = "41 31 0:38 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(parse_layout(mounts, "0::/docker/1/app\n").v2->own, "/app");
  EXPECT_EQ(parse_layout(mounts, "0::/docker/1\n").v2->own, "/");
  EXPECT_EQ(parse_layout(mounts, "0::/docker/12\n").v2->own, "");
}

TEST(ParseLayout, TheFirstMountCountsAndACoveredOneDoesNot) {
  const char* mounts =
      "41 31 0:38 / /mnt/one\\040two rw - cgroup2 cgroup2 rw\n"
      "42 31 0:38 / /mnt/three rw - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(parse_layout(mounts, "0::/\n").v2->mount, "/mnt/one two");
  const auto visible = [](const Hierarchy& place) { return place.mount == "/mnt/three"; };
  EXPECT_EQ(parse_layout(mounts, "0::/\n", visible).v2->mount, "/mnt/three");
}

TEST(ParseLayout, NothingOfNonsense) {
  for (const char* mounts :
       {"", "cgroup2", "1 2 3 4 5 6 7 8 9", "41 31 0:38 / /x rw - cgroup2", "41 31 x / /x rw - cgroup2 a b"}) {
    const CgroupLayout layout = parse_layout(mounts, "0::/\n:\n::\n");
    EXPECT_FALSE(layout.v2) << mounts;
    EXPECT_TRUE(layout.v1.empty()) << mounts;
  }
}

TEST(CgroupfsPath, CleansAndRefuses) {
  EXPECT_EQ(*cgroupfs_path("", "abc"), "/agentrun/abc");
  EXPECT_EQ(*cgroupfs_path("/a//b/", "x"), "/a/b");
  EXPECT_EQ(*cgroupfs_path("a/b", "x"), "/a/b");
  for (const char* bad : {"/", "//", "/a/..", "../a", "/a/./b", "/a/../../b"}) {
    EXPECT_FALSE(cgroupfs_path(bad, "x")) << bad;
  }
  EXPECT_FALSE(cgroupfs_path("/" + std::string(256, 'a'), "x"));
}

TEST(MissingParents, TopmostFirstAndOnlyBelowTheMount) {
  char place[] = "/tmp/agentrun-layout-XXXXXX";
  ASSERT_NE(mkdtemp(place), nullptr);
  const std::string mount = place;
  ASSERT_EQ(mkdir((mount + "/a").c_str(), 0700), 0);
  EXPECT_EQ(missing_parents(mount, mount + "/a/b/c/d"), (std::vector<std::string>{mount + "/a/b", mount + "/a/b/c"}));
  EXPECT_TRUE(missing_parents(mount, mount + "/x").empty());
  rmdir((mount + "/a").c_str());
  rmdir(place);
}

}  // namespace
}  // namespace agentrun::sandbox
