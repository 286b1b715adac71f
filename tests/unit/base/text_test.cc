#include "base/text.h"

#include <gtest/gtest.h>

#include <limits>

namespace agentrun::text {
namespace {

TEST(ParseUnsigned, TakesDigitsOnly) {
  EXPECT_EQ(parse_unsigned("0"), 0u);
  EXPECT_EQ(parse_unsigned("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  for (const char* bad : {"", " 1", "1 ", "+1", "-1", "0x1", "1a", "18446744073709551616"}) {
    EXPECT_FALSE(parse_unsigned(bad)) << bad;
  }
}

TEST(ParseSigned, KeepsTheSign) {
  EXPECT_EQ(parse_signed("-1"), -1);
  for (const char* bad : {"-0", "--1", "9223372036854775808", "-"}) EXPECT_FALSE(parse_signed(bad)) << bad;
}

TEST(ParseDuration, AddsUnitsFromLargeToSmall) {
  EXPECT_EQ(*parse_duration("90s"), 90'000'000);
  EXPECT_EQ(*parse_duration("1h30m"), 5'400'000'000);
  EXPECT_EQ(*parse_duration("500ms"), 500'000);
  EXPECT_EQ(*parse_duration("2d"), 172'800'000'000);
  for (const char* bad : {"", "10", "s", "30m1h", "1h1h", "-1s", "1.5h", "1 h", "1y", "99999999999999999d"}) {
    EXPECT_FALSE(parse_duration(bad)) << bad;
  }
  EXPECT_EQ(print_duration(5'400'000'000), "1h30m");
  EXPECT_EQ(print_duration(0), "0s");
}

TEST(ParseSize, CountsInPowersOf1024) {
  EXPECT_EQ(*parse_size("512M"), 512ll << 20);
  EXPECT_EQ(*parse_size("2G"), 2ll << 30);
  EXPECT_EQ(*parse_size("64k"), 65536);
  EXPECT_EQ(*parse_size("1.5G"), 3ll << 29);
  EXPECT_EQ(*parse_size("1024"), 1024);
  EXPECT_EQ(*parse_size("2GiB"), 2ll << 30);
  for (const char* bad : {"", "M", "-1", "1X", "1e30", "1.5", "9999999999999T", "1 M"}) {
    EXPECT_FALSE(parse_size(bad)) << bad;
  }
  EXPECT_EQ(print_size(512ll << 20), "512M");
  EXPECT_EQ(print_size(1000), "1000");
}

TEST(ParseCpus, IsInMilliCpu) {
  EXPECT_EQ(*parse_cpus("1.5"), 1500);
  EXPECT_EQ(*parse_cpus("2"), 2000);
  for (const char* bad : {"", "1.", ".5", "1.2345", "-1", "1e3"}) EXPECT_FALSE(parse_cpus(bad)) << bad;
}

TEST(GlobMatch, KnowsStarAndQuestionMark) {
  EXPECT_TRUE(glob_match("LC_*", "LC_ALL"));
  EXPECT_TRUE(glob_match("*TOKEN*", "GITHUB_TOKEN"));
  EXPECT_TRUE(glob_match("a?c", "abc"));
  EXPECT_TRUE(glob_match("*a*b", "xxaxxab"));
  EXPECT_FALSE(glob_match("LC_*", "LANG"));
  EXPECT_FALSE(glob_match("", "a"));
  EXPECT_TRUE(glob_match("*", ""));
}

TEST(Printable, LeavesNothingThatDrivesATerminal) {
  EXPECT_EQ(printable("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(printable("line\nline"), "line\\x0aline");
  EXPECT_EQ(printable("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(printable("\xff\xc2\x9b"), "\\xff\\xc2\\x9b");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(CleanPath, NeverClimbsOverTheRoot) {
  EXPECT_EQ(clean_path("/a//b/./c/"), "/a/b/c");
  EXPECT_EQ(clean_path("/../../etc"), "/etc");
  EXPECT_EQ(clean_path("a/../b"), "/b");
  EXPECT_EQ(clean_path(""), "/");
}

TEST(PathWithin, ComparesWholeParts) {
  EXPECT_TRUE(path_within("/etc/passwd", "/etc"));
  EXPECT_TRUE(path_within("/etc", "/etc"));
  EXPECT_FALSE(path_within("/etcetera", "/etc"));
  EXPECT_TRUE(path_within("/x", "/"));
}

}  // namespace
}  // namespace agentrun::text
