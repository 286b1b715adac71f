#include "policy/settings.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>

#include "manual.h"

namespace agentrun::policy {
namespace {

std::string error_of(std::string_view json) {
  const auto settings = parse_settings(json, "/etc/agentrun/agentrun.json");
  return settings ? "accepted" : settings.error().message();
}

TEST(ParseSettings, EmptyIsTheDefault) {
  const auto settings = parse_settings("{}", "agentrun.json");
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->default_policy, "strict");
  EXPECT_TRUE(settings->selectable.empty() && settings->hook_directories.empty() && settings->roots.empty());
  EXPECT_FALSE(settings->guard.any() || settings->annotations.deadline || settings->annotations.network);
  EXPECT_FALSE(settings->annotations.env_keep);
}

TEST(ParseSettings, HasEverySection) {
  const auto settings = parse_settings(R"({
    "$schema": "agentrun.schema.json", "description": "ours", "default": "web", "selectable": ["strict", "build"],
    "annotations": {"deadline": "2h", "memory": "2G", "cpus": "1.5", "pids": 512, "network": "config", "env_keep": ["CI*"]},
    "hooks": {"directories": ["/usr/libexec/oci/hooks"]},
    "roots": {"/run/containerd/runc/k8s.io": {"engine": "cri", "default": "session"}, "/run/x": {}},
    "guard": {"containers": 100, "memory": "16G", "pids": 8192, "exempt_users": true}})",
                                       "agentrun.json");
  ASSERT_TRUE(settings) << settings.error().message();
  EXPECT_EQ(settings->default_policy, "web");
  EXPECT_EQ(settings->selectable, (std::vector<std::string>{"strict", "build"}));
  EXPECT_EQ(settings->annotations.deadline, 7'200'000'000);
  EXPECT_EQ(settings->annotations.memory, 2ll << 30);
  EXPECT_EQ(settings->annotations.cpus, 1500);
  EXPECT_EQ(settings->annotations.pids, 512);
  EXPECT_TRUE(settings->annotations.network);
  EXPECT_EQ(settings->annotations.env_keep, std::vector<std::string>{"CI*"});
  EXPECT_EQ(settings->hook_directories, std::vector<std::string>{"/usr/libexec/oci/hooks"});
  EXPECT_TRUE(settings_of_root(*settings, "/run/containerd/runc/k8s.io").cri);
  EXPECT_EQ(settings_of_root(*settings, "/run/containerd/runc/k8s.io").default_policy, "session");
  EXPECT_FALSE(settings_of_root(*settings, "/run/x").cri);
  EXPECT_FALSE(settings_of_root(*settings, "/run/containerd/runc").cri);
  EXPECT_EQ(settings->guard.containers, 100);
  EXPECT_EQ(settings->guard.memory, 16ll << 30);
  EXPECT_EQ(settings->guard.pids, 8192);
  EXPECT_TRUE(settings->guard.exempt_users);
}

TEST(ParseSettings, RefusesAndNamesThePlace) {
  const std::vector<std::pair<std::string, const char*>> cases = {
      {R"({"defualt": "strict"})", "/defualt"},
      {R"({"default": ""})", "/default"},
      {R"({"default": "../x"})", "/default"},
      {R"({"default": "/etc/x.json"})", "/default"},
      {R"({"default": 1})", "/default"},
      {R"({"default": "a", "default": "b"})", "/default"},
      {R"({"selectable": "strict"})", "/selectable"},
      {R"({"selectable": ["strict", ""]})", "/selectable/1"},
      {R"({"selectable": ["a\nb"]})", "parse"},
      {R"({"selectable": ["a\u000ab"]})", "/selectable/0"},
      {R"({"selectable": [")" + std::string(1 << 19, 'a') + "\"]}", "/selectable/0"},
      {R"({"annotations": {"memory": "none"}})", "/annotations/memory: expected a bound"},
      {R"({"annotations": {"deadline": "none"}})", "/annotations/deadline"},
      {R"({"annotations": {"deadline": 60}})", "/annotations/deadline"},
      {R"({"annotations": {"memory": 1e30}})", "/annotations/memory"},
      {R"({"annotations": {"memory": -1}})", "/annotations/memory"},
      {R"({"annotations": {"memory": "99999999999T"}})", "/annotations/memory"},
      {R"({"annotations": {"cpus": "0"}})", "/annotations/cpus"},
      {R"({"annotations": {"pids": 99999999999}})", "/annotations/pids"},
      {R"({"annotations": {"network": "inherit"}})", "/annotations/network"},
      {R"({"annotations": {"env_keep": [""]}})", "/annotations/env_keep/0"},
      {R"({"annotations": {"env_keep": ["A=B"]}})", "/annotations/env_keep/0"},
      {R"({"annotations": {"org.agentrun.memory": "1G"}})", "/annotations/org.agentrun.memory"},
      {R"({"hooks": ["/usr/libexec"]})", "/hooks"},
      {R"({"hooks": {"directories": ["hooks"]}})", "/hooks/directories/0"},
      {R"({"hooks": {"directories": ["/a/../b"]}})", "/hooks/directories/0"},
      {R"({"roots": {"run": {}}})", "/roots/run"},
      {R"({"roots": {"/run/": {}}})", "/roots/~1run~1"},
      {R"({"roots": {"": {}}})", "/roots"},
      {R"({"roots": {"/run": {"engine": "docker"}}})", "/roots/~1run/engine"},
      {R"({"roots": {"/run": {"policy": "x"}}})", "/roots/~1run/policy"},
      {R"({"guard": {"containers": 0}})", "/guard/containers"},
      {R"({"guard": {"containers": -5}})", "/guard/containers"},
      {R"({"guard": {"containers": 1000001}})", "/guard/containers"},
      {R"({"guard": {"memory": "1M"}})", "/guard/memory"},
      {R"({"guard": {"memory": 1e30}})", "/guard/memory"},
      {R"({"guard": {"pids": 18446744073709551616}})", "/guard/pids"},
      {R"({"guard": {"exempt_users": 1}})", "/guard/exempt_users"},
  };
  for (const auto& [json, pointer] : cases) {
    const std::string error = error_of(json);
    EXPECT_NE(error.find("/etc/agentrun/agentrun.json"), std::string::npos) << json.substr(0, 80) << ": " << error;
    EXPECT_NE(error.find(pointer), std::string::npos) << json.substr(0, 80) << ": " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    EXPECT_LT(error.size(), 400u);
  }
  for (const char* text : {"", "null", "[]", "{", "\"strict\"", "{} {}", "\xff"}) {
    EXPECT_NE(error_of(text).find("/etc/agentrun/agentrun.json"), std::string::npos) << text;
  }
  EXPECT_NE(error_of(std::string(2 << 20, ' ')), "accepted");
}

// A key that the schema has is one that the parser has: each in turn, with a value that is right for it.
TEST(SettingsSchema, HasTheKeysOfTheParser) {
  std::ifstream file(SOURCE_DIR "/policies/agentrun.schema.json");
  std::stringstream text;
  text << file.rdbuf();
  const auto schema = boost::json::parse(text.str());
  std::vector<std::string> sections;
  for (const auto& property : schema.at("properties").as_object()) sections.emplace_back(property.key());
  EXPECT_EQ(sections, (std::vector<std::string>{"$schema", "description", "default", "selectable", "annotations",
                                                "hooks", "roots", "guard"}));
  const auto keys_of = [&](const char* pointer) {
    std::vector<std::string> keys;
    for (const auto& property : schema.at_pointer(pointer).as_object()) keys.emplace_back(property.key());
    return keys;
  };
  EXPECT_EQ(keys_of("/properties/annotations/properties"),
            (std::vector<std::string>{"deadline", "memory", "cpus", "pids", "network", "env_keep"}));
  EXPECT_EQ(keys_of("/properties/hooks/properties"), std::vector<std::string>{"directories"});
  EXPECT_EQ(keys_of("/properties/roots/additionalProperties/properties"),
            (std::vector<std::string>{"engine", "default"}));
  EXPECT_EQ(keys_of("/properties/guard/properties"),
            (std::vector<std::string>{"containers", "memory", "pids", "exempt_users"}));
}

// Every example of the reference is a file that is taken, and every section has one.
TEST(SettingsManual, ItsExamplesAreRight) {
  const auto examples = manual::examples(SOURCE_DIR "/man/agentrun.json.5");
  EXPECT_GE(examples.size(), 8u);
  std::string all;
  for (const std::string& example : examples) {
    EXPECT_EQ(error_of(example), "accepted") << example;
    all += example;
  }
  for (const char* section : {"default", "selectable", "annotations", "hooks", "roots", "guard"}) {
    EXPECT_NE(all.find("\"" + std::string(section) + "\":"), std::string::npos) << section;
  }
}

}  // namespace
}  // namespace agentrun::policy
