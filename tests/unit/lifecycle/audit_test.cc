#include "lifecycle/audit.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "fixture.h"

namespace agentrun::lifecycle {
namespace {

class AuditTest : public LifecycleTest {
 protected:
  std::string path() const { return scratch_ + "/log/audit.jsonl"; }
};

TEST_F(AuditTest, OneLineAnEventInAFileForItsOwnerOnly) {
  ASSERT_TRUE(append_audit("create", "c1", "\"pid\":7"));
  ASSERT_TRUE(append_audit("exit", "c1", ""));
  const std::string text = read_text(path());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_TRUE(text.starts_with("{\"format\":1,\"time\":\"20")) << text;
  EXPECT_NE(text.find("\"event\":\"create\",\"container\":\"c1\",\"pid\":7}\n"), std::string::npos) << text;
  struct stat status {};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  ASSERT_EQ(stat((scratch_ + "/log").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
}

TEST_F(AuditTest, NothingCanForgeALineOrAFixedField) {
  ASSERT_TRUE(append_audit("create", "c\n1\"", "\"event\":\"exit\",\"container\":\"other\",\"a\":\"x\\ny\""));
  const std::string text = read_text(path());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_NE(text.find("\"event\":\"create\",\"container\":\"c\\n1\\\"\""), std::string::npos) << text;
  EXPECT_EQ(text.find("other"), std::string::npos);
  EXPECT_FALSE(append_audit("create", "c1", "\"a\":1}\n{\"event\":\"exit\""));
  EXPECT_FALSE(append_audit("create", "c1", "not json"));
  EXPECT_EQ(read_text(path()), text);
}

TEST_F(AuditTest, ManyWritersKeepLinesWhole) {
  std::vector<pid_t> children;
  const std::string fields = "\"text\":\"" + std::string(20000, 'x') + "\"";
  for (int i = 0; i < 4; ++i) {
    children.push_back(*sys::fork_running([&] {
      for (int k = 0; k < 25; ++k) {
        if (!append_audit("create", "c", fields)) return 1;
      }
      return 0;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(sys::wait_process(child)->code(), 0);
  const std::string text = read_text(path());
  std::size_t lines = 0, at = 0;
  while (at < text.size()) {
    const auto end = text.find('\n', at);
    ASSERT_NE(end, std::string::npos);
    EXPECT_EQ(text[at], '{');
    EXPECT_EQ(text[end - 1], '}');
    EXPECT_EQ(text.find('{', at + 1) > end, true);
    at = end + 1;
    ++lines;
  }
  EXPECT_EQ(lines, 100u);
}

TEST_F(AuditTest, WaitsForWhoeverIsWriting) {
  ASSERT_TRUE(append_audit("create", "c", ""));
  const std::string before = read_text(path());
  UniqueFd other(open(path().c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(other.get(), LOCK_EX), 0);
  const pid_t writer = *sys::fork_running([&] {
    other.reset();
    return append_audit("exit", "c", "") ? 0 : 1;
  });
  usleep(200'000);
  EXPECT_EQ(read_text(path()), before);
  other.reset();
  EXPECT_EQ(sys::wait_process(writer)->code(), 0);
  EXPECT_NE(read_text(path()), before);
}

TEST_F(AuditTest, FullDiskIsAnErrorAndLeavesNoHalfLine) {
  mkdir((scratch_ + "/log").c_str(), 0700);
  ASSERT_EQ(mount("tmpfs", (scratch_ + "/log").c_str(), "tmpfs", 0, "size=16k,mode=0700"), 0);
  ASSERT_TRUE(append_audit("create", "c", ""));
  const std::string before = read_text(path());
  const auto written = append_audit("create", "c", "\"text\":\"" + std::string(100000, 'x') + "\"");
  EXPECT_FALSE(written);
  EXPECT_EQ(read_text(path()), before);
  EXPECT_TRUE(append_audit("create", "c", ""));
  umount((scratch_ + "/log").c_str());
}

TEST_F(AuditTest, WhatIsNotOurFileIsRefused) {
  mkdir((scratch_ + "/log").c_str(), 0700);
  write_text(scratch_ + "/victim", "");
  ASSERT_EQ(symlink((scratch_ + "/victim").c_str(), path().c_str()), 0);
  EXPECT_FALSE(append_audit("create", "c", ""));
  EXPECT_EQ(read_text(scratch_ + "/victim"), "");
  unlink(path().c_str());
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_FALSE(append_audit("create", "c", ""));  // and does not hang
  unlink(path().c_str());
  write_text(path(), "");
  ASSERT_EQ(chown(path().c_str(), 1234, 0), 0);
  EXPECT_FALSE(append_audit("create", "c", ""));
  unlink(path().c_str());
  write_text(path(), "", 0666);
  EXPECT_TRUE(append_audit("create", "c", ""));
  struct stat status {};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(AuditTest, PathComesFromTheEnvironmentOrTheDefault) {
  setenv("AGENTRUN_AUDIT_LOG", "relative/is/ignored", 1);
  EXPECT_EQ(audit_path(), "/var/log/agentrun/audit.jsonl");
  unsetenv("AGENTRUN_AUDIT_LOG");
  EXPECT_EQ(audit_path(), "/var/log/agentrun/audit.jsonl");
}

}  // namespace
}  // namespace agentrun::lifecycle
