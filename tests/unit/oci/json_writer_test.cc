#include "oci/json_writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace agentrun::oci {
namespace {

std::string quoted(std::string_view text) {
  JsonWriter out(Layout::compact);
  out.string(text);
  return out.take();
}

TEST(JsonWriter, EscapesStrings) {
  EXPECT_EQ(quoted("plain"), R"("plain")");
  EXPECT_EQ(quoted("a\"b\\c\n\r\t\x01/"), R"("a\"b\\c\n\r\t\u0001/")");
  EXPECT_EQ(quoted(std::string_view("\0", 1)), R"("\u0000")");
  EXPECT_EQ(quoted("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), "\"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
}

TEST(JsonWriter, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(quoted("a\xff"
                   "b"),
            "\"a\xef\xbf\xbd"
            "b\"");
  EXPECT_EQ(quoted("\xc3"), "\"\xef\xbf\xbd\"");
  EXPECT_EQ(quoted("\xc0\xaf"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");                  // overlong
  EXPECT_EQ(quoted("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");  // surrogate
  EXPECT_EQ(quoted("\xf4\x90\x80\x80").size(), 2u + 4 * 3);                       // beyond U+10FFFF
  EXPECT_EQ(quoted("\xe2\x82\""), "\"\xef\xbf\xbd\xef\xbf\xbd\\\"\"");            // cut by a quote
}

TEST(JsonWriter, LaysOut) {
  const auto write = [](Layout layout) {
    JsonWriter out(layout);
    out.begin_object();
    out.member("list", std::vector<std::string>{"a", "b"});
    out.member("none", std::vector<std::string>{});
    out.member("map", std::map<std::string, std::uint64_t>{{"big", UINT64_MAX}});
    out.member("small", INT64_MIN);
    out.member("yes", true);
    out.member_if_set("no", false);
    out.member_if_set("empty", std::string());
    out.member_if_set("zero", std::optional<int>(0));
    out.member_if_set("absent", std::optional<int>());
    out.end_object();
    return out.take();
  };
  EXPECT_EQ(write(Layout::compact), R"({"list":["a","b"],"none":[],"map":{"big":18446744073709551615},)"
                                    R"("small":-9223372036854775808,"yes":true,"zero":0})");
  EXPECT_EQ(write(Layout::indented), R"({
  "list": [
    "a",
    "b"
  ],
  "none": [],
  "map": {
    "big": 18446744073709551615
  },
  "small": -9223372036854775808,
  "yes": true,
  "zero": 0
})");
}

}  // namespace
}  // namespace agentrun::oci
