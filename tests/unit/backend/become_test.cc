#include "backend/native/become.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace agentrun::native {
namespace {

TEST(PackPrograms, ComeOutAsTheyWentIn) {
  std::vector<sandbox::SeccompProgram> programs(2);
  programs[0].flags = 2;
  programs[0].instructions = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  programs[1].listener = true;
  const auto unpacked = unpack_programs(pack_programs(programs));
  ASSERT_TRUE(unpacked.has_value());
  ASSERT_EQ(unpacked->size(), 2u);
  EXPECT_EQ((*unpacked)[0].flags, 2u);
  EXPECT_EQ((*unpacked)[0].instructions.size(), 2u);
  EXPECT_EQ((*unpacked)[0].instructions[1].k, 8u);
  EXPECT_TRUE((*unpacked)[1].listener);
}

// A filter that is lost on the way must never look like no filter.
TEST(PackPrograms, NoCutIsTakenForAWholeList) {
  std::vector<sandbox::SeccompProgram> programs(1);
  programs[0].instructions = {{1, 2, 3, 4}};
  const std::string packed = pack_programs(programs);
  for (std::size_t size = 0; size < packed.size(); ++size) {
    EXPECT_FALSE(unpack_programs(packed.substr(0, size)).has_value()) << size;
  }
  EXPECT_FALSE(unpack_programs(packed + "x").has_value());
}

TEST(ProgramEnvironment, HasAHome) {
  oci::Process process;
  process.user.uid = 4'000'000'000;
  process.env = {"PATH=/bin", "HOME="};
  const auto env = program_environment(process);
  EXPECT_EQ(std::count(env.begin(), env.end(), "HOME=/"), 1);
  EXPECT_EQ(std::count(env.begin(), env.end(), "HOME="), 0);
  process.env = {"HOME=/root"};
  EXPECT_EQ(program_environment(process), process.env);
}

}  // namespace
}  // namespace agentrun::native
