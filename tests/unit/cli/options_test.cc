#include "cli/options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace agentrun::cli {
namespace {

struct Values {
  std::string bundle = ".", pid_file;
  std::vector<std::string> env;
  bool detach = false, no_subreaper = false, tty = false;
  unsigned preserve_fds = 0;
};

OptionParser make_parser(Values& values, Order order = Order::anywhere) {
  OptionParser parser("create", "ID", "Make a container.", order);
  parser.text("bundle,b", "DIR", values.bundle, "directory of config.json (default: .)")
      .text("pid-file", "FILE", values.pid_file, "write the pid there")
      .list("env,e", "K=V", values.env, "add to the environment")
      .flag("detach,d", values.detach, "do not wait")
      .flag("no-subreaper", values.no_subreaper, "accepted")
      .flag("tty,t", values.tty, "a terminal")
      .number("preserve-fds", values.preserve_fds, "fds to pass")
      .ignored("hidden", "X");
  return parser;
}

std::vector<std::string> operands_of(const Result<OptionParser::Parsed>& parsed) {
  return parsed.has_value() ? parsed->operands : std::vector<std::string>{"error: " + parsed.error().message()};
}

using Words = std::vector<std::string>;

TEST(Options, EverySpellingOfAValue) {
  for (const Words& words :
       {Words{"--bundle", "/b", "id"}, Words{"--bundle=/b", "id"}, Words{"-b", "/b", "id"}, Words{"-b/b", "id"},
        Words{"-b=/b", "id"}, Words{"-bundle", "/b", "id"}, Words{"-bundle=/b", "id"}, Words{"id", "--bundle", "/b"}}) {
    Values values;
    EXPECT_EQ(operands_of(make_parser(values).parse(words)), Words{"id"});
    EXPECT_EQ(values.bundle, "/b") << words[0];
  }
}

TEST(Options, SwitchesAloneTogetherAndWithATruthValue) {
  Values values;
  EXPECT_EQ(operands_of(make_parser(values).parse({"-dt", "-no-subreaper", "--tty=false", "x"})), Words{"x"});
  EXPECT_TRUE(values.detach);
  EXPECT_TRUE(values.no_subreaper);
  EXPECT_FALSE(values.tty);
  EXPECT_FALSE(make_parser(values).parse({"--detach=maybe"}));
}

TEST(Options, ListsKeepOrderAndAttachedValues) {
  Values values;
  EXPECT_EQ(operands_of(make_parser(values).parse({"-e", "A=1", "-eB=2", "--env=C=3", "x"})), Words{"x"});
  EXPECT_EQ(values.env, (Words{"A=1", "B=2", "C=3"}));
}

TEST(Options, AValueMayLookLikeAnOption) {
  Values values;
  EXPECT_EQ(operands_of(make_parser(values).parse({"--pid-file", "-1", "x"})), Words{"x"});
  EXPECT_EQ(values.pid_file, "-1");
}

TEST(Options, TheFirstOperandEndsThemWhereTheRestIsACommand) {
  Values values;
  const auto parsed = make_parser(values, Order::before_operand).parse({"-d", "id", "ls", "--bundle", "-z"});
  EXPECT_EQ(operands_of(parsed), (Words{"id", "ls", "--bundle", "-z"}));
  EXPECT_EQ(parsed->consumed, 1U);
  EXPECT_EQ(values.bundle, ".");
}

TEST(Options, TwoDashesEndThem) {
  Values values;
  EXPECT_EQ(operands_of(make_parser(values).parse({"a", "--", "-d", "--help"})), (Words{"a", "-d", "--help"}));
  EXPECT_FALSE(values.detach);
  EXPECT_EQ(operands_of(make_parser(values).parse({"-"})), Words{"-"});
}

TEST(Options, ErrorsNameCommandAndOption) {
  Values values;
  const OptionParser parser = make_parser(values).operands(1, 1);
  EXPECT_EQ(parser.parse({"x", "--bundel", "y"}).error().message(),
            "create --bundel: unknown option; did you mean --bundle?");
  EXPECT_EQ(parser.parse({"x", "--zzzz"}).error().message(), "create --zzzz: unknown option");
  EXPECT_EQ(parser.parse({"x", "-z"}).error().message(), "create -z: unknown option");
  EXPECT_EQ(parser.parse({"x", "--bundle"}).error().message(), "create --bundle: requires an argument");
  EXPECT_EQ(parser.parse({"x", "-b"}).error().message(), "create -b: requires an argument");
  EXPECT_EQ(parser.parse({"--preserve-fds", "1x", "x"}).error().message(), "create --preserve-fds: not a number: 1x");
  EXPECT_EQ(parser.parse({"--preserve-fds", "4294967296", "x"}).error().message(),
            "create --preserve-fds: not a number: 4294967296");
  EXPECT_EQ(parser.parse({"x", "y"}).error().message(), "create y: one argument too many");
  EXPECT_EQ(parser.parse({}).error().message(), "create: needs ID; see agentrun create --help");
}

TEST(Options, HelpShowsWhatIsDeclaredAndNothingHidden) {
  Values values;
  const OptionParser parser = make_parser(values);
  const std::string help = parser.help();
  EXPECT_TRUE(help.starts_with("Usage: agentrun create [OPTION...] ID\n\nMake a container.\n")) << help;
  EXPECT_NE(help.find("  -b, --bundle DIR      directory of config.json (default: .)\n"), std::string::npos) << help;
  EXPECT_NE(help.find("      --pid-file FILE   write the pid there\n"), std::string::npos) << help;
  EXPECT_EQ(help.find("hidden"), std::string::npos);
  for (const char* word : {"--help", "-h", "-help"}) EXPECT_TRUE(parser.parse({"--detach", word, "--zzz"})->help);
}

TEST(Options, NearestIsNearOrNothing) {
  EXPECT_EQ(nearest("creat", {"create", "delete"}), "create");
  EXPECT_EQ(nearest("resmue", {"resume", "run"}), "resume");
  EXPECT_EQ(nearest("zzzzzz", {"create", "delete"}), "");
}

}  // namespace
}  // namespace agentrun::cli
