#include "sandbox/executable.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "forked.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

class ExecutableTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "agentrun-executable-XXXXXX";
    ASSERT_NE(mkdtemp(root_.data()), nullptr);
    ASSERT_EQ(chmod(root_.c_str(), 0755), 0);
    for (const char* directory : {"/a", "/b", "/a/dir"}) ASSERT_EQ(mkdir((root_ + directory).c_str(), 0755), 0);
    make("/b/tool", 0755);
    make("/a/plain", 0644);
    make("/a/both", 0644);
    make("/b/both", 0755);
    make("/b/dir", 0755);
    env_ = {"HOME=/", "PATH=" + root_ + "/none:" + root_ + "/a:" + root_ + "/b", "PATH=/never"};
  }
  void TearDown() override {
    const auto parent = sys::open(testing::TempDir(), O_PATH | O_DIRECTORY);
    ASSERT_TRUE(sys::remove_tree_at(parent->get(), root_.substr(testing::TempDir().size())));
  }
  void make(const std::string& name, mode_t mode) {
    std::ofstream(root_ + name) << "#!/bin/sh\n";
    ASSERT_EQ(chmod((root_ + name).c_str(), mode), 0);
  }
  Error failure(const std::string& name) { return find_executable(name, env_).error(); }

  std::string root_;
  std::vector<std::string> env_;
};

TEST_F(ExecutableTest, LooksAsExecvpDoes) {
  EXPECT_EQ(*find_executable("tool", env_), root_ + "/b/tool");
  EXPECT_EQ(*find_executable("both", env_), root_ + "/b/both");  // past one that may not be executed
  EXPECT_EQ(*find_executable("dir", env_), root_ + "/b/dir");    // past a directory
  EXPECT_EQ(*find_executable(root_ + "/b/tool", {}), root_ + "/b/tool");
  EXPECT_EQ(*find_executable("sh", {}), access("/usr/bin/sh", X_OK) == 0 ? "/usr/bin/sh" : "/bin/sh");
}

// Podman decides 126 or 127 by these words.
TEST_F(ExecutableTest, SaysWhatEnginesMatch) {
  Error error = failure("nothing");
  EXPECT_EQ(error.message(), "executable file `nothing` not found in $PATH: No such file or directory");
  EXPECT_EQ(error.exit_status, 127);
  EXPECT_EQ(failure("").message(), "executable file `` not found in $PATH: No such file or directory");
  error = failure("/no/such");
  EXPECT_EQ(error.message(), "open executable `/no/such`: No such file or directory");
  EXPECT_EQ(error.exit_status, 127);
  error = failure("plain");
  EXPECT_EQ(error.message(), "open executable `plain`: Permission denied");
  EXPECT_EQ(error.exit_status, 126);
  error = failure(root_ + "/a");
  EXPECT_EQ(error.message(), "open executable `" + root_ + "/a`: Permission denied (Is a directory)");
  EXPECT_EQ(error.exit_status, 126);
  error = failure(root_ + "/a/plain/x");
  EXPECT_EQ(error.code, ENOTDIR);
  EXPECT_EQ(error.exit_status, 127);
}

TEST_F(ExecutableTest, EntersTheDirectoryAndMakesNone) {
  EXPECT_EQ(0, test::in_child([&] {
              if (const int failed = test::report(enter_directory(root_ + "/b")); failed != 0) return failed;
              char where[4096];
              if (getcwd(where, sizeof where) == nullptr || where != root_ + "/b") return 2;
              if (enter_directory(root_ + "/new/below")) return 3;
              return access((root_ + "/new").c_str(), F_OK) != 0 ? 0 : 4;
            }));
  EXPECT_EQ(0, test::in_child([&] {
              if (symlink((root_ + "/b").c_str(), (root_ + "/link").c_str()) != 0) return 119;
              if (!enter_directory(root_ + "/link")) return 2;
              return enter_directory(root_ + "/b/tool") ? 3 : 0;
            }));
  EXPECT_EQ(enter_directory("relative").error().message(), "chdir to `relative`: not an absolute path");
}

// CVE-2024-21626, the container's side: an open directory of the host's as the working directory, or as a place to
// write.
TEST_F(ExecutableTest, NoWayOutByALeakedDirectory) {
  if (geteuid() != 0) GTEST_SKIP() << "root is missing";
  EXPECT_EQ(0, test::in_child([&] {
              if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
                return 119;
              const auto leaked = sys::open(root_ + "/a", O_PATH | O_DIRECTORY);
              const std::string inside = root_ + "/b";
              if (mkdir((inside + "/proc").c_str(), 0755) != 0 ||
                  mount("proc", (inside + "/proc").c_str(), "proc", 0, nullptr) != 0 || chroot(inside.c_str()) != 0 ||
                  chdir("/") != 0) {
                return 118;
              }
              const std::string path = "/proc/self/fd/" + std::to_string(leaked->get());
              if (enter_directory(path) || enter_directory(path + "/made/here")) return 2;
              return faccessat(leaked->get(), "made", F_OK, 0) != 0 ? 0 : 3;
            }));
}

}  // namespace
}  // namespace agentrun::sandbox
