#include <gtest/gtest.h>

#include <algorithm>

#include "policy/harden.h"

namespace agentrun::policy {
namespace {

using oci::NamespaceType;
using Paths = std::vector<std::string>;

// As an engine would ask: /proc, /dev, a volume and a file of its own.
oci::Config example() {
  oci::Config config;
  config.process.emplace().cwd = "/work";
  config.process->env = {"HOME=/home/me"};
  const auto add = [&](const char* destination, const char* type, Paths options) {
    config.mounts.push_back({destination, type, type, std::move(options), {}, {}});
  };
  add("/proc", "proc", {});
  add("/dev", "tmpfs", {"nosuid", "mode=755"});
  add("/sys", "sysfs", {"ro"});
  add("/data/", "tmpfs", {"rw", "ro"});
  add("/scratch/", "tmpfs", {"ro", "rw"});
  return config;
}

Facts with_abi(int abi) {
  Facts facts;
  facts.landlock_abi = abi;
  return facts;
}

Policy parsed(const char* json) {
  const auto policy = parse_policy(json, "p.json");
  EXPECT_TRUE(policy) << policy.error().message();
  return policy ? *policy : Policy();
}

Effective hardened(const oci::Config& config, const Policy& policy, const Facts& facts = {}) {
  const auto effective = harden(config, policy, facts);
  EXPECT_TRUE(effective) << effective.error().message();
  return effective ? *effective : Effective();
}

bool notes(const Effective& effective, const std::string& text) {
  const auto& list = effective.report.notes;
  return std::any_of(list.begin(), list.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

std::string refusal_of(const oci::Config& config, const Policy& policy, const Facts& facts) {
  const auto effective = harden(config, policy, facts);
  return effective ? "accepted" : effective.error().message();
}

TEST(LandlockPlan, StrictNamesWhatIsMountedWritable) {
  const Effective e = hardened(example(), *builtin_policy("strict"));
  ASSERT_TRUE(e.landlock);
  EXPECT_TRUE(e.landlock->files);
  EXPECT_EQ(e.landlock->places, (Paths{"/tmp", "/var/tmp", "/run", "/home/me", "/work", "/dev", "/scratch"}));
  EXPECT_EQ(e.landlock->procfs, Paths{"/proc"});
  EXPECT_FALSE(e.landlock->device_nodes || e.landlock->signals || e.landlock->abstract_sockets);
  EXPECT_FALSE(e.landlock->tcp_connect || e.landlock->tcp_bind);
  EXPECT_TRUE(notes(e, "those of an exec are held by the mounts alone (strict /landlock/exec)"));
  EXPECT_FALSE(hardened(example(), *builtin_policy("oci")).landlock);
}

TEST(LandlockPlan, ScopesOnlyWhereTheNamespaceIsShared) {
  const Policy policy =
      parsed(R"({"extends": "oci", "user": {"no_new_privileges": true}, "landlock": {"scopes": true}})");
  oci::Config config = example();
  config.linux.namespaces = {{NamespaceType::pid, ""}, {NamespaceType::network, ""}};
  EXPECT_FALSE(hardened(config, policy).landlock);
  config.linux.namespaces[0].path = "/proc/7/ns/pid";
  Effective e = hardened(config, policy);
  ASSERT_TRUE(e.landlock);
  EXPECT_TRUE(e.landlock->signals && !e.landlock->abstract_sockets && !e.landlock->files);
  config.linux.namespaces = {{NamespaceType::pid, ""}};
  e = hardened(config, policy);
  ASSERT_TRUE(e.landlock);
  EXPECT_TRUE(!e.landlock->signals && e.landlock->abstract_sockets);
  e = hardened(config, policy, with_abi(5));
  EXPECT_FALSE(e.landlock);
  EXPECT_TRUE(notes(e, "no scopes")) << explain_report(e.report);
  // Under strict both are the container's own.
  EXPECT_FALSE(hardened(config, *builtin_policy("strict")).landlock->abstract_sockets);
}

TEST(LandlockPlan, AWritableRootIsNotHeldAndNoted) {
  const Effective e = hardened(example(), parsed(R"({"rootfs": {"readonly": false}})"));
  EXPECT_FALSE(e.landlock);
  EXPECT_TRUE(notes(e, "the root is writable"));
}

TEST(LandlockPlan, DeviceNodesFollowTheCapability) {
  oci::Config config = example();
  config.process->capabilities.emplace().bounding = {"CAP_MKNOD"};
  EXPECT_FALSE(hardened(config, *builtin_policy("strict")).landlock->device_nodes);
  const Policy policy = parsed(R"({"extends": "oci", "rootfs": {"readonly": true}, "user": {"no_new_privileges": true},
                                   "landlock": {"files": true}})");
  EXPECT_TRUE(hardened(config, policy).landlock->device_nodes);
}

TEST(LandlockPlan, SaysWhatTheKernelLacks) {
  const Policy strict = *builtin_policy("strict");
  const std::vector<std::pair<int, std::string>> expected = {{0, "no Landlock here"},
                                                             {1, "forbid every rename"},
                                                             {2, "neither truncate(2) nor ioctl(2)"},
                                                             {3, "ioctl(2)"},
                                                             {4, "ioctl(2)"}};
  for (const auto& [abi, note] : expected) {
    const Effective e = hardened(example(), strict, with_abi(abi));
    EXPECT_TRUE(notes(e, note)) << abi << explain_report(e.report);
    EXPECT_EQ(e.landlock.has_value(), abi >= kLandlockFiles) << abi;
    EXPECT_EQ(e.landlock ? e.landlock->abi : abi, abi);
    EXPECT_EQ(notes(e, "those of an exec"), abi >= kLandlockFiles) << abi;
  }
  for (const int abi : {5, 7, 9}) {
    EXPECT_FALSE(notes(hardened(example(), strict, with_abi(abi)), "the Landlock of this kernel")) << abi;
  }
}

TEST(LandlockPlan, RequiredMeansThere) {
  const Policy policy = parsed(R"({"require": {"add": ["landlock"]}})");
  EXPECT_NE(refusal_of(example(), policy, with_abi(0)).find("/require/landlock: the kernel has no Landlock"),
            std::string::npos);
  EXPECT_NE(refusal_of(example(), policy, with_abi(1)).find("too old"), std::string::npos);
  EXPECT_EQ(refusal_of(example(), policy, with_abi(2)), "accepted");
}

// Nothing else holds a port: that is no second line, and not left out in silence.
TEST(LandlockPlan, PortsAreHeldOrRefused) {
  const Policy policy =
      parsed(R"({"network": {"mode": "config"}, "landlock": {"tcp_connect": [443, 65535], "tcp_bind": []}})");
  const Effective e = hardened(example(), policy, with_abi(4));
  ASSERT_TRUE(e.landlock);
  EXPECT_EQ(e.landlock->tcp_connect, (std::vector<std::uint16_t>{443, 65535}));
  EXPECT_EQ(e.landlock->tcp_bind, std::vector<std::uint16_t>());
  EXPECT_FALSE(notes(e, "those of an exec"));
  EXPECT_NE(refusal_of(example(), policy, with_abi(3)).find("/landlock/tcp_connect: "), std::string::npos);
}

TEST(LandlockExec, HasNoneByItself) {
  const Policy strict = *builtin_policy("strict");
  const oci::Config container = hardened(example(), strict).config;
  EXPECT_EQ(*landlock_for_exec(container, strict, {}), std::nullopt);
  EXPECT_EQ(*landlock_for_exec(container, *builtin_policy("oci"), {}), std::nullopt);
}

TEST(LandlockExec, HasTheContainersFilesWhereThePolicySaysSo) {
  const Policy policy = parsed(R"({"landlock": {"exec": true}})");
  const Effective e = hardened(example(), policy);
  EXPECT_FALSE(notes(e, "those of an exec"));
  const auto rules = *landlock_for_exec(e.config, policy, {});
  ASSERT_TRUE(rules);
  EXPECT_TRUE(rules->files);
  EXPECT_EQ(rules->places, e.landlock->places);
  EXPECT_EQ(rules->procfs, e.landlock->procfs);
}

TEST(LandlockExec, HasThePortsInAnyCaseAndNeverAScope) {
  const Policy policy = parsed(R"({"extends": "oci", "user": {"no_new_privileges": true},
                                   "landlock": {"scopes": true, "tcp_connect": [443]}})");
  const Effective e = hardened(example(), policy);
  ASSERT_TRUE(e.landlock);
  EXPECT_TRUE(e.landlock->signals && e.landlock->abstract_sockets);
  const auto rules = *landlock_for_exec(e.config, policy, {});
  ASSERT_TRUE(rules);
  EXPECT_FALSE(rules->signals || rules->abstract_sockets || rules->files);
  EXPECT_EQ(rules->tcp_connect, std::vector<std::uint16_t>{443});
  EXPECT_FALSE(landlock_for_exec(e.config, policy, with_abi(0)));
  const Policy scopes = parsed(R"({"extends": "oci", "user": {"no_new_privileges": true},
                                   "landlock": {"scopes": true, "exec": true}})");
  EXPECT_EQ(*landlock_for_exec(e.config, scopes, {}), std::nullopt);
}

TEST(LandlockPolicy, IsReadPrintedAndChecked) {
  const Policy p = parsed(R"({"network": {"mode": "inherit"}, "landlock": {"exec": true, "tcp_bind": [8080]}})");
  EXPECT_TRUE(p.landlock.files && p.landlock.scopes && p.landlock.exec && !p.landlock.tcp_connect);
  const auto again = parse_policy(print_policy(p), p.name);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->landlock.tcp_bind, p.landlock.tcp_bind);
  EXPECT_EQ(again->landlock.tcp_connect, std::nullopt);
  EXPECT_EQ(print_policy(*again), print_policy(p));
  EXPECT_EQ(parsed(R"({"landlock": {"tcp_bind": "none"}})").landlock.tcp_bind, std::nullopt);

  const std::vector<std::pair<const char*, const char*>> wrong = {
      {R"({"landlock": {"file": true}})", "/landlock/file"},
      {R"({"landlock": {"files": 1}})", "/landlock/files"},
      {R"({"landlock": {"tcp_connect": "all"}})", "/landlock/tcp_connect: expected an array of ports"},
      {R"({"landlock": {"tcp_connect": [-1]}})", "/landlock/tcp_connect/0"},
      {R"({"landlock": {"tcp_connect": [65536]}})", "/landlock/tcp_connect/0"},
      {R"({"landlock": {"tcp_connect": 443}})", "/landlock/tcp_connect"},
      {R"({"landlock": {"tcp_connect": [443]}})", "/landlock: ports are for a network"},
      {R"({"user": {"no_new_privileges": false}})", "/landlock: needs user.no_new_privileges"},
  };
  for (const auto& [json, message] : wrong) {
    const auto policy = parse_policy(json, "p.json");
    ASSERT_FALSE(policy) << json;
    EXPECT_NE(policy.error().message().find(message), std::string::npos) << policy.error().message();
  }
}

}  // namespace
}  // namespace agentrun::policy
