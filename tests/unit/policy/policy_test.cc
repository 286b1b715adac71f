#include "policy/policy.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <map>
#include <sstream>

#include "manual.h"

namespace agentrun::policy {
namespace {

std::string error_of(std::string_view json) {
  const auto policy = parse_policy(json, "p.json");
  return policy ? "accepted" : policy.error().message();
}

Policy parsed(std::string_view json) {
  const auto policy = parse_policy(json, "p.json");
  EXPECT_TRUE(policy) << policy.error().message();
  return policy ? *policy : Policy();
}

TEST(BuiltinPolicies, AreThere) {
  EXPECT_EQ(builtin_names(), (std::vector<std::string>{"build", "oci", "session", "strict"}));
  for (const auto& name : builtin_names()) {
    const auto policy = builtin_policy(name);
    ASSERT_TRUE(policy) << policy.error().message();
    EXPECT_EQ(policy->name, name);
    EXPECT_EQ(policy->change_nothing, name == "oci");
  }
  EXPECT_FALSE(builtin_policy("nothing"));
  EXPECT_FALSE(builtin_policy(""));
  EXPECT_EQ(builtin_text("nothing"), "");
}

TEST(BuiltinPolicies, StrictIsWhatIsPromised) {
  const Policy p = *builtin_policy("strict");
  EXPECT_TRUE(p.env.filter && p.rootfs.readonly && p.workdir.writable && p.workdir.home && p.workdir.cwd);
  EXPECT_EQ(p.workdir.empty, (std::vector<std::string>{"/tmp", "/var/tmp", "/run"}));
  EXPECT_TRUE(p.mounts.restrict_binds && p.mounts.refuse_special && p.mounts.force_readonly && p.mounts.force_nosuid &&
              p.mounts.force_nodev && p.mounts.restrict_types);
  EXPECT_TRUE(p.mounts.allow_writable.empty());
  EXPECT_EQ(p.network.mode, NetworkMode::none);
  EXPECT_EQ(p.limits.memory, 512ll << 20);
  EXPECT_EQ(p.limits.cpus, 1000);
  EXPECT_EQ(p.limits.pids, 128);
  EXPECT_EQ(p.limits.nofile, 1024u);
  EXPECT_EQ(p.limits.fsize, 256u << 20);
  EXPECT_EQ(p.limits.core, 0u);
  EXPECT_TRUE(p.limits.no_swap && p.limits.cpu_mask && p.limits.no_hugepages && p.limits.normal_priority);
  EXPECT_EQ(p.deadline.container, 600'000'000);
  EXPECT_EQ(p.deadline.created, 600'000'000);
  EXPECT_TRUE(p.namespaces.private_all && p.user.no_new_privileges && p.user.refuse_root_with_capabilities);
  EXPECT_TRUE(p.capabilities.restrict && p.capabilities.keep.empty());
  EXPECT_EQ(p.seccomp.program, "strict");
  EXPECT_EQ(p.apparmor.profile, "agentrun-strict");
  EXPECT_TRUE(p.devices.standard_only && p.sysctl.namespaced_only && p.hooks.refuse_config &&
              p.annotations.ignore_runtime && p.audit.enable);
  EXPECT_EQ(p.require, (std::vector<std::string>{"seccomp", "namespaces", "cgroup.memory", "cgroup.pids"}));
}

TEST(BuiltinPolicies, OthersAreStrictWithMoreRoom) {
  const Policy strict = *builtin_policy("strict");
  for (const char* name : {"build", "session"}) {
    const Policy p = *builtin_policy(name);
    EXPECT_EQ(p.extends, "strict");
    EXPECT_EQ(p.env.keep, strict.env.keep);
    EXPECT_EQ(p.mounts.refuse_sources, strict.mounts.refuse_sources);
    EXPECT_EQ(p.network.mode, NetworkMode::none);
    EXPECT_TRUE(p.capabilities.restrict && p.capabilities.keep.empty() && p.seccomp.program == "strict");
    EXPECT_GT(*p.limits.memory, *strict.limits.memory);
  }
  EXPECT_EQ(builtin_policy("session")->deadline.container, 86'400'000'000);
  const Policy build = *builtin_policy("build");
  EXPECT_EQ(build.deadline.container, 600'000'000);
  EXPECT_EQ(build.limits.cpus, 2000);
  EXPECT_EQ(build.limits.memory, 2ll << 30);
  EXPECT_EQ(build.workdir.backing, Backing::disk_or_memory);
  EXPECT_EQ(build.workdir.size, 8ll << 30);
}

TEST(PolicyFile, AnAllowlistIsRefusedUntilThereIsOne) {
  EXPECT_NE(
      error_of(R"({"network": {"mode": "allowlist"}})").find("/network/mode: this version cannot let a container"),
      std::string::npos);
}

TEST(PolicyFile, DiskAndIoArePrintedAndReadBack) {
  const Policy p = parsed(R"({"workdir": {"backing": "disk", "directory": "/srv/d", "size": "1G"},
                              "limits": {"io": {"read_bps": "1M", "write_bps": 8192, "read_iops": 5}}})");
  EXPECT_EQ(p.workdir.backing, Backing::disk);
  EXPECT_EQ(p.limits.io.read_bps, 1 << 20);
  EXPECT_EQ(p.limits.io.write_bps, 8192);
  EXPECT_EQ(p.limits.io.read_iops, 5);
  EXPECT_FALSE(p.limits.io.write_iops);
  const std::string text = print_policy(p);
  EXPECT_EQ(print_policy(*parse_policy(text, "again")), text);
  EXPECT_EQ(parse_policy(text, "again")->workdir.directory, "/srv/d");
}

// A file that says one thing about memory must not be a policy that says nothing about the rest.
TEST(ParsePolicy, StartsFromStrict) {
  const Policy p = parsed(R"({"limits": {"memory": "1G"}})");
  EXPECT_EQ(p.limits.memory, 1ll << 30);
  EXPECT_EQ(p.extends, "strict");
  EXPECT_TRUE(p.capabilities.restrict);
  EXPECT_EQ(p.name, "p.json");
  EXPECT_TRUE(parsed("{}").rootfs.readonly);
}

TEST(ParsePolicy, ExtendsWhatItNames) {
  const Policy p = parsed(R"({"extends": "oci", "limits": {"pids": 7}})");
  EXPECT_FALSE(p.change_nothing);
  EXPECT_FALSE(p.capabilities.restrict);
  EXPECT_EQ(p.limits.pids, 7);
  EXPECT_TRUE(parsed(R"({"extends": "oci"})").change_nothing);
  EXPECT_TRUE(parsed(R"({"change_nothing": true, "description": "plain"})").change_nothing);
  EXPECT_NE(error_of(R"({"extends": "loose"})").find("/extends"), std::string::npos);
  EXPECT_NE(error_of(R"({"extends": "p.json"})").find("/extends"), std::string::npos);
  EXPECT_NE(error_of(R"({"change_nothing": true, "limits": {"pids": 1}})").find("/change_nothing"), std::string::npos);
}

// Files of the administrator, by name.
FindPolicy files(const std::map<std::string, std::string>& texts) {
  return [texts](const std::string& name) -> Result<PolicyText> {
    const auto found = texts.find(name);
    if (found == texts.end()) return refusal("policy", name, "there is none of that name");
    return PolicyText{found->second, "/p/" + name + ".json"};
  };
}

std::string error_with(const std::string& json, const std::map<std::string, std::string>& texts) {
  const auto policy = parse_policy(json, "/p/top.json", files(texts));
  return policy ? "accepted" : policy.error().message();
}

TEST(ParsePolicy, ExtendsFiles) {
  const auto policy = parse_policy(R"({"extends": "team", "limits": {"pids": 7}})", "/p/top.json",
                                   files({{"team", R"({"extends": "base", "limits": {"memory": "1G"}})"},
                                          {"base", R"({"extends": "build", "limits": {"pids": 9}})"}}));
  ASSERT_TRUE(policy) << policy.error().message();
  EXPECT_EQ(policy->limits.pids, 7);
  EXPECT_EQ(policy->limits.memory, 1ll << 30);
  EXPECT_EQ(policy->limits.cpus, builtin_policy("build")->limits.cpus);
  EXPECT_EQ(policy->extends, "team");
  EXPECT_TRUE(policy->capabilities.restrict);
  // What is kept for exec stands alone, whatever becomes of the files.
  const auto again = parse_policy(print_policy(*policy), policy->name);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(print_policy(*again), print_policy(*policy));
}

TEST(ParsePolicy, ABuiltInNameIsNeverAFile) {
  const auto policy = parse_policy("{}", "p", files({{"strict", R"({"change_nothing": true})"}}));
  ASSERT_TRUE(policy);
  EXPECT_TRUE(policy->capabilities.restrict);
}

TEST(ParsePolicy, CirclesAndTowersEnd) {
  EXPECT_EQ(error_with(R"({"extends": "a"})", {{"a", R"({"extends": "b"})"}, {"b", R"({"extends": "a"})"}}),
            "parse /p/b.json /extends: a circle: /p/top.json extends a extends b extends a");
  EXPECT_NE(error_with(R"({"extends": "a"})", {{"a", R"({"extends": "a"})"}}).find("/extends: a circle"),
            std::string::npos);
  std::map<std::string, std::string> tower;
  for (int i = 0; i < 20; ++i) tower["p" + std::to_string(i)] = R"({"extends": "p)" + std::to_string(i + 1) + "\"}";
  EXPECT_NE(error_with(R"({"extends": "p0"})", tower).find("/extends: more than 8 policies"), std::string::npos);
}

// An error in a file that is extended names that file.
TEST(ParsePolicy, NamesTheFileThatIsWrong) {
  const std::string error = error_with(R"({"extends": "a"})", {{"a", R"({"limits": {"pids": -1}})"}});
  EXPECT_TRUE(error.starts_with("parse /p/a.json /limits/pids")) << error;
  EXPECT_EQ(error_with(R"({"extends": "b"})", {}), "parse /p/top.json /extends: policy b: there is none of that name");
  for (const char* name : {"../etc/x", "/etc/x", ".hidden", "-option", "a b", "", "a\\u0000b"}) {
    const std::string text = error_with(std::string(R"({"extends": ")") + name + "\"}", {});
    EXPECT_TRUE(text.find("/extends: ") != std::string::npos) << name << ": " << text;
  }
  EXPECT_NE(error_with(R"({"extends": ")" + std::string(65, 'a') + "\"}", {}).find("/extends"), std::string::npos);
}

TEST(ParsePolicy, ListsAreReplacedOrAddedTo) {
  EXPECT_EQ(parsed(R"({"env": {"keep": ["A"]}})").env.keep, std::vector<std::string>{"A"});
  const auto keep = parsed(R"({"env": {"keep": {"add": ["A", "PATH"]}}})").env.keep;
  EXPECT_EQ(keep.size(), builtin_policy("strict")->env.keep.size() + 1);
  EXPECT_EQ(keep.back(), "A");
  EXPECT_NE(error_of(R"({"env": {"keep": {"remove": ["A"]}}})"), "accepted");
  EXPECT_NE(error_of(R"({"env": {"keep": "A"}})").find("/env/keep: expected an array"), std::string::npos);
}

TEST(ParsePolicy, BoundsAreTextsOrNumbers) {
  const Policy p =
      parsed(R"({"limits": {"memory": 1073741824, "cpus": "1.5", "pids": "none", "fsize": "10k", "core": "1M"},
                              "workdir": {"size": "64M", "inodes": 100}, "deadline": {"container": "1h30m", "exec": "none"}})");
  EXPECT_EQ(p.limits.memory, 1ll << 30);
  EXPECT_EQ(p.limits.cpus, 1500);
  EXPECT_EQ(p.limits.pids, std::nullopt);
  EXPECT_EQ(p.limits.fsize, 10240u);
  EXPECT_EQ(p.limits.core, 1u << 20);
  EXPECT_EQ(p.workdir.size, 64 << 20);
  EXPECT_EQ(p.deadline.container, 5'400'000'000);
  EXPECT_EQ(p.deadline.exec, std::nullopt);
  EXPECT_EQ(parsed(R"({"limits": {"cpus": 2}})").limits.cpus, 2000);
  EXPECT_EQ(
      parsed(R"({"apparmor": {"profile": "none"}, "seccomp": {"program": "none"}, "require": []})").apparmor.profile,
      "");
}

// Each says where and why: the pointer is what an administrator searches for.
TEST(ParsePolicy, RefusesAndNamesThePlace) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {R"({"limit": {}})", "/limit"},
      {R"({"limits": {"memroy": 1}})", "/limits/memroy"},
      {R"({"limits": {"io": {"read_bps": 0}}})", "/limits/io/read_bps"},
      {R"({"limits": {"io": {"read_iops": 1e30}}})", "/limits/io/read_iops"},
      {R"({"limits": {"io": {"write_iops": 4294967296}}})", "/limits/io/write_iops"},
      {R"({"limits": {"io": {"write": 1}}})", "/limits/io/write"},
      {R"({"workdir": {"backing": "tape"}})", "/workdir/backing"},
      {R"({"workdir": {"backing": ""}})", "/workdir/backing"},
      {R"({"workdir": {"backing": "disk"}})", "/workdir"},
      {R"({"workdir": {"directory": "srv"}})", "/workdir/directory"},
      {R"({"workdir": {"directory": "/srv/../etc"}})", "/workdir/directory"},
      {R"({"limits": {"memory": -1}})", "/limits/memory"},
      {R"({"limits": {"memory": 0}})", "/limits/memory"},
      {R"({"limits": {"memory": 1e30}})", "/limits/memory"},
      {R"({"limits": {"memory": 1.5}})", "/limits/memory"},
      {R"({"limits": {"memory": 9223372036854775808}})", "/limits/memory"},
      {R"({"limits": {"memory": "512X"}})", "/limits/memory"},
      {R"({"limits": {"memory": "-1"}})", "/limits/memory"},
      {R"({"limits": {"memory": "99999999999T"}})", "/limits/memory"},
      {R"({"limits": {"memory": true}})", "/limits/memory"},
      {R"({"limits": {"cpus": "0"}})", "/limits/cpus"},
      {R"({"limits": {"cpus": 9223372036854775807}})", "/limits/cpus"},
      {R"({"limits": {"cpus": "1.2345"}})", "/limits/cpus"},
      {R"({"limits": {"pids": 0}})", "/limits/pids"},
      {R"({"limits": {"pids": "many"}})", "/limits/pids"},
      {R"({"limits": {"pids": 1e3}})", "/limits/pids"},
      {R"({"limits": {"nofile": 0}})", "/limits/nofile"},
      {R"({"limits": {"no_swap": "yes"}})", "/limits/no_swap"},
      {R"({"limits": []})", "/limits"},
      {R"({"deadline": {"container": 600}})", "/deadline/container"},
      {R"({"deadline": {"container": "10"}})", "/deadline/container"},
      {R"({"deadline": {"container": "0s"}})", "/deadline/container"},
      {R"({"deadline": {"container": "99999999d"}})", "/deadline/container"},
      {R"({"deadline": {"exec": "4000d"}})", "/deadline/exec"},
      {R"({"env": {"keep": [""]}})", "/env/keep/0"},
      {R"({"env": {"keep": {"add": ["A=B"]}}})", "/env/keep/add/0"},
      {R"({"env": {"keep": [1]}})", "/env/keep/0"},
      {R"({"env": {"set": {"": "x"}}})", "/env/set"},
      {R"({"env": {"set": {"A": 1}}})", "/env/set/A"},
      {R"({"workdir": {"empty": ["tmp"]}})", "/workdir/empty/0"},
      {R"({"workdir": {"empty": ["/tmp/../etc"]}})", "/workdir/empty/0"},
      {R"({"mounts": {"refuse_sources": ["/etc/"]}})", "/mounts/refuse_sources/0"},
      {R"({"mounts": {"allow_writable": [""]}})", "/mounts/allow_writable/0"},
      {R"({"network": {"mode": "host"}})", "/network/mode"},
      {R"({"capabilities": {"keep": ["NET_RAW"]}})", "/capabilities/keep/0"},
      {R"({"seccomp": {"program": "loose"}})", "/seccomp/program"},
      {R"({"apparmor": {"profile": "a//&b"}})", "/apparmor/profile"},
      {R"({"require": ["cgroup.gpu"]})", "/require/0: expected one of seccomp namespaces"},
      {R"({"require": [""]})", "/require/0"},
      {R"({"require": {"add": ["landlok"]}})", "/require/add/0"},
      {R"({"env": {"secrets": [""]}})", "/env/secrets/0"},
      {R"({"env": {"keep": ["A\nB"]}})", "/env/keep/0"},
      {R"({"workdir": {"never": [""]}})", "/workdir/never/0"},
      {R"({"mounts": {"allow_sources": [""]}})", "/mounts/allow_sources/0"},
      {R"({"masks": {"masked": ["proc"]}})", "/masks/masked/0"},
      {R"({"hooks": {"directories": ["/a\u0000b"]}})", "/hooks/directories/0"},
      {R"({"workdir": {"size": 1e30}})", "/workdir/size"},
      {R"({"workdir": {"size": "1e30"}})", "/workdir/size"},
      {R"({"workdir": {"inodes": -1}})", "/workdir/inodes"},
      {R"({"workdir": {"inodes": 4294967297}})", "/workdir/inodes"},
      {R"({"limits": {"fsize": 1e30}})", "/limits/fsize"},
      {R"({"limits": {"core": -1}})", "/limits/core"},
      {R"({"limits": {"pids": 4194305}})", "/limits/pids"},
      {R"({"extends": 1})", "/extends"},
      {R"({"extends": ["strict"]})", "/extends"},
      {R"({"env": {"filter": true, "filter": false}})", "/env/filter"},
      {R"({"limits": {"memory": "none"}})", "/workdir"},
      {R"({"limits": {"cpus": "none"}})", "/limits"},
  };
  for (const auto& [json, pointer] : cases) {
    const std::string error = error_of(json);
    EXPECT_NE(error.find("p.json"), std::string::npos) << json << ": " << error;
    EXPECT_NE(error.find(pointer), std::string::npos) << json << ": " << error;
  }
  for (const char* text : {"", "null", "[]", "{", "\"strict\"", "{} {}"}) EXPECT_NE(error_of(text), "accepted") << text;
}

void expect_same(const Policy& a, const Policy& b) {
  EXPECT_EQ(print_policy(a), print_policy(b));
  EXPECT_EQ(a.limits.memory, b.limits.memory);
  EXPECT_EQ(a.limits.cpus, b.limits.cpus);
  EXPECT_EQ(a.deadline.container, b.deadline.container);
  EXPECT_EQ(a.env.set, b.env.set);
  EXPECT_EQ(a.env.keep, b.env.keep);
  EXPECT_EQ(a.masks.masked, b.masks.masked);
  EXPECT_EQ(a.require, b.require);
  EXPECT_EQ(a.change_nothing, b.change_nothing);
}

TEST(PrintPolicy, IsReadBackAsItWas) {
  for (const auto& name : builtin_names()) {
    const Policy policy = *builtin_policy(name);
    const auto again = parse_policy(print_policy(policy), policy.name);
    ASSERT_TRUE(again) << again.error().message();
    expect_same(policy, *again);
    EXPECT_EQ(again->name, name);
  }
  const Policy odd = parsed(R"({"env": {"set": {"A": "q\"\\\n"}}, "limits": {"cpus": "0.05", "pids": "none"},
                               "deadline": {"exec": "1h2m3s4ms5us"}, "workdir": {"size": "1G"}})");
  const auto again = parse_policy(print_policy(odd), "p.json");
  ASSERT_TRUE(again) << again.error().message();
  expect_same(odd, *again);
  EXPECT_EQ(again->limits.cpus, 50);
  EXPECT_EQ(again->deadline.exec, odd.deadline.exec);
}

// The schema and the parser are one language: every key of the schema is known to the parser and the other way round.
TEST(PolicySchema, HasTheKeysOfTheParser) {
  std::ifstream file(SOURCE_DIR "/policies/schema.json");
  std::stringstream text;
  text << file.rdbuf();
  const auto schema = boost::json::parse(text.str());
  const auto& sections = schema.at("properties").as_object();
  const auto printed = boost::json::parse(print_policy(*builtin_policy("strict"))).as_object();
  std::size_t known = 0;
  for (const auto& section : sections) {
    const auto* properties = section.value().as_object().if_contains("properties");
    if (properties == nullptr) continue;
    ++known;
    const auto* ours = printed.if_contains(section.key());
    ASSERT_NE(ours, nullptr) << section.key();
    EXPECT_EQ(properties->as_object().size(), ours->as_object().size()) << section.key();
    for (const auto& property : properties->as_object()) {
      EXPECT_TRUE(ours->as_object().contains(property.key())) << section.key() << "/" << property.key();
    }
  }
  EXPECT_EQ(known + 2, printed.size());  // extends and require are no sections
}

// Every example of the reference is a policy, and every section has one.
TEST(PolicyManual, ItsExamplesAreRight) {
  std::string all;
  for (const std::string& example : manual::examples(SOURCE_DIR "/man/agentrun-policy.5")) {
    EXPECT_EQ(error_with(example, {{"team", "{}"}}), "accepted") << example;
    all += example;
  }
  std::ifstream file(SOURCE_DIR "/policies/schema.json");
  std::stringstream text;
  text << file.rdbuf();
  const auto schema = boost::json::parse(text.str());
  for (const auto& section : schema.at("properties").as_object()) {
    if (section.key() == "$schema") continue;
    EXPECT_NE(all.find("\"" + std::string(section.key()) + "\":"), std::string::npos) << section.key();
  }
}

// Every mechanism that can be required stands in the schema and in the manual.
TEST(PolicyManual, NamesEveryMechanism) {
  const std::string reason = error_of(R"({"require": ["?"]})");
  const std::string known = reason.substr(reason.find("expected one of ") + 16);
  std::string schema, page;
  std::getline(std::ifstream(SOURCE_DIR "/policies/schema.json"), schema, '\0');
  std::getline(std::ifstream(SOURCE_DIR "/man/agentrun-policy.5"), page, '\0');
  std::istringstream names(known);
  std::size_t count = 0;
  for (std::string name; names >> name; ++count) {
    EXPECT_NE(schema.find("\"" + name + "\""), std::string::npos) << name;
    EXPECT_NE(page.find(".It Cm " + name), std::string::npos) << name;
  }
  EXPECT_GE(count, 10u);
}

TEST(LooksLikeSecret, IsByName) {
  const Env env = builtin_policy("strict")->env;
  for (const char* name : {"AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "api_key", "DbPassword", "MY_CREDENTIALS"}) {
    EXPECT_TRUE(looks_like_secret(name, env)) << name;
  }
  for (const char* name : {"PATH", "HOME", "LC_ALL", "MODE"}) EXPECT_FALSE(looks_like_secret(name, env)) << name;
}

}  // namespace
}  // namespace agentrun::policy
