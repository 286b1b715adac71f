#include "cli/sandbox_result.h"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <algorithm>

namespace agentrun::cli {
namespace {

bool mentions(const std::vector<Enforced>& list, const std::string& text) {
  return std::any_of(list.begin(), list.end(), [&](const Enforced& item) {
    return item.what.find(text) != std::string::npos || item.by.find(text) != std::string::npos;
  });
}

oci::Config example() {
  oci::Config config;
  config.root.readonly = true;
  config.process.emplace().user.uid = 1879048192;
  config.linux.namespaces = {{oci::NamespaceType::network, {}}, {oci::NamespaceType::pid, {}}};
  return config;
}

TEST(SandboxResult, ClaimsOnlyWhatIsThere) {
  policy::Policy policy;
  EXPECT_FALSE(mentions(list_enforced(policy, example(), {}), "seccomp"));
  policy.seccomp.program = "strict";
  policy.apparmor.profile = "agentrun-strict";
  policy.limits.memory = 512 << 20;
  policy.deadline.container = 600'000'000;

  const auto without = list_enforced(policy, example(), {});
  EXPECT_TRUE(mentions(without, "network: none"));
  EXPECT_TRUE(mentions(without, "memory: 512M"));
  EXPECT_TRUE(mentions(without, "time: 10m"));
  EXPECT_FALSE(mentions(without, "AppArmor"));
  EXPECT_FALSE(mentions(without, "Landlock"));
  const auto with = list_enforced(policy, example(), {true, true});
  EXPECT_TRUE(mentions(with, "AppArmor"));
  EXPECT_FALSE(mentions(with, "Landlock"));  // the policy does not use it
  policy.landlock.files = true;
  EXPECT_TRUE(mentions(list_enforced(policy, example(), {false, true}), "Landlock"));
  EXPECT_FALSE(mentions(list_enforced(policy, example(), {false, false}), "Landlock"));
  oci::Config writable = example();
  writable.root.readonly = false;
  EXPECT_FALSE(mentions(list_enforced(policy, writable, {false, true}), "Landlock"));
}

TEST(SandboxResult, AJoinedNetworkIsNotClaimedToBeNone) {
  oci::Config config = example();
  config.linux.namespaces[0].path = "/proc/1/ns/net";
  EXPECT_FALSE(mentions(list_enforced({}, config, {}), "network"));
}

TEST(SandboxResult, JsonHasEveryKey) {
  lifecycle::Outcome outcome;
  outcome.reason = "deadline";
  outcome.policy = "strict";
  outcome.backend = "native";
  outcome.wall_us = 5'000'000;
  const boost::json::value value = boost::json::parse(print_outcome(outcome, 124, {{"network: none", "x"}}, nullptr));
  EXPECT_EQ(value.at("exit"), 124);
  EXPECT_EQ(value.at("reason"), "deadline");
  EXPECT_EQ(value.at("wall_us"), 5'000'000);
  EXPECT_EQ(value.at("enforced").at(0).at("what"), "network: none");
  for (const char* key : {"cpu_us", "memory_peak", "policy", "backend"}) EXPECT_TRUE(value.as_object().contains(key));
}

}  // namespace
}  // namespace agentrun::cli
