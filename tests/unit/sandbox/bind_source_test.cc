#include "sandbox/bind_source.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace agentrun::sandbox {
namespace {

namespace fs = std::filesystem;

// What a policy judges is the real path, whatever the config calls it.
class BindSourceFacts : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/agentrun-source-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    top_ = name;
    fs::create_directories(top_ + "/secret/a");
    fs::create_directory_symlink(top_ + "/secret", top_ + "/link");
    fs::create_symlink("secret/a", top_ + "/last");
  }
  void TearDown() override { fs::remove_all(top_); }

  std::string real_path(const std::string& source, const std::string& option = "rbind") {
    oci::Config config;
    oci::Mount mount;
    mount.destination = "/data";
    mount.type = "bind";
    mount.source = source;
    mount.options = {option};
    if (option == "copy-symlink") mount.options.emplace_back("bind");
    config.mounts = {mount};
    const auto sources = open_bind_sources(config, top_);
    if (!sources) return sources.error().message();
    const std::string& path = sources->at(0).facts.real_path;
    return path.rfind(top_, 0) == 0 ? path.substr(top_.size()) : path;
  }

  std::string top_;
};

TEST_F(BindSourceFacts, ThePathIsTheRealOne) {
  EXPECT_EQ(real_path(top_ + "/secret/a"), "/secret/a");
  EXPECT_EQ(real_path(top_ + "//secret/./a/"), "/secret/a");
  EXPECT_EQ(real_path(top_ + "/secret/a/../../secret"), "/secret");
  EXPECT_EQ(real_path("secret/a"), "/secret/a");
}

TEST_F(BindSourceFacts, NoSymlinkHidesIt) {
  EXPECT_EQ(real_path(top_ + "/link"), "/secret");
  EXPECT_EQ(real_path(top_ + "/link/a"), "/secret/a");
  EXPECT_EQ(real_path(top_ + "/link/../last"), "/secret/a");
  EXPECT_EQ(real_path(top_ + "/last"), "/secret/a");
  EXPECT_EQ(real_path("link/a"), "/secret/a");
  EXPECT_EQ(real_path(top_ + "/last", "copy-symlink"), "/last");
  EXPECT_EQ(real_path("/proc/self/root/" + top_ + "/secret"), "/secret");
}

TEST_F(BindSourceFacts, WhatIsMissingHasNone) { EXPECT_EQ(real_path(top_ + "/none"), ""); }

}  // namespace
}  // namespace agentrun::sandbox
