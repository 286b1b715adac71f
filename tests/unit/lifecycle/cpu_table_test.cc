#include "lifecycle/cpu_table.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "sandbox/affinity.h"
#include "sys/file.h"

namespace agentrun::lifecycle {
namespace {

class CpuTable : public testing::Test {
 protected:
  void SetUp() override {
    if (sandbox::cpus_of(0)->size() < 2) GTEST_SKIP() << "one CPU";
    char path[] = "/tmp/agentrun-cpus.XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    path_ = path;
    directory_ = *sys::open(path_, O_RDONLY | O_DIRECTORY);
  }
  void TearDown() override {
    for (const pid_t pid : children_) end(pid);
    if (path_.empty()) return;
    EXPECT_TRUE(sys::remove_tree_at(AT_FDCWD, path_).has_value());
  }
  pid_t waiting() {
    const pid_t pid = fork();
    if (pid == 0) _exit(pause());
    children_.insert(pid);
    return pid;
  }
  static void end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  pid_t narrow() {
    const pid_t pid = waiting();
    EXPECT_TRUE(narrow_affinity_in(directory_.get(), pid, 1).has_value());
    return pid;
  }
  void kill_one(pid_t pid) {
    end(pid);
    children_.erase(pid);
  }
  static unsigned cpu_of(pid_t pid) {
    const auto cpus = sandbox::cpus_of(pid);
    EXPECT_EQ(cpus->size(), 1U);
    return cpus->front();
  }
  std::string table() const { return *sys::read_file(path_ + "/.cpus"); }

  std::string path_;
  UniqueFd directory_;
  std::set<pid_t> children_;
};

TEST_F(CpuTable, AsManyContainersAsCpusGetOneEach) {
  const auto all = *sandbox::cpus_of(0);
  std::set<unsigned> taken;
  for (std::size_t i = 0; i < all.size(); ++i) taken.insert(cpu_of(narrow()));
  EXPECT_EQ(taken.size(), all.size());
}

TEST_F(CpuTable, WhoIsKilledCountsNoMore) {
  const auto all = *sandbox::cpus_of(0);
  std::vector<pid_t> first, second;
  for (std::size_t i = 0; i < all.size(); ++i) first.push_back(narrow());
  for (std::size_t i = 0; i < all.size(); ++i) second.push_back(narrow());
  // Both of one CPU go: whatever the turn is, the next two have it.
  const unsigned free = cpu_of(first[0]);
  kill_one(first[0]);
  for (const pid_t pid : second) {
    if (cpu_of(pid) == free) {
      kill_one(pid);
      break;
    }
  }
  EXPECT_EQ(cpu_of(narrow()), free);
  EXPECT_EQ(cpu_of(narrow()), free);
}

TEST_F(CpuTable, AtTheSameMomentTheyGetDifferentOnes) {
  for (int round = 0; round < 20; ++round) {
    const pid_t first = waiting(), second = waiting();
    int gate[2];
    ASSERT_EQ(pipe(gate), 0);
    std::vector<pid_t> makers;
    for (const pid_t pid : {first, second}) {
      makers.push_back(fork());
      if (makers.back() == 0) {
        close(gate[1]);
        char byte = 0;
        static_cast<void>(!read(gate[0], &byte, 1));  // ends when the gate opens
        _exit(narrow_affinity_in(directory_.get(), pid, 1) ? 0 : 1);
      }
    }
    close(gate[0]);
    close(gate[1]);
    for (const pid_t maker : makers) {
      int status = 0;
      waitpid(maker, &status, 0);
      EXPECT_EQ(status, 0);
    }
    EXPECT_NE(cpu_of(first), cpu_of(second));
    kill_one(first);
    kill_one(second);
  }
}

TEST_F(CpuTable, ReusedNumbersAndNonsenseCountNothing) {
  const std::string self = std::to_string(getpid());
  const std::vector<unsigned> all = *sandbox::cpus_of(0);
  const std::string first = std::to_string(all[0]);
  // Our number with another start time, lines cut short, numbers out of range: were they counted, the first CPU would
  // never be chosen.
  std::string text = "last " + std::to_string(all.back()) + "\n";
  for (int i = 0; i < 9; ++i)
    text += self + " 1 " + first + "\n" + self + "\n99999999999 1 " + first + "\n-1 1 " + first + "\n";
  ASSERT_TRUE(sys::replace_file_at(directory_.get(), ".cpus", text, 0600).has_value());
  const pid_t pid = narrow();
  EXPECT_EQ(cpu_of(pid), all[0]);
  EXPECT_EQ(table().find(self + " 1 "), std::string::npos);
}

TEST_F(CpuTable, NothingIsNarrowedToAsManyAsThereAre) {
  const pid_t pid = waiting();
  for (const std::int64_t width : {std::int64_t{0}, std::int64_t{100'000}}) {
    EXPECT_TRUE(narrow_affinity_in(directory_.get(), pid, width).has_value());
  }
  EXPECT_EQ(*sandbox::cpus_of(pid), *sandbox::cpus_of(0));
  EXPECT_NE(access((path_ + "/.cpus").c_str(), F_OK), 0);
}

}  // namespace
}  // namespace agentrun::lifecycle
