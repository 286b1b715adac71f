#include "base/log.h"

#include <boost/json.hpp>

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace agentrun {
namespace {

class LogTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/agentrun-log-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory_ = pattern;
  }
  void TearDown() override {
    (void)log::open({});
    ::unlink(path().c_str());
    ::rmdir(directory_.c_str());
  }
  std::string path() const { return directory_ + "/log.json"; }
  std::string content() const {
    std::ifstream file(path());
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

 private:
  std::string directory_;
};

TEST_F(LogTest, JsonFileHoldsExactlyOneObject) {
  std::ofstream(path()) << "{\"msg\":\"of an earlier call" << std::string(200, '.') << "\"}\n";
  ASSERT_TRUE(log::open({path(), log::Format::json, log::Level::debug}));
  log::write(log::Level::debug, "a notice before");
  testing::internal::CaptureStderr();
  log::failure(refusal("create", "x", "first"));
  log::failure(refusal("create", "x", "second"));
  testing::internal::GetCapturedStderr();

  boost::json::error_code error;
  const boost::json::value value = boost::json::parse(content(), error);
  ASSERT_FALSE(error) << content();
  EXPECT_EQ(value.at("msg"), "create x: first");
  EXPECT_EQ(value.at("level"), "error");
  EXPECT_TRUE(value.at("time").is_string());
  EXPECT_EQ(value.as_object().size(), 3U);
}

TEST_F(LogTest, HostileTextStaysOneJsonStringAndOneLine) {
  ASSERT_TRUE(log::open({"file:" + path(), log::Format::json, log::Level::error}));
  testing::internal::CaptureStderr();
  log::failure(refusal("open", "a\"b\\c\nd\x1b[2J\xff{\"msg\":\"forged\"}", "no"));
  const std::string on_stderr = testing::internal::GetCapturedStderr();

  boost::json::error_code error;
  const boost::json::value value = boost::json::parse(content(), error);
  ASSERT_FALSE(error) << content();
  EXPECT_NE(std::string(value.at("msg").as_string()).find("a\"b\\c"), std::string::npos);
  EXPECT_EQ(std::count(on_stderr.begin(), on_stderr.end(), '\n'), 1);
  EXPECT_EQ(on_stderr.find('\x1b'), std::string::npos);
}

TEST_F(LogTest, FailureGoesToTheFileAndToStandardError) {
  ASSERT_TRUE(log::open({path(), log::Format::text, log::Level::error}));
  testing::internal::CaptureStderr();
  log::failure(refusal("mount", "/proc", "no"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "agentrun: mount /proc: no\n");
  EXPECT_NE(content().find("error: mount /proc: no\n"), std::string::npos);
}

TEST_F(LogTest, NothingIsMadeUntilSomethingIsWritten) {
  ASSERT_TRUE(log::open({path(), log::Format::json, log::Level::error}));
  log::write(log::Level::warning, "coarser than asked for");
  EXPECT_NE(::access(path().c_str(), F_OK), 0);
}

TEST_F(LogTest, TextFileKeepsNoticesOfItsLevelAndFiner) {
  ASSERT_TRUE(log::open({path(), log::Format::text, log::Level::warning}));
  log::write(log::Level::warning, "shown");
  log::write(log::Level::info, "hidden");
  EXPECT_NE(content().find("warning: shown\n"), std::string::npos);
  EXPECT_EQ(content().find("hidden"), std::string::npos);
}

TEST_F(LogTest, RefusesWhatItCannotLogTo) {
  EXPECT_FALSE(log::open({"journald:x", log::Format::text, log::Level::error}));
  EXPECT_FALSE(log::open({"syslog:x", log::Format::text, log::Level::error}));
  EXPECT_FALSE(log::parse_level("loud"));
  EXPECT_FALSE(log::parse_format("xml"));
  EXPECT_EQ(log::parse_level("Warn").value(), log::Level::warning);
}

}  // namespace
}  // namespace agentrun
