#include "backend/native/become.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace agentrun::native {
namespace {

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
