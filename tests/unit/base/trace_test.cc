#include "base/trace.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

namespace agentrun {
namespace {

TEST(Trace, ChildAndParentShareOneList) {
  trace::step("before it is on");
  char pattern[] = "/tmp/agentrun-trace-test-XXXXXX";
  const int made = mkstemp(pattern);
  ASSERT_GE(made, 0);
  ::close(made);

  ASSERT_TRUE(trace::enable(pattern));
  trace::step("parse");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    trace::enter_child();
    trace::step("build root");
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  trace::step("started");
  ASSERT_TRUE(trace::finish());

  std::ifstream file(pattern);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line.substr(line.find(' ') + 1));
  EXPECT_EQ(lines, (std::vector<std::string>{"parent parse", "child build root", "parent started"}));
  ::unlink(pattern);
}

}  // namespace
}  // namespace agentrun
