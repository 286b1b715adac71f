#include <gtest/gtest.h>

#include <algorithm>

#include "policy/harden.h"
#include "policy/policy.h"

namespace agentrun::policy {
namespace {

constexpr const char* kAuto =
    R"({"extends": "strict", "user": {"userns": "auto"}, "mounts": {"allow_writable": ["/srv"]}})";

Policy automatic(const char* text = kAuto) {
  auto policy = parse_policy(text, "auto.json");
  EXPECT_TRUE(policy) << policy.error().message();
  return policy ? *policy : Policy();
}

oci::Config bundle() {
  oci::Config config;
  config.process.emplace().cwd = "/";
  return config;
}

Facts facts() {
  Facts facts;
  facts.private_ids = PrivateIds{1'000'000, 2'000'000, 65'536};
  return facts;
}

void add_bind(oci::Config& config, Facts& known, std::vector<std::string> options, SourceFacts source) {
  config.mounts.push_back({"/data", "bind", source.real_path, std::move(options), {}, {}});
  known.sources[config.mounts.size() - 1] = std::move(source);
}

Effective hardened(const oci::Config& config, const Facts& known, const Policy& policy = automatic()) {
  const auto effective = harden(config, policy, known);
  EXPECT_TRUE(effective) << effective.error().message();
  return effective ? *effective : Effective();
}

std::uint64_t inside(const std::vector<oci::IdMapping>& mappings, std::uint32_t of_file) {
  for (const auto& map : mappings) {
    if (of_file >= map.container_id && of_file - map.container_id < map.size) {
      return map.host_id + (of_file - map.container_id);
    }
  }
  return ~0ull;
}

// No two ids of the file system are one in the container, and no id of another range is handed out.
void expect_sound(const std::vector<oci::IdMapping>& mappings, std::uint32_t base) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;
  for (const auto& map : mappings) {
    EXPECT_GE(map.host_id, base);
    EXPECT_LE(map.host_id + map.size, base + 65'536);
    spans.emplace_back(map.host_id, map.host_id + map.size);
  }
  std::sort(spans.begin(), spans.end());
  for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_LE(spans[i - 1].second, spans[i].first);
}

TEST(Userns, IsOptIn) {
  EXPECT_EQ(builtin_policy("strict")->user.userns, UserNamespace::config);
  EXPECT_EQ(
      oci::find_namespace(hardened(bundle(), facts(), *builtin_policy("strict")).config, oci::NamespaceType::user),
      nullptr);
  EXPECT_FALSE(parse_policy(R"({"user": {"userns": "yes"}})", "x"));
  EXPECT_FALSE(parse_policy(R"({"user": {"userns": ""}})", "x"));
  const Policy policy = automatic();
  EXPECT_EQ(parse_policy(print_policy(policy), policy.name)->user.userns, UserNamespace::automatic);
}

TEST(Userns, ANamespaceWithTheRange) {
  const Effective effective = hardened(bundle(), facts());
  const auto* user = oci::find_namespace(effective.config, oci::NamespaceType::user);
  ASSERT_NE(user, nullptr);
  EXPECT_TRUE(user->path.empty());
  ASSERT_EQ(effective.config.linux.uid_mappings.size(), 1u);
  EXPECT_EQ(effective.config.linux.uid_mappings[0].host_id, 1'000'000u);
  EXPECT_EQ(effective.config.linux.uid_mappings[0].container_id, 0u);
  EXPECT_EQ(effective.config.linux.gid_mappings[0].host_id, 2'000'000u);
  EXPECT_EQ(effective.private_ids, facts().private_ids);
  EXPECT_NE(explain_report(effective.report).find("1000000"), std::string::npos);
}

TEST(Userns, WithoutARangeNothingRuns) {
  Facts none;
  none.no_private_ids = "add the line";
  const auto effective = harden(bundle(), automatic(), none);
  ASSERT_FALSE(effective);
  EXPECT_NE(effective.error().message().find("add the line"), std::string::npos);
}

TEST(Userns, OnesOwnNamespaceIsKeptUnlessItHasTheHostsRoot) {
  oci::Config config = bundle();
  config.linux.namespaces.push_back({oci::NamespaceType::user, ""});
  config.linux.uid_mappings = config.linux.gid_mappings = {{0, 300'000, 65'536}};
  EXPECT_FALSE(wants_private_ids(config, automatic(), facts()));
  EXPECT_EQ(hardened(config, facts()).config.linux.uid_mappings[0].host_id, 300'000u);
  EXPECT_FALSE(hardened(config, facts()).private_ids);

  config.linux.gid_mappings = {{0, 300'000, 100}, {100, 0, 1}};
  EXPECT_TRUE(wants_private_ids(config, automatic(), facts()));
  EXPECT_EQ(hardened(config, facts()).config.linux.gid_mappings[0].host_id, 2'000'000u);

  config = bundle();
  config.linux.namespaces.push_back({oci::NamespaceType::user, "/proc/7/ns/user"});
  EXPECT_FALSE(wants_private_ids(config, automatic(), facts()));
  Facts known = facts();
  known.namespaces_of_host = {"user"};
  EXPECT_TRUE(wants_private_ids(config, automatic(), known));
  EXPECT_TRUE(oci::find_namespace(hardened(config, known).config, oci::NamespaceType::user)->path.empty());
}

TEST(Userns, AnOrdinaryUserHasHisOwnIds) {
  Facts known = facts();
  known.as_root = false;
  EXPECT_FALSE(wants_private_ids(bundle(), automatic(), known));
  EXPECT_FALSE(hardened(bundle(), known).private_ids);
}

TEST(Userns, AUserBeyondTheRangeIsRefused) {
  oci::Config config = bundle();
  config.process->user.uid = 65'536;
  EXPECT_FALSE(harden(config, automatic(), facts()));
  config.process->user.uid = 65'535;
  EXPECT_TRUE(harden(config, automatic(), facts()));
}

TEST(Userns, AReadOnlyBindKeepsEveryId) {
  oci::Config config = bundle();
  Facts known = facts();
  add_bind(config, known, {"rbind", "rw"}, {FileKind::directory, "/home/me/data", 1000, 1000});
  const Effective effective = hardened(config, known);
  const oci::Mount& mount = effective.config.mounts[0];
  EXPECT_EQ(std::count(mount.options.begin(), mount.options.end(), "rro"), 1);
  EXPECT_EQ(std::count(mount.options.begin(), mount.options.end(), "ridmap"), 1);
  EXPECT_EQ(inside(mount.uid_mappings, 0), 1'000'000u);
  EXPECT_EQ(inside(mount.gid_mappings, 65'535), 2'065'535u);
}

TEST(Userns, WhatCouldBeMadeWritableHasNoRoot) {
  oci::Config config = bundle();
  Facts known = facts();
  add_bind(config, known, {"bind", "ro"}, {FileKind::directory, "/home/me/data", 0, 0});
  for (const char* text : {R"({"extends": "oci", "user": {"userns": "auto"}})",
                           R"({"user": {"userns": "auto", "refuse_root_with_capabilities": false},
                               "capabilities": {"keep": ["CAP_SYS_ADMIN"]}})"}) {
    const Effective effective = hardened(config, known, automatic(text));
    const oci::Mount& mount = effective.config.mounts[0];
    ASSERT_FALSE(mount.uid_mappings.empty());
    EXPECT_EQ(inside(mount.uid_mappings, 0), ~0ull) << text;
    EXPECT_EQ(inside(mount.gid_mappings, 0), ~0ull) << text;
    EXPECT_EQ(inside(mount.uid_mappings, 1), 1'000'001u) << text;
  }
  // A later entry of the config makes the first one writable.
  config.mounts.push_back({"/data", "", "", {"remount", "bind", "rw"}, {}, {}});
  const Effective effective = hardened(
      config, known,
      automatic(R"({"user": {"userns": "auto"}, "mounts": {"restrict_types": false, "restrict_binds": false}})"));
  EXPECT_EQ(inside(effective.config.mounts[0].uid_mappings, 0), ~0ull);
}

TEST(Userns, AWritableBindNeverHasTheHostsRoot) {
  for (const std::uint32_t owner : {0u, 1u, 1000u, 65'535u, 65'536u, 5'000'000u}) {
    for (const std::uint32_t group : {0u, 100u}) {
      for (const std::uint32_t uid : {0u, 1000u}) {
        oci::Config config = bundle();
        config.process->user.uid = uid;
        Facts known = facts();
        add_bind(config, known, {"rbind", "rw"}, {FileKind::directory, "/srv", owner, group});
        const Effective effective = hardened(config, known);
        const oci::Mount& mount = effective.config.mounts[0];
        EXPECT_EQ(inside(mount.uid_mappings, 0), ~0ull);
        EXPECT_EQ(inside(mount.gid_mappings, 0), ~0ull);
        expect_sound(mount.uid_mappings, 1'000'000);
        expect_sound(mount.gid_mappings, 2'000'000);
        if (owner != 0 && uid == 0) {
          EXPECT_EQ(inside(mount.uid_mappings, owner), 1'000'000u);
        }
        if (owner == 0) {
          EXPECT_TRUE(mount.uid_mappings.empty());
        }
      }
    }
  }
}

TEST(Userns, SubmountsOfAReadOnlyBindAreReadOnly) {
  oci::Config config = bundle();
  Facts known = facts();
  add_bind(config, known, {"rbind", "ro"}, {FileKind::directory, "/data", 0, 0});
  const Effective effective = hardened(config, known, automatic(R"({"extends": "oci", "user": {"userns": "auto"}})"));
  const auto& options = effective.config.mounts[0].options;
  EXPECT_EQ(std::count(options.begin(), options.end(), "rro"), 1);
}

TEST(Userns, AMountsOwnMapNeedsANamespaceOfItsOwn) {
  oci::Config config = bundle();
  Facts known = facts();
  add_bind(config, known, {"bind", "ro"}, {FileKind::directory, "/home/me/data", 0, 0});
  config.mounts[0].uid_mappings = config.mounts[0].gid_mappings = {{0, 0, 65'536}};
  EXPECT_FALSE(harden(config, automatic(), known));
  config.mounts[0].uid_mappings = config.mounts[0].gid_mappings = {};
  config.mounts[0].options.emplace_back("idmap=uids=0-0-1;gids=0-0-1");
  EXPECT_FALSE(harden(config, automatic(), known));
}

TEST(Userns, AMapThatTheFileSystemCannotHaveIsTakenBack) {
  oci::Config config = bundle();
  Facts known = facts();
  add_bind(config, known, {"rbind", "ro"}, {FileKind::directory, "/home/me/data", 0, 0});
  Effective effective = hardened(config, known);
  withdraw_idmap(effective, 0, "because");
  EXPECT_TRUE(effective.config.mounts[0].uid_mappings.empty());
  const auto& options = effective.config.mounts[0].options;
  EXPECT_EQ(std::count(options.begin(), options.end(), "ridmap"), 0);
  EXPECT_EQ(std::count(options.begin(), options.end(), "rro"), 1);
  EXPECT_NE(effective.report.notes.back().find("because"), std::string::npos);
}

}  // namespace
}  // namespace agentrun::policy
