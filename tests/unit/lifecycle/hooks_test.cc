#include "lifecycle/hooks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/clock.h"

namespace agentrun::lifecycle {
namespace {

class HooksTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/hooks-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    state_.id = "c1";
    state_.status = oci::Status::creating;
    state_.pid = 77;
    state_.bundle = "/b";
  }
  void TearDown() override {
    const std::string command = "rm -rf " + directory_;
    static_cast<void>(!std::system(command.c_str()));
  }

  static oci::Hook shell(const std::string& script) {
    oci::Hook hook;
    hook.path = "/bin/sh";
    hook.args = {"sh", "-c", script};
    hook.env = {"PATH=/usr/bin:/bin"};
    return hook;
  }

  std::string run(const std::vector<oci::Hook>& hooks) const {
    const auto result = run_hooks("createRuntime", hooks, state_);
    return result ? std::string("ok") : result.error().message();
  }

  std::string file(const std::string& name) const {
    std::ifstream input(directory_ + "/" + name);
    std::stringstream text;
    text << input.rdbuf();
    return text.str();
  }

  std::string directory_;
  oci::State state_;
};

TEST_F(HooksTest, TheFirstFailureEndsTheListAndIsNamed) {
  oci::Hook good, bad;
  good.path = "/bin/true";
  bad.path = "/bin/false";
  EXPECT_EQ(run({}), "ok");
  EXPECT_EQ(run({good, good}), "ok");
  EXPECT_EQ(run({good, bad, shell("touch " + directory_ + "/never")}),
            "error running createRuntime hook #1: /bin/false: exit status 1");
  EXPECT_EQ(file("never"), "");
  EXPECT_NE(access((directory_ + "/never").c_str(), F_OK), 0);
}

TEST_F(HooksTest, MissingExecutableHasAReason) {
  oci::Hook hook;
  hook.path = "/no/such/hook";
  EXPECT_EQ(run({hook}), "error running createRuntime hook #0: /no/such/hook: No such file or directory");
  hook.path = "/etc/passwd";
  EXPECT_EQ(run({hook}), "error running createRuntime hook #0: /etc/passwd: Permission denied");
}

TEST_F(HooksTest, SignalAndOutputAreInTheError) {
  EXPECT_EQ(run({shell("kill -TERM $$")}), "error running createRuntime hook #0: /bin/sh: killed by SIGTERM");
  EXPECT_EQ(run({shell("echo one; echo two >&2; exit 3")}),
            "error running createRuntime hook #0: /bin/sh: exit status 3: one\\x0atwo");
}

TEST_F(HooksTest, OutputIsBounded) {
  const std::string message = run({shell("head -c 3000000 /dev/zero | tr '\\0' x; echo END; exit 1")});
  EXPECT_LT(message.size(), 5000u);
  EXPECT_TRUE(message.ends_with("xEND")) << message.substr(message.size() - 20);
}

TEST_F(HooksTest, StateIsOnStandardInputForEach) {
  const auto save = [&](const std::string& name) { return shell("cat > " + directory_ + "/" + name); };
  EXPECT_EQ(run({save("one"), save("two")}), "ok");
  EXPECT_NE(file("one").find("\"id\":\"c1\""), std::string::npos) << file("one");
  EXPECT_EQ(file("one"), file("two"));
}

TEST_F(HooksTest, AHookThatNeverReadsBlocksNobody) {
  state_.annotations["big"] = std::string(4 << 20, 'x');  // many times a pipe's capacity
  EXPECT_EQ(run({shell("exec <&-; exit 0"), shell("true")}), "ok");
}

TEST_F(HooksTest, EnvironmentIsTheHooksOwn) {
  setenv("AGENTRUN_TEST_SECRET", "s3cret", 1);
  oci::Hook hook = shell("/usr/bin/env > " + directory_ + "/env");
  hook.env = {"ONLY=this"};
  EXPECT_EQ(run({hook}), "ok");
  EXPECT_NE(file("env").find("ONLY=this"), std::string::npos);
  EXPECT_EQ(file("env").find("s3cret"), std::string::npos);
  hook.env.clear();
  EXPECT_EQ(run({hook}), "ok");
  EXPECT_NE(file("env").find(std::string("PATH=") + std::getenv("PATH")), std::string::npos);
  EXPECT_EQ(file("env").find("s3cret"), std::string::npos);
  unsetenv("AGENTRUN_TEST_SECRET");
}

TEST_F(HooksTest, NoFdIsHandedOn) {
  const int leak = open("/etc/passwd", O_RDONLY);  // without O_CLOEXEC
  EXPECT_EQ(run({shell("ls /proc/$$/fd > " + directory_ + "/fds")}), "ok");
  close(leak);
  EXPECT_EQ(file("fds").find(std::to_string(leak) + "\n"), std::string::npos) << file("fds");
  EXPECT_TRUE(file("fds").starts_with("0\n1\n"));
}

TEST_F(HooksTest, TimeoutKillsTheWholeGroup) {
  oci::Hook hook = shell("sleep 300 & echo $! > " + directory_ + "/child; wait");
  hook.timeout = 1;
  const std::int64_t began = clock::monotonic_us();
  EXPECT_EQ(run({hook}), "error running createRuntime hook #0: /bin/sh: timed out after 1s, killed");
  const std::int64_t took = clock::monotonic_us() - began;
  EXPECT_GE(took, 1'000'000);
  EXPECT_LT(took, 20'000'000);
  const int child = std::atoi(file("child").c_str());
  ASSERT_GT(child, 1);
  for (int i = 0; i < 500 && ::kill(child, 0) == 0; ++i) {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string pid, name, letter;
    stat >> pid >> name >> letter;
    if (letter == "Z" || letter.empty()) break;  // dead, and whoever adopted it has not reaped it
    usleep(10'000);
    ASSERT_LT(i, 499) << "the group lives on";
  }
}

TEST_F(HooksTest, WhatItLeavesInTheBackgroundIsNotWaitedFor) {
  const std::int64_t began = clock::monotonic_us();
  EXPECT_EQ(run({shell("sleep 20 & echo $! > " + directory_ + "/child; exit 0")}), "ok");
  EXPECT_LT(clock::monotonic_us() - began, 10'000'000);
  ::kill(std::atoi(file("child").c_str()), SIGKILL);
}

TEST_F(HooksTest, ASignalThatTheCallerBlocksIsNotBlockedInIt) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  EXPECT_EQ(run({shell("kill -TERM $$")}), "error running createRuntime hook #0: /bin/sh: killed by SIGTERM");
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace agentrun::lifecycle
