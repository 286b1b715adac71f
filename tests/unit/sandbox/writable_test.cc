#include "sandbox/writable.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "root_fixture.h"
#include "sys/mount.h"

namespace agentrun::sandbox {
namespace {

using namespace agentrun::sandbox::testing;
using ::testing::HasSubstr;

class Writable : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_ROOT(); }

  static Scenario read_only(std::vector<std::string> empty, std::vector<std::string> overlays) {
    Scenario scenario;
    scenario.config().root.readonly = true;
    scenario.config().mounts = {mount_of("proc", "proc", "/proc"), mount_of("tmpfs", "tmpfs", "/dev")};
    policy::Writable& writable = scenario.effective.writable.emplace();
    writable.size = 1 << 20;
    writable.inodes = 64;
    writable.empty = std::move(empty);
    writable.overlays = std::move(overlays);
    scenario.config().process.emplace();
    scenario.config().process->user = {1000, 1001, std::nullopt, {}};
    return scenario;
  }
};

TEST_F(Writable, EmptyDirectories) {
  Scenario scenario = read_only({"/tmp", "/var/tmp", "/run"}, {});
  scenario.prepare = [](const std::string& bundle) {
    make_directory(bundle + "/rootfs/tmp");
    write(bundle + "/rootfs/tmp/old", "x");
    make_directory(bundle + "/rootfs/var");
    make_link("../tmp", bundle + "/rootfs/var/tmp");
  };
  scenario.inside = [] {
    return words({"[" + list("/tmp") + "] " + mode_of("/tmp"), mode_of("/run"), write("/tmp/new", "x"),
                  write("/run/x", "x"), write("/var/x", "x").substr(0, 8), flags_of_mount("/tmp"),
                  std::to_string(count_mounts("/tmp"))});
  };
  scenario.afterwards = [](const std::string& bundle) { return list(bundle + "/rootfs/tmp"); };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "[] 1777 755 ok ok errno 30 rw,nosuid,nodev,relatime 1");
  EXPECT_EQ(outcome.host, "old");
}

TEST_F(Writable, OneLimitForAllOfIt) {
  Scenario scenario = read_only({"/tmp", "/run"}, {"/home/u"});
  scenario.prepare = [](const std::string& bundle) { make_directory(bundle + "/rootfs/home/u"); };
  scenario.inside = [] {
    const std::string half(700 << 10, 'x');
    const std::string first = write("/tmp/a", half), second = write("/home/u/b", half);
    unlink("/tmp/a");
    unlink("/home/u/b");
    int files = 0;
    while (files < 1000 && write("/run/" + std::to_string(files), "") == "ok") ++files;
    return first + " " + second + " " + (files < 64 ? "few" : "many");
  };
  EXPECT_EQ(run(scenario).inside, "ok errno 28 few");
}

TEST_F(Writable, OverlaysKeepContentOwnerAndMode) {
  for (const bool user_namespace : {false, true}) {
    Scenario scenario = read_only({"/tmp"}, {"/home/u", "/home/u/work", "/app"});
    scenario.user_namespace = user_namespace;
    const unsigned base = user_namespace ? 100000 : 0;
    scenario.prepare = [base](const std::string& bundle) {
      make_directory(bundle + "/rootfs/home/u/work");
      make_directory(bundle + "/rootfs/app", 02775);
      write(bundle + "/rootfs/home/u/f", "of the image");
      write(bundle + "/rootfs/app/code", "code");
      for (const char* name : {"/rootfs/home/u", "/rootfs/home/u/f", "/rootfs/home/u/work"}) {
        if (chown((bundle + name).c_str(), base + 5, base + 6) != 0) _exit(9);
      }
      for (const char* name : {"/rootfs/app", "/rootfs/app/code"}) {
        if (chown((bundle + name).c_str(), base, base) != 0) _exit(9);
      }
      chmod((bundle + "/rootfs/app").c_str(), 02775);
    };
    scenario.inside = [] {
      return words({read("/home/u/f"), owner_of("/home/u"), write("/home/u/f", "changed"), read("/home/u/f"),
                    write("/home/u/work/x", "x"), mode_of("/app"), write("/app/x", "x"),
                    std::to_string(unlink("/app/code")), list("/app"), flags_of_mount("/app"),
                    std::to_string(count_mounts("/home/u/work"))});
    };
    scenario.afterwards = [](const std::string& bundle) {
      return read(bundle + "/rootfs/home/u/f") + " " + list(bundle + "/rootfs/app") +
             list(bundle + "/rootfs/home/u/work");
    };
    const Outcome outcome = run(scenario);
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.inside, "of the image 5:6 ok changed ok 2775 ok 0 x rw,nosuid,nodev,relatime 0")
        << user_namespace;
    EXPECT_EQ(outcome.host, "of the image code");
  }
}

// A directory that replaces one of the image needs an extended attribute that says so, of the kind that a user
// namespace may write.
TEST_F(Writable, DirectoriesOfTheImageCanBeReplaced) {
  for (const bool user_namespace : {false, true}) {
    Scenario scenario = read_only({}, {"/app"});
    scenario.user_namespace = user_namespace;
    const unsigned base = user_namespace ? 100000 : 0;
    scenario.prepare = [base](const std::string& bundle) {
      make_directory(bundle + "/rootfs/app/d");
      write(bundle + "/rootfs/app/d/f", "x");
      for (const char* name : {"/rootfs/app", "/rootfs/app/d", "/rootfs/app/d/f"}) {
        if (chown((bundle + name).c_str(), base, base) != 0) _exit(9);
      }
    };
    scenario.inside = [] {
      const int removed = unlink("/app/d/f") + rmdir("/app/d");
      const int made = mkdir("/app/d", 0755);
      return words({std::to_string(removed), std::to_string(made), "[" + list("/app/d") + "]"});
    };
    const Outcome outcome = run(scenario);
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.inside, "0 0 []") << user_namespace;
  }
}

TEST_F(Writable, WhatTheImageLacksIsNotWrittenToIt) {
  Scenario scenario = read_only({"/tmp"}, {"/home/nobody", "/tmp/home/deep"});
  scenario.inside = [] {
    return words({list("/home").substr(0, 7), owner_of("/tmp/home/deep"), owner_of("/tmp/home"),
                  write("/tmp/home/deep/x", "x")});
  };
  scenario.afterwards = [](const std::string& bundle) { return list(bundle + "/rootfs"); };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "errno 2 1000:1001 0:0 ok");
  EXPECT_EQ(outcome.host, "dev proc tmp");
}

TEST_F(Writable, AMissingWorkingDirectoryIsMadeAndWritable) {
  Scenario scenario = read_only({"/tmp"}, {"/work"});
  scenario.config().process->cwd = "/work";
  scenario.inside = [] { return write("/work/x", "x"); };
  scenario.afterwards = [](const std::string& bundle) { return "[" + list(bundle + "/rootfs/work") + "]"; };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "ok");
  EXPECT_EQ(outcome.host, "[]");
}

TEST_F(Writable, MountsOfTheConfigComeOnTop) {
  Scenario scenario = read_only({"/run"}, {});
  scenario.prepare = [](const std::string& bundle) { write(bundle + "/env", "engine"); };
  scenario.config().mounts.push_back(bind_of("env", "/run/.containerenv", {"bind", "ro"}));
  scenario.inside = [] { return words({read("/run/.containerenv"), write("/run/x", "x")}); };
  scenario.afterwards = [](const std::string& bundle) { return list(bundle + "/rootfs/run"); };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.inside, "engine ok");
  EXPECT_EQ(outcome.host, "");
}

// The root is an overlay of an overlay: a third is one too many for the kernel.
TEST_F(Writable, WhereNoOverlayIsToBeHadTheContentIsCopied) {
  const auto overlay_twice = [](const std::string& bundle) {
    for (const char* name : {"/l", "/e", "/u", "/w", "/once"}) make_directory(bundle + name);
    make_directory(bundle + "/l/app/sub");
    write(bundle + "/l/app/f", "from the image");
    const auto layer = [&bundle](const std::string& lower, const std::string& place) {
      const auto mount = sys::new_mount("overlay", {{"lowerdir", bundle + lower + ":" + bundle + "/e", false}}, 0);
      const int target = open((bundle + place).c_str(), O_PATH | O_CLOEXEC);
      if (!mount || !sys::attach_mount(mount->get(), target)) _exit(9);
      close(target);
    };
    layer("/l", "/once");
    for (const char* name : {"/proc", "/dev", "/app"}) make_directory(bundle + "/l" + name);
    layer("/once", "/rootfs");
  };
  Scenario scenario = read_only({}, {"/app"});
  scenario.prepare = overlay_twice;
  scenario.inside = [] {
    const std::string before = list("/app") + " " + read("/app/f");
    return words({before, write("/app/f", "mine"), mount_line("/app")});
  };
  Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_THAT(outcome.inside, HasSubstr("f sub from the image ok"));
  EXPECT_THAT(outcome.inside, HasSubstr("tmpfs"));

  scenario.prepare = [overlay_twice](const std::string& bundle) {
    make_directory(bundle + "/l/app");
    write(bundle + "/l/app/big", std::string(600 << 10, 'x'));
    overlay_twice(bundle);
  };
  outcome = run(scenario);
  EXPECT_THAT(outcome.error, HasSubstr("make writable /app: no overlay"));
  EXPECT_THAT(outcome.error, HasSubstr("half of the writable store, 512 KiB"));
  EXPECT_EQ(outcome.inside, "");
}

TEST_F(Writable, ASymlinkOfTheImageStaysInTheRoot) {
  Scenario scenario = read_only({"/tmp"}, {"/home/u"});
  scenario.prepare = [](const std::string& bundle) {
    make_directory(bundle + "/outside");
    write(bundle + "/outside/f", "host");
    make_directory(bundle + "/rootfs/home");
    make_link("../../outside", bundle + "/rootfs/home/u");
    make_link("../outside", bundle + "/rootfs/tmp");
  };
  scenario.inside = [] { return words({"[" + list("/tmp") + "]", write("/tmp/x", "x")}); };
  scenario.afterwards = [](const std::string& bundle) { return list(bundle + "/outside"); };
  const Outcome outcome = run(scenario);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.inside, "[] ok");
  EXPECT_EQ(outcome.host, "f");
}

}  // namespace
}  // namespace agentrun::sandbox
