#include "sys/file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace agentrun::sys {
namespace {

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "agentrun-file-XXXXXX";
    ASSERT_NE(mkdtemp(path_.data()), nullptr);
    directory_ = *open(path_, O_PATH | O_DIRECTORY);
  }
  void TearDown() override {
    const UniqueFd parent = *open(testing::TempDir(), O_PATH | O_DIRECTORY);
    ASSERT_TRUE(remove_tree_at(parent.get(), path_.substr(testing::TempDir().size())).has_value());
    EXPECT_NE(access(path_.c_str(), F_OK), 0);
  }
  std::string path_;
  UniqueFd directory_;
};

TEST_F(FileTest, ReplaceLeavesTheOldTextOrTheNew) {
  ASSERT_TRUE(replace_file_at(directory_.get(), "state", "one", 0600).has_value());
  ASSERT_TRUE(replace_file_at(directory_.get(), "state", "two", 0600).has_value());
  EXPECT_EQ(*read_file_at(directory_.get(), "state"), "two");
  EXPECT_EQ(list_directory(directory_.get(), ".")->size(), 1u);
}

TEST_F(FileTest, ReadIsBounded) {
  ASSERT_TRUE(replace_file_at(directory_.get(), "file", std::string(100, 'x'), 0600).has_value());
  EXPECT_EQ(read_file_at(directory_.get(), "file", 100)->size(), 100u);
  const auto cut = read_file_at(directory_.get(), "file", 99);
  ASSERT_FALSE(cut.has_value());
  EXPECT_EQ(cut.error().message(), "read file: larger than 99 bytes");
}

TEST_F(FileTest, RegularOnlyDoesNotWaitForAFifo) {
  ASSERT_EQ(mkfifoat(directory_.get(), "fifo", 0600), 0);
  const auto text = read_file(path_ + "/fifo", 10, true);
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().reason, "not a regular file");
}

TEST_F(FileTest, RemoveTreeFollowsNoSymlink) {
  ASSERT_EQ(mkdirat(directory_.get(), "victim", 0700), 0);
  ASSERT_TRUE(open_at(directory_.get(), "victim/kept", O_CREAT | O_WRONLY, 0600).has_value());
  ASSERT_EQ(mkdirat(directory_.get(), "tree", 0700), 0);
  ASSERT_EQ(mkdirat(directory_.get(), "tree/below", 0700), 0);
  ASSERT_EQ(symlinkat("../victim", directory_.get(), "tree/link"), 0);
  ASSERT_TRUE(remove_tree_at(directory_.get(), "tree").has_value());
  EXPECT_EQ(access((path_ + "/victim/kept").c_str(), F_OK), 0);
  EXPECT_NE(access((path_ + "/tree").c_str(), F_OK), 0);
}

TEST(SealedMemory, CannotBeChanged) {
  const UniqueFd fd = *sealed_memory("test", "data", false);
  EXPECT_EQ(*read_fd(fd.get(), "memory"), "data");
  EXPECT_EQ(write(fd.get(), "x", 1), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(mmap(nullptr, 4, PROT_WRITE, MAP_SHARED, fd.get(), 0), MAP_FAILED);
}

TEST(CloseAllBut, KeepsWhatItIsTold) {
  const pid_t pid = fork();
  if (pid == 0) {
    const int kept = dup(0);
    const int closed = dup(0);
    if (!close_all_but({kept})) _exit(1);
    if (fcntl(kept, F_GETFD) < 0) _exit(2);
    if (fcntl(closed, F_GETFD) >= 0) _exit(3);
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace agentrun::sys
