// The man pages are the reference: each option that a command shows in its help is in its page.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include "cli/commands.h"
#include "cli/global_options.h"

namespace agentrun::cli {
namespace {

std::string read_page(const std::string& name) {
  std::ifstream file(std::string(SOURCE_DIR) + "/man/" + name + ".1");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void expect_options_in_page(const std::string& help, const std::string& page_name) {
  const std::string page = read_page(page_name);
  ASSERT_FALSE(page.empty()) << "no man/" << page_name << ".1";
  const std::regex option("\n +(-[a-z], )?--([a-z-]+)");
  for (auto match = std::sregex_iterator(help.begin(), help.end(), option); match != std::sregex_iterator(); ++match) {
    const std::string name = (*match)[2];
    if (name == "help") continue;
    EXPECT_TRUE(std::regex_search(page, std::regex("Fl Fl " + name + "([ =\n]|$)")))
        << page_name << " does not tell of --" << name;
  }
}

TEST(ManPages, TellOfEveryOption) {
  expect_options_in_page(global_help(), "agentrun");
  for (const Command& command : commands()) {
    if (std::string(command.name) == "version") continue;
    testing::internal::CaptureStdout();
    const auto status = command.run({{}, {"--help"}});
    const std::string help = testing::internal::GetCapturedStdout();
    ASSERT_TRUE(status.has_value()) << command.name;
    EXPECT_TRUE(help.starts_with(std::string("Usage: agentrun ") + command.name)) << help;
    expect_options_in_page(help, std::string("agentrun-") + command.name);
  }
}

TEST(ManPages, ListEveryCommand) {
  const std::string page = read_page("agentrun");
  for (const Command& command : commands()) {
    EXPECT_NE(page.find(command.name), std::string::npos) << command.name;
  }
}

}  // namespace
}  // namespace agentrun::cli
