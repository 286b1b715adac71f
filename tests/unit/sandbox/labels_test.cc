#include "sandbox/labels.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <string>

#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

TEST(Labels, WithoutTheModuleTheyAreRefused) {
  const auto procfs = sys::open("/proc", O_PATH | O_DIRECTORY);
  if (!apparmor_enabled()) {
    EXPECT_EQ(apparmor_on_exec(procfs->get(), "profile").error().message(),
              "apparmor profile profile: AppArmor is not enabled on this host");
    EXPECT_FALSE(apparmor_profile_loaded("profile"));
  }
  if (!selinux_enabled()) {
    EXPECT_EQ(selinux_on_exec(procfs->get(), "a:b:c:s0").error().message(),
              "SELinux label a:b:c:s0: SELinux is not enabled on this host");
  }
}

TEST(Labels, OneLabelIsOneCommand) {
  const auto procfs = sys::open("/proc", O_PATH | O_DIRECTORY);
  for (const std::string& text : {std::string(), std::string("a\nexec unconfined"), std::string("a\0b", 3)}) {
    EXPECT_EQ(apparmor_on_exec(procfs->get(), text).error().reason, "empty or with control characters");
    EXPECT_EQ(selinux_on_exec(procfs->get(), text).error().reason, "empty or with control characters");
  }
}

TEST(Labels, AppArmorIsToldThroughItsOwnFile) {
  if (!apparmor_enabled()) GTEST_SKIP() << "AppArmor is missing";
  const auto procfs = sys::open("/proc", O_PATH | O_DIRECTORY);
  const auto label = apparmor_on_exec(procfs->get(), "a//&b");
  ASSERT_TRUE(label.has_value()) << label.error().message();
  EXPECT_EQ(label->file, "thread-self/attr/apparmor/exec");
  EXPECT_EQ(label->text, "exec a//&b");
  const auto tmp = sys::open("/tmp", O_PATH | O_DIRECTORY);
  EXPECT_FALSE(apparmor_on_exec(tmp->get(), "a"));
}

}  // namespace
}  // namespace agentrun::sandbox
