// Builds the root in a child: build_sandbox_root moves its caller into another mount namespace.
#include "lifecycle/sandbox_root.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "sys/file.h"

namespace agentrun::lifecycle {
namespace {

namespace fs = std::filesystem;

class SandboxRootTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    char pattern[] = "/tmp/agentrun-sandbox-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory_ = pattern;
    for (const char* name : {"mount", "work"}) fs::create_directory(directory_ + "/" + name);
    std::ofstream(directory_ + "/work/input") << "text";
  }
  void TearDown() override {
    if (!directory_.empty()) fs::remove_all(directory_);
  }

  // Runs `body` in a child; it says what is wrong, or nothing.
  std::string in_child(const std::function<std::string()>& body) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child == 0) {
      ::close(ends[0]);
      umask(022);
      const std::string message = body();
      _exit(::write(ends[1], message.data(), message.size()) < 0 ? 1 : 0);
    }
    ::close(ends[1]);
    std::string message(4096, '\0');
    const ssize_t length = ::read(ends[0], message.data(), message.size());
    ::close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    message.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
    if (status != 0) message += " (status " + std::to_string(status) + ")";
    return message;
  }

  std::string directory_;
};

TEST_F(SandboxRootTest, HasTheHostsProgramsAndNoneOfItsSecrets) {
  const std::string message = in_child([&]() -> std::string {
    const auto host = build_sandbox_root({}, directory_ + "/mount");
    if (host.has_error()) return host.error().message();
    if (host->uid < kSandboxUidBase || host->uid - kSandboxUidBase >= kSandboxUidCount) return "uid out of range";
    const std::string& root = host->rootfs;
    for (const char* secret :
         {"/etc/shadow", "/etc/gshadow", "/etc/ssl/private", "/etc/machine-id", "/root", "/home"}) {
      if (fs::exists(root + secret)) return std::string(secret) + " is there";
    }
    const auto passwd = sys::read_file(root + "/etc/passwd");
    if (passwd.has_error() || *passwd != sandbox_passwd(host->uid, host->gid)) return "passwd is not ours";
    if (fs::exists("/etc/ssl/certs") && fs::is_empty(root + "/etc/ssl/certs")) return "no certificates";
    if (open((root + "/etc/ssl/certs/x").c_str(), O_CREAT | O_WRONLY, 0644) >= 0 || errno != EROFS)
      return "certificates can be written";
    struct stat work {};
    if (stat((root + "/work").c_str(), &work) != 0 || work.st_uid != host->uid) return "/work is not the user's";
    return "";
  });
  EXPECT_EQ(message, "");
  EXPECT_TRUE(fs::is_empty(directory_ + "/mount")) << "the host sees the sandbox's root";
}

TEST_F(SandboxRootTest, ShowsTheWorkingDirectoryReadOnly) {
  const std::string message = in_child([&]() -> std::string {
    SandboxOptions options;
    options.workdir = directory_ + "/work";
    const auto host = build_sandbox_root(options, directory_ + "/mount");
    if (host.has_error()) return host.error().message();
    const auto text = sys::read_file(host->rootfs + "/work/input");
    if (text.has_error() || *text != "text") return "no input";
    if (open((host->rootfs + "/work/new").c_str(), O_CREAT | O_WRONLY, 0644) >= 0 || errno != EROFS)
      return "it can be written";
    return "";
  });
  EXPECT_EQ(message, "");
  EXPECT_FALSE(fs::exists(directory_ + "/work/new"));
}

TEST_F(SandboxRootTest, AGivenRootIsShownWithAWorkingDirectory) {
  fs::create_directory(directory_ + "/root");
  fs::create_directory_symlink("../../../..", directory_ + "/root/work");
  const auto attempt = [&] {
    return in_child([&]() -> std::string {
      SandboxOptions options;
      options.rootfs = directory_ + "/root";
      const auto host = build_sandbox_root(options, directory_ + "/mount");
      return host.has_error() ? "refused" : "";
    });
  };
  EXPECT_EQ(attempt(), "refused") << "/work is a symlink";
  fs::remove(directory_ + "/root/work");
  EXPECT_EQ(attempt(), "");
}

}  // namespace
}  // namespace agentrun::lifecycle
