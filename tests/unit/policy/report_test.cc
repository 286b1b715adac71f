#include <gtest/gtest.h>

#include "policy/harden.h"

namespace agentrun::policy {
namespace {

Report sample() {
  return {"strict",
          {{"/linux/resources/memory/limit", "2147483648", "536870912", "strict /limits/memory"},
           {"/process/env/3", "\"AWS_SECRET\"", "", "strict /env/filter"},
           {"/annotations/run.oci.\x1b[2J", "\"a\\u001b\"", "", "strict /annotations/ignore_runtime"}},
          {"the working directory / stays read-only"}};
}

TEST(Report, IsReadBackAsItWas) {
  const Report report = sample();
  const auto again = parse_report(print_report(report), "report.json");
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->policy, report.policy);
  EXPECT_EQ(again->notes, report.notes);
  ASSERT_EQ(again->changes.size(), report.changes.size());
  for (std::size_t i = 0; i < report.changes.size(); ++i) {
    EXPECT_EQ(again->changes[i].pointer, report.changes[i].pointer);
    EXPECT_EQ(again->changes[i].before, report.changes[i].before);
    EXPECT_EQ(again->changes[i].after, report.changes[i].after);
    EXPECT_EQ(again->changes[i].rule, report.changes[i].rule);
  }
  EXPECT_EQ(print_report(*again), print_report(report));
}

TEST(Report, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"", "{}", R"({"version": 2, "policy": "x"})", R"({"version": 1})",
                           R"({"version": 1, "policy": "x", "changes": [{"pointer": "/a"}]})"}) {
    EXPECT_FALSE(parse_report(text, "report.json")) << text;
  }
  EXPECT_TRUE(parse_report(R"({"version": 1, "policy": "x", "later": true})", "report.json"));
}

TEST(ExplainReport, IsATable) {
  const std::string table = explain_report(sample());
  EXPECT_NE(table.find("policy: strict\n"), std::string::npos) << table;
  EXPECT_NE(table.find("POINTER"), std::string::npos);
  EXPECT_NE(table.find("/linux/resources/memory/limit  2G            512M   strict /limits/memory\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("/process/env/3                 \"AWS_SECRET\"  -      strict /env/filter\n"), std::string::npos)
      << table;
  EXPECT_NE(table.find("note: the working directory / stays read-only\n"), std::string::npos);
  EXPECT_EQ(explain_report({"oci", {}, {}}), "policy: oci\nnothing was changed\n");
}

TEST(ExplainReport, SendsNothingHostileToATerminal) {
  const std::string table = explain_report(sample());
  EXPECT_EQ(table.find('\x1b'), std::string::npos);
  EXPECT_NE(table.find("run.oci.\\x1b[2J"), std::string::npos) << table;
}

TEST(ExplainReport, CutsWideCells) {
  Report report = sample();
  report.changes[0].before = "\"" + std::string(5 << 20, 'x') + "END\"";
  for (int i = 0; i < 100; ++i) report.changes[1].before += "\xc3\xa9";
  const std::string table = explain_report(report);
  EXPECT_LT(table.size(), 2000u);
  EXPECT_NE(table.find("END\""), std::string::npos);
  EXPECT_EQ(table.find("\\x"), table.find("\\x1b")) << "a character was cut in two";
}

}  // namespace
}  // namespace agentrun::policy
