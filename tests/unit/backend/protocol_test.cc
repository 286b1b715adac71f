#include "backend/native/protocol.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>

#include "sys/socket.h"

namespace agentrun::native {
namespace {

class ProtocolTest : public testing::Test {
 protected:
  void SetUp() override {
    auto pair = sys::socket_pair(SOCK_SEQPACKET);
    ASSERT_TRUE(pair.has_value());
    ours_ = std::move(pair->first);
    theirs_ = std::move(pair->second);
  }
  UniqueFd ours_, theirs_;
};

TEST_F(ProtocolTest, AnErrorComesOutAsItWentIn) {
  Error error = os_error(ENOENT, "open", std::string("a\0b\n", 4));
  error.exit_status = 127;
  tell_failure(theirs_.get(), error);
  const auto heard = expect(ours_.get(), Kind::ready);
  ASSERT_FALSE(heard.has_value());
  EXPECT_EQ(heard.error().code, ENOENT);
  EXPECT_EQ(heard.error().exit_status, 127);
  EXPECT_EQ(heard.error().message(), "open a\\x00b\\x0a: No such file or directory");
}

TEST_F(ProtocolTest, AnErrorOfAnySizeIsOneMessage) {
  tell_failure(theirs_.get(), refusal(std::string(100'000, 'x'), std::string(100'000, 'y'), "too long"));
  const auto heard = listen_to(ours_.get());
  ASSERT_FALSE(heard.has_value());
  EXPECT_EQ(heard.error().reason, "too long");
}

TEST_F(ProtocolTest, TheEndOfTheOtherSideIsAnErrorWhereAMessageIsExpected) {
  theirs_.reset();
  const auto heard = expect(ours_.get(), Kind::ready);
  ASSERT_FALSE(heard.has_value());
  EXPECT_EQ(heard.error().reason,
            "it was killed before the container was ready (limits of memory or processes that are too small do that)");
}

TEST_F(ProtocolTest, AMessageOutOfTurnIsRefused) {
  ASSERT_TRUE(tell(theirs_.get(), Kind::go).has_value());
  EXPECT_FALSE(expect(ours_.get(), Kind::ready).has_value());
}

TEST_F(ProtocolTest, FdsComeWithTheirMessage) {
  ASSERT_TRUE(tell(theirs_.get(), Kind::ready, "/dev/pts/0", {theirs_.get()}).has_value());
  const auto heard = expect(ours_.get(), Kind::ready);
  ASSERT_TRUE(heard.has_value());
  EXPECT_EQ(heard->payload, "/dev/pts/0");
  EXPECT_EQ(heard->fds.size(), 1u);
}

TEST(DecodeFailure, SurvivesWhatIsCutOff) {
  for (const char* text : {"", "x", "1234567", "12345678\xff\xff\xff\xff"}) {
    EXPECT_NO_THROW((void)decode_failure(text).message());
  }
}

}  // namespace
}  // namespace agentrun::native
