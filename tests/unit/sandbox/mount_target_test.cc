#include "sandbox/mount_target.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

namespace fs = std::filesystem;

// A root, and beside it a directory that nothing may reach.
class MountTarget : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/agentrun-target-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    top_ = name;
    fs::create_directories(top_ + "/root");
    fs::create_directories(top_ + "/outside");
    root_ = std::move(*sys::open(top_ + "/root", O_PATH | O_DIRECTORY));
    umask_ = umask(0);
  }
  void TearDown() override {
    umask(umask_);
    fs::remove_all(top_);
  }

  void link(const std::string& text, const std::string& place) { fs::create_symlink(text, top_ + "/root" + place); }

  // Where the target is, from the root; or the error.
  std::string open(const std::string& path, TargetOptions options = {}) {
    const auto target = open_target(root_.get(), path, options);
    if (!target) return "errno " + std::to_string(target.error().code);
    const std::string real = *sys::path_of(target->fd.get());
    const std::string root = top_ + "/root";
    if (real.rfind(root, 0) != 0) return "OUTSIDE " + real;
    return real.size() == root.size() ? "/" : real.substr(root.size());
  }

  static TargetOptions file() {
    TargetOptions options;
    options.kind = TargetKind::file;
    return options;
  }

  bool outside_is_empty() { return fs::is_empty(top_ + "/outside"); }

  std::string top_;
  UniqueFd root_;
  mode_t umask_ = 0;
};

TEST_F(MountTarget, MakesWhatIsMissing) {
  EXPECT_EQ(open("/a/b/c"), "/a/b/c");
  EXPECT_TRUE(fs::is_directory(top_ + "/root/a/b/c"));
  EXPECT_EQ(open("/a/f", file()), "/a/f");
  EXPECT_TRUE(fs::is_regular_file(top_ + "/root/a/f"));
  EXPECT_EQ(open("/"), "/");
}

TEST_F(MountTarget, SaysWhetherItMadeIt) {
  EXPECT_TRUE(open_target(root_.get(), "/new", {})->created);
  EXPECT_FALSE(open_target(root_.get(), "/new", {})->created);
}

// Only then may the check for a mount over the root itself be left out.
TEST_F(MountTarget, KnowsWhatIsCertainlyNotTheRoot) {
  fs::create_directories(top_ + "/root/a/b");
  link("/", "/up");
  link("..", "/a/up");
  EXPECT_TRUE(open_target(root_.get(), "/a/b", {})->below_root);
  for (const char* const path : {"/", "//", "/.", "/a/..", "/a/b/../..", "/up", "/a/up", "/up/."}) {
    EXPECT_FALSE(open_target(root_.get(), path, {})->below_root) << path;
  }
}

TEST_F(MountTarget, InheritsSetgidAndIsNotWritableByOthers) {
  fs::create_directory(top_ + "/root/s");
  chmod((top_ + "/root/s").c_str(), 07755);
  EXPECT_EQ(open("/s/a/b"), "/s/a/b");
  struct stat status {};
  ASSERT_EQ(stat((top_ + "/root/s/a/b").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 02755U);
}

// CVE-2024-45310, CVE-2019-18837: directories made on the host through a symlink of the image.
TEST_F(MountTarget, SymlinksResolveWithinTheRoot) {
  link(top_ + "/outside", "/absolute");
  link("../../../../../../../.." + top_ + "/outside", "/relative");
  EXPECT_EQ(open("/absolute/x"), top_ + "/outside/x");  // a path of that name within the root
  EXPECT_EQ(open("/relative/y"), top_ + "/outside/y");
  EXPECT_EQ(open("/absolute/f", file()), top_ + "/outside/f");
  EXPECT_TRUE(outside_is_empty());
}

TEST_F(MountTarget, DanglingSymlinksAreMadeWithinTheRoot) {
  link("/tmp/foo/bar", "/jump");
  fs::create_directory(top_ + "/root/etc");
  link("/jump/baz/hosts", "/etc/hosts");
  EXPECT_EQ(open("/etc/hosts", file()), "/tmp/foo/bar/baz/hosts");
  link("/tmp/dir", "/trailing");
  EXPECT_EQ(open("/trailing"), "/tmp/dir");
  EXPECT_EQ(open("/trailing"), "/tmp/dir");
}

TEST_F(MountTarget, ParentsAreThoseThatWerePassed) {
  fs::create_directories(top_ + "/root/a/b");
  link("a/b", "/short");
  EXPECT_EQ(open("/short/../c"), "/a/c");
  link("../../..", "/a/b/up");
  EXPECT_EQ(open("/a/b/up/d"), "/d");
}

TEST_F(MountTarget, SymlinkLoopsEnd) {
  link("loop2", "/loop1");
  link("loop1", "/loop2");
  EXPECT_EQ(open("/loop1/x"), "errno " + std::to_string(ELOOP));
  link("self/self/self", "/self");
  EXPECT_EQ(open("/self/x"), "errno " + std::to_string(ELOOP));
}

TEST_F(MountTarget, AFileIsNoDirectory) {
  std::ofstream(top_ + "/root/f") << "x";
  EXPECT_EQ(open("/f/x"), "errno " + std::to_string(ENOTDIR));
}

TEST_F(MountTarget, NofollowTakesTheLinkItself) {
  link("nowhere", "/link");
  TargetOptions options = file();
  options.follow_last = false;
  EXPECT_EQ(open("/link", options), "/link");
  EXPECT_FALSE(fs::exists(top_ + "/root/nowhere"));
}

TEST_F(MountTarget, MagicLinksAreNotJumped) {
  const auto root = sys::open("/", O_PATH | O_DIRECTORY);
  const UniqueFd fd = *sys::open(top_ + "/outside", O_PATH | O_DIRECTORY);
  EXPECT_FALSE(find_target(root->get(), "/proc/self/fd/" + std::to_string(fd.get())));
}

TEST_F(MountTarget, FindMakesNothing) {
  const auto missing = find_target(root_.get(), "/a/b");
  ASSERT_TRUE(missing);
  EXPECT_FALSE(missing->valid());
  EXPECT_TRUE(fs::is_empty(top_ + "/root"));
}

// CVE-2019-19921, CVE-2023-27561, CVE-2025-54867: /proc of the image is a symlink.
TEST_F(MountTarget, ProcMustBeAnOrdinaryDirectory) {
  fs::create_directory(top_ + "/root/bad");
  link("/bad", "/proc");
  auto refused = open_ordinary_directory(root_.get(), "/proc", "proc");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("must be mounted on ordinary directory"));
  link("/missing", "/sys");
  refused = open_ordinary_directory(root_.get(), "/sys", "sysfs");
  ASSERT_FALSE(refused);
  EXPECT_FALSE(fs::exists(top_ + "/root/missing"));
  std::ofstream(top_ + "/root/file") << "x";
  EXPECT_FALSE(open_ordinary_directory(root_.get(), "/file", "proc"));
  EXPECT_FALSE(open_ordinary_directory(root_.get(), "/proc/below", "proc"));
  EXPECT_TRUE(open_ordinary_directory(root_.get(), "/new/proc", "proc"));
}

TEST_F(MountTarget, ParentOfANode) {
  const auto parent = open_parent(root_.get(), "/x/y/z");
  ASSERT_TRUE(parent);
  EXPECT_EQ(parent->name, "z");
  EXPECT_TRUE(fs::is_directory(top_ + "/root/x/y"));
  EXPECT_FALSE(open_parent(root_.get(), "/"));
}

// CVE-2021-30465: the target is exchanged for a symlink while it is looked up.
TEST_F(MountTarget, AnExchangedComponentNeverLeadsOut) {
  fs::create_directories(top_ + "/root/dir");
  fs::create_symlink("../../../../../.." + top_ + "/outside", top_ + "/root/evil");
  const pid_t attacker = fork();
  if (attacker == 0) {
    const std::string dir = top_ + "/root/dir", evil = top_ + "/root/evil";
    while (true) renameat2(AT_FDCWD, dir.c_str(), AT_FDCWD, evil.c_str(), RENAME_EXCHANGE);
  }
  std::string escaped;
  for (int i = 0; i < 3000 && escaped.empty(); ++i) {
    const std::string where = open("/dir/sub" + std::to_string(i % 10) + "/deep");
    if (where.rfind("OUTSIDE", 0) == 0) escaped = where;
  }
  kill(attacker, SIGKILL);
  waitpid(attacker, nullptr, 0);
  EXPECT_EQ(escaped, "");
  EXPECT_TRUE(outside_is_empty());
}

TEST(CleanDestination, IsAbsoluteAndWithoutTheRootfs) {
  EXPECT_EQ(clean_destination("relative/x", "/b/rootfs"), "/relative/x");
  EXPECT_EQ(clean_destination("/a//b/../c/", "/b/rootfs"), "/a/c");
  EXPECT_EQ(clean_destination("/b/rootfs/mnt", "/b/rootfs"), "/mnt");
  EXPECT_EQ(clean_destination("/b/rootfs", "/b/rootfs"), "/");
  EXPECT_EQ(clean_destination("/b/rootfs2/mnt", "/b/rootfs"), "/b/rootfs2/mnt");
}

}  // namespace
}  // namespace agentrun::sandbox
