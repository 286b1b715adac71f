// What comes out of a sandbox is made by somebody who wants to hurt whoever looks at it.
#include "lifecycle/sandbox_out.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "sys/file.h"

namespace agentrun::lifecycle {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class SandboxOut : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/agentrun-out-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    top_ = pattern;
    from_ = top_ + "/from";
    to_ = top_ + "/parent/results";
    fs::create_directories(from_);
    fs::create_directories(top_ + "/parent");
    write(top_ + "/secret", "of the host");
  }
  void TearDown() override { fs::remove_all(top_); }

  static void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

  Result<Collected> collect(const OutLimits& limits = {1 << 20, 1000, 022}) {
    const OutPlace place = TRY(open_out_place(to_, 022));
    const UniqueFd from = TRY(sys::open(from_, O_RDONLY | O_DIRECTORY));
    return collect_sandbox_out(from.get(), place, limits);
  }

  std::string error_of(const Result<Collected>& result) { return result ? "no error" : result.error().message(); }

  // Nothing beside the place, whatever became of it.
  std::string parent() {
    std::string names;
    for (const auto& entry : fs::directory_iterator(top_ + "/parent")) names += entry.path().filename().string() + " ";
    return names;
  }

  std::string top_, from_, to_;
};

TEST_F(SandboxOut, FilesAndDirectoriesAsTheCallersOwn) {
  fs::create_directories(from_ + "/a/b");
  write(from_ + "/a/b/text", "content");
  write(from_ + "/tool", "#!/bin/sh");
  write(from_ + "/closed", "mode 0");
  ASSERT_EQ(chmod((from_ + "/tool").c_str(), 06777), 0);
  ASSERT_EQ(chmod((from_ + "/closed").c_str(), geteuid() == 0 ? 0 : 0400), 0);
  ASSERT_EQ(chmod((from_ + "/a").c_str(), 01777), 0);
  if (geteuid() == 0) {
    ASSERT_EQ(chown((from_ + "/tool").c_str(), 4321, 4321), 0);
    ASSERT_EQ(chmod((from_ + "/tool").c_str(), 06777), 0);
  }
  const auto collected = collect();
  ASSERT_TRUE(collected) << error_of(collected);
  EXPECT_EQ(collected->files, 3);
  EXPECT_EQ(collected->left_out, 0);
  EXPECT_EQ(read(to_ + "/a/b/text"), "content");
  EXPECT_EQ(read(to_ + "/closed"), "mode 0");
  struct stat status {};
  ASSERT_EQ(stat((to_ + "/tool").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, geteuid());
  EXPECT_EQ(status.st_mode & 07777U, 0755U);
  ASSERT_EQ(stat((to_ + "/a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0755U);
  EXPECT_EQ(parent(), "results ");
}

TEST_F(SandboxOut, LinksThatCannotLeadOutAreKept) {
  fs::create_directories(from_ + "/lib/deep");
  write(from_ + "/lib/libx.so.1", "library");
  fs::create_symlink("libx.so.1", from_ + "/lib/libx.so");
  fs::create_symlink("../lib/./libx.so", from_ + "/lib/deep/../again");
  fs::create_symlink("../../lib/libx.so.1", from_ + "/lib/deep/x");
  const auto collected = collect();
  ASSERT_TRUE(collected) << error_of(collected);
  EXPECT_EQ(collected->left_out, 0);
  EXPECT_EQ(read(to_ + "/lib/libx.so"), "library");
  EXPECT_EQ(read(to_ + "/lib/deep/x"), "library");
  EXPECT_TRUE(fs::is_symlink(to_ + "/lib/deep/x"));
}

TEST_F(SandboxOut, WhatMayLeadOutIsLeftOutAndTold) {
  fs::create_directories(from_ + "/d/e");
  fs::create_symlink(top_ + "/secret", from_ + "/absolute");
  fs::create_symlink("../secret", from_ + "/up");
  fs::create_symlink("../../../secret", from_ + "/d/e/up");
  // By the count of its parts it stays inside; through the link beside it, it does not.
  fs::create_symlink("..", from_ + "/d/e/here");
  fs::create_symlink("d/e/here/../../../secret", from_ + "/through");
  fs::create_symlink("x\ny", from_ + "/text");
  ASSERT_EQ(mkfifo((from_ + "/fifo").c_str(), 0666), 0);
  write(from_ + "/name\n\x1b[2J", "x");
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{AF_UNIX, {}};
  (from_ + "/socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  close(fd);
  std::int64_t expected = 8;
  if (geteuid() == 0) {
    ASSERT_EQ(mknod((from_ + "/device").c_str(), S_IFCHR | 0666, makedev(1, 3)), 0);
    ++expected;
  }
  const auto collected = collect();
  ASSERT_TRUE(collected) << error_of(collected);
  EXPECT_EQ(collected->left_out, expected);
  EXPECT_EQ(collected->examples.size(), static_cast<std::size_t>(expected));
  for (const std::string& example : collected->examples) EXPECT_EQ(example.find('\n'), std::string::npos) << example;
  std::string left;
  for (const auto& entry : fs::recursive_directory_iterator(to_)) left += entry.path().filename().string() + " ";
  EXPECT_EQ(left, "d e here ");
}

TEST_F(SandboxOut, HolesAndHardLinksStay) {
  write(from_ + "/sparse", "begin");
  ASSERT_EQ(truncate((from_ + "/sparse").c_str(), 1 << 30), 0);
  write(from_ + "/one", std::string(600 << 10, 'x'));
  fs::create_directory(from_ + "/z");
  fs::create_hard_link(from_ + "/one", from_ + "/z/two");
  fs::create_hard_link(from_ + "/one", from_ + "/z/three");
  const auto collected = collect();
  ASSERT_TRUE(collected) << error_of(collected);
  struct stat status {};
  ASSERT_EQ(stat((to_ + "/sparse").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 1 << 30);
  EXPECT_LT(status.st_blocks, 1000);
  ASSERT_EQ(stat((to_ + "/z/three").c_str(), &status), 0);
  EXPECT_EQ(status.st_nlink, 3U);
  EXPECT_EQ(status.st_size, 600 << 10);
}

TEST_F(SandboxOut, BeyondALimitThereIsNothing) {
  write(from_ + "/a", std::string(700 << 10, 'x'));
  write(from_ + "/b", std::string(700 << 10, 'x'));
  EXPECT_THAT(error_of(collect()), HasSubstr("more than 1048576 bytes"));
  EXPECT_EQ(parent(), "");
  EXPECT_THAT(error_of(collect({8 << 20, 1, 022})), HasSubstr("more than 1 files"));
  EXPECT_EQ(parent(), "");
}

TEST_F(SandboxOut, AnEmptyDirectoryIsReplacedAndAnyOtherThingStays) {
  write(from_ + "/new", "x");
  fs::create_directory(to_);
  ASSERT_EQ(chmod(to_.c_str(), 0700), 0);
  ASSERT_TRUE(collect());
  struct stat status {};
  ASSERT_EQ(stat(to_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0700U);
  EXPECT_THAT(error_of(collect()), HasSubstr("is not empty"));

  to_ = top_ + "/secret";
  EXPECT_THAT(error_of(collect()), HasSubstr("is no directory"));
  to_ = top_ + "/parent/nowhere";
  fs::create_symlink("/nonexistent/x", to_);
  EXPECT_THAT(error_of(collect()), HasSubstr("leads nowhere"));
  EXPECT_FALSE(open_out_place(top_ + "/missing/results", 022));
  EXPECT_FALSE(open_out_place("/", 022));
}

// Somebody else fills the place while the program runs.
TEST_F(SandboxOut, APlaceThatWasTakenMeanwhileStays) {
  write(from_ + "/new", "x");
  const auto place = open_out_place(to_, 022);
  ASSERT_TRUE(place);
  fs::create_directory(to_);
  write(to_ + "/theirs", "y");
  const UniqueFd from(open(from_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto collected = collect_sandbox_out(from.get(), *place, {1 << 20, 1000, 022});
  EXPECT_THAT(error_of(collected), HasSubstr("rename"));
  EXPECT_EQ(read(to_ + "/theirs"), "y");
  EXPECT_EQ(parent(), "results ");
}

}  // namespace
}  // namespace agentrun::lifecycle
