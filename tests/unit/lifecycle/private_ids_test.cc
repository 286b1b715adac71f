#include "lifecycle/private_ids.h"

#include <gtest/gtest.h>

namespace agentrun::lifecycle {
namespace {

using policy::PrivateIds;

TEST(PrivateIds, TheFirstFreeRange) {
  const std::vector<sandbox::IdRange> ranges = {{1'000'000, 3 * 65'536}};
  std::vector<PrivateIds> taken;
  for (std::uint32_t n = 0; n < 3; ++n) {
    const auto ids = choose_private_ids(ranges, ranges, taken);
    ASSERT_TRUE(ids);
    EXPECT_EQ(ids->uid, 1'000'000 + n * 65'536);
    EXPECT_EQ(ids->gid, ids->uid);
    taken.push_back(*ids);
  }
  EXPECT_FALSE(choose_private_ids(ranges, ranges, taken));
  taken.erase(taken.begin() + 1);
  EXPECT_EQ(choose_private_ids(ranges, ranges, taken)->uid, 1'000'000u + 65'536);
}

TEST(PrivateIds, NeverMeetWhateverTheLinesSay) {
  // Lines that overlap, and lines that were changed while a container has its range.
  const std::vector<sandbox::IdRange> uids = {{1'000'000, 65'536}, {1'030'000, 140'000}};
  const std::vector<sandbox::IdRange> gids = {{5'000'000, 10 * 65'536}};
  std::vector<PrivateIds> taken = {{1'000'001, 5'000'000, 65'536}};
  while (const auto ids = choose_private_ids(uids, gids, taken)) {
    for (const auto& other : taken) {
      EXPECT_TRUE(ids->uid + ids->size <= other.uid || other.uid + other.size <= ids->uid);
      EXPECT_TRUE(ids->gid + ids->size <= other.gid || other.gid + other.size <= ids->gid);
    }
    taken.push_back(*ids);
  }
  EXPECT_EQ(taken.size(), 2u);
}

TEST(PrivateIds, TheHostsOwnIdsAreNoRange) {
  EXPECT_FALSE(choose_private_ids({{0, 100'000}}, {{1'000'000, 65'536}}, {}));
  EXPECT_EQ(choose_private_ids({{0, 200'000}}, {{1'000'000, 65'536}}, {})->uid, 65'536u);
  EXPECT_FALSE(choose_private_ids({{1'000'000, 65'535}}, {{1'000'000, 65'536}}, {}));
  EXPECT_FALSE(choose_private_ids({}, {}, {}));
}

TEST(PrivateIds, AtTheEndOfAllIds) {
  const std::vector<sandbox::IdRange> last = {{4'294'900'000, 67'000}};
  EXPECT_EQ(choose_private_ids(last, last, {})->uid, 4'294'900'000u);
}

TEST(PrivateIds, AreNobodyElses) {
  EXPECT_EQ(shared_with("agentrun:1500000000:262144\nalice:1500000000:65536\n"), "alice");
  EXPECT_EQ(shared_with("alice:1500262143:1\nagentrun:1500000000:262144\n"), "alice");
  EXPECT_EQ(shared_with("1000:1499999999:2\nagentrun:1500000000:262144\n"), "1000");
  EXPECT_EQ(shared_with("alice:1500262144:65536\nbob:1499999999:1\nagentrun:1500000000:262144\n"), "");
  EXPECT_EQ(shared_with("agentrun:1500000000:65536\nagentrun:1500000000:65536\n"), "");
}

TEST(PrivateIds, TheLineToAddMeetsNoOther) {
  EXPECT_EQ(line_to_add("", ""), "agentrun:1073741824:16777216");
  EXPECT_EQ(line_to_add("me:100000:65536\n", "me:1073741000:100000\n"), "agentrun:1073872896:16777216");
  EXPECT_EQ(line_to_add("a:1073741824:65536\nb:1073807360:1\n", ""), "agentrun:1073872896:16777216");
}

}  // namespace
}  // namespace agentrun::lifecycle
