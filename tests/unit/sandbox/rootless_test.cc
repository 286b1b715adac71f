#include "sandbox/rootless.h"

#include <gtest/gtest.h>

namespace agentrun::sandbox {
namespace {

TEST(Rootless, RangesNameTheUserByNameOrNumber) {
  const auto ranges = subordinate_ranges("root:1:5\nann:100000:65536\n1000:300000:10\nanna:7:7\n", "ann", 1000);
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].start, 100000u);
  EXPECT_EQ(ranges[0].count, 65536u);
  EXPECT_EQ(ranges[1].start, 300000u);
  EXPECT_EQ(ranges[1].count, 10u);
}

TEST(Rootless, RangesThatAreNoneAreLeftOut) {
  for (const char* line : {"ann:1:0", "ann:-1:5", "ann:1", "ann:1:2:3", "ann:x:5", "ann:4294967295:1",
                           "ann:4294967290:100", "ann:18446744073709551615:1", "#ann:1:5", ":1:5"}) {
    EXPECT_TRUE(subordinate_ranges(line, "ann", 1000).empty()) << line;
  }
  // A user without a line in /etc/passwd is not everybody whose name is empty.
  EXPECT_TRUE(subordinate_ranges(":1:5\n", "", 1000).empty());
}

TEST(Rootless, MappingsBeginWithTheUserAndHaveNoGap) {
  const auto mappings = rootless_mappings(1000, {{100000, 1000}, {300000, 10}});
  ASSERT_EQ(mappings.size(), 3u);
  EXPECT_EQ(mappings[0].container_id, 0u);
  EXPECT_EQ(mappings[0].host_id, 1000u);
  EXPECT_EQ(mappings[0].size, 1u);
  EXPECT_EQ(mappings[1].container_id, 1u);
  EXPECT_EQ(mappings[1].size, 1000u);
  EXPECT_EQ(mappings[2].container_id, 1001u);
  EXPECT_EQ(mappings[2].host_id, 300000u);
}

TEST(Rootless, MappingsStayBelowTheLastId) {
  const auto mappings = rootless_mappings(1000, {{1, 4294967290u}, {5, 4294967290u}});
  ASSERT_EQ(mappings.size(), 3u);
  EXPECT_EQ(std::uint64_t{mappings[2].container_id} + mappings[2].size, 4294967295u);
  EXPECT_EQ(rootless_mappings(1000, std::vector<IdRange>(500, IdRange{1, 1})).size(), 340u);
}

TEST(Rootless, AnIdWithoutAMappingIsNamed) {
  oci::Linux linux_config;
  linux_config.uid_mappings = linux_config.gid_mappings = {{0, 1000, 1}, {1, 100000, 10}};
  oci::Process process;
  process.user.uid = 10;
  process.user.gid = 10;
  process.user.additional_gids = {0, 3};
  EXPECT_TRUE(check_ids_mapped(process, linux_config));
  process.user.additional_gids = {11};
  auto checked = check_ids_mapped(process, linux_config);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message().find("gid 11 is not mapped"), std::string::npos) << checked.error().message();
  process.user.uid = 4294967295u;
  checked = check_ids_mapped(process, linux_config);
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message().find("/process/user/uid"), std::string::npos) << checked.error().message();
}

}  // namespace
}  // namespace agentrun::sandbox
