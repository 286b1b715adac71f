// harden_exec and harden_update: what comes later is never more than what the container was made with.
#include <gtest/gtest.h>

#include <algorithm>

#include "oci/print.h"
#include "policy/harden.h"

namespace agentrun::policy {
namespace {

const oci::Rlimit* find(const std::vector<oci::Rlimit>& limits, const std::string& type) {
  for (const auto& limit : limits) {
    if (limit.type == type) return &limit;
  }
  return nullptr;
}

oci::Config container_of(const Policy& policy) {
  oci::Config config;
  auto& process = config.process.emplace();
  process.cwd = "/";
  process.rlimits = {{"RLIMIT_NOFILE", 96, 96}, {"RLIMIT_STACK", 1 << 20, 1 << 20}};
  process.capabilities = oci::Capabilities{{"CAP_CHOWN"}, {"CAP_CHOWN"}, {}, {"CAP_CHOWN"}, {}};
  process.selinux_label = "container_t";
  process.apparmor_profile = "theirs";
  process.oom_score_adj = 100;
  Facts facts;
  facts.apparmor_loaded = true;
  return harden(config, policy, facts)->config;
}

oci::Process greedy() {
  oci::Process process;
  process.env = {"PATH=/bin", "GITHUB_TOKEN=hush"};
  process.capabilities =
      oci::Capabilities{{"CAP_CHOWN", "CAP_SYS_ADMIN"}, {"CAP_SYS_ADMIN"}, {}, {"CAP_SYS_ADMIN"}, {}};
  process.rlimits = {{"RLIMIT_NOFILE", 1 << 20, 1 << 20}};
  process.apparmor_profile = "unconfined";
  process.selinux_label = "spc_t";
  process.oom_score_adj = -1000;
  process.scheduler = oci::Scheduler{"SCHED_FIFO", 0, 50, {}, 0, 0, 0};
  return process;
}

TEST(HardenExec, IsNeverMoreThanTheContainer) {
  const Policy policy = *builtin_policy("strict");
  const oci::Config container = container_of(policy);
  Report report;
  const auto process = harden_exec(greedy(), container, policy, report);
  ASSERT_TRUE(process) << process.error().message();
  EXPECT_EQ(process->env, std::vector<std::string>{"PATH=/bin"});
  EXPECT_TRUE(process->capabilities->bounding.empty() && process->capabilities->effective.empty());
  EXPECT_TRUE(process->no_new_privileges);
  EXPECT_EQ(find(process->rlimits, "RLIMIT_NOFILE")->hard, 96u);
  ASSERT_NE(find(process->rlimits, "RLIMIT_STACK"), nullptr);  // a limit that only the container has
  EXPECT_EQ(find(process->rlimits, "RLIMIT_CORE")->hard, 0u);
  EXPECT_EQ(process->apparmor_profile, container.process->apparmor_profile);
  EXPECT_EQ(process->apparmor_profile, "theirs//&:agentrun:agentrun-strict");
  EXPECT_EQ(process->selinux_label, "container_t");
  EXPECT_EQ(process->oom_score_adj, 100);
  EXPECT_FALSE(process->scheduler);
  EXPECT_EQ(report.policy, "strict");
  EXPECT_EQ(print_report(report).find("hush"), std::string::npos);

  Report again;
  const auto twice = harden_exec(*process, container, policy, again);
  ASSERT_TRUE(twice);
  EXPECT_EQ(oci::print_process(*twice, oci::Layout::compact), oci::print_process(*process, oci::Layout::compact));
  EXPECT_TRUE(again.changes.empty()) << explain_report(again);
}

// Without a rule of the policy the container's own sets are the bound: `podman exec --privileged`.
TEST(HardenExec, HasTheContainersCapabilitiesAtMost) {
  const Policy policy = *parse_policy(R"({"extends": "oci", "limits": {"pids": 5}})", "p.json");
  Report report;
  const auto process = harden_exec(greedy(), container_of(policy), policy, report);
  ASSERT_TRUE(process);
  EXPECT_EQ(process->capabilities->bounding, std::vector<std::string>{"CAP_CHOWN"});
  EXPECT_TRUE(process->capabilities->effective.empty());
}

TEST(HardenExec, StacksAnotherProfile) {
  const Policy policy = *builtin_policy("strict");
  oci::Process process = greedy();
  process.apparmor_profile = "tighter";
  Report report;
  EXPECT_EQ(harden_exec(process, container_of(policy), policy, report)->apparmor_profile,
            "tighter//&theirs//&:agentrun:agentrun-strict");
}

TEST(HardenExec, OciChangesNothing) {
  Report report;
  const auto process = harden_exec(greedy(), {}, *builtin_policy("oci"), report);
  ASSERT_TRUE(process);
  EXPECT_EQ(oci::print_process(*process, oci::Layout::compact), oci::print_process(greedy(), oci::Layout::compact));
  EXPECT_TRUE(report.changes.empty());
}

oci::Resources updated(const oci::Resources& resources, Report& report) {
  const auto result = harden_update(resources, *builtin_policy("strict"), {}, report);
  EXPECT_TRUE(result);
  return result ? *result : oci::Resources();
}

oci::Resources updated(const oci::Resources& resources) {
  Report report;
  return updated(resources, report);
}

TEST(HardenUpdate, CutsWhatIsThere) {
  oci::Resources resources;
  resources.memory.emplace().limit = 8ll << 30;
  resources.memory->swap = -1;
  resources.cpu.emplace().quota = 400'000;
  resources.cpu->period = 100'000;
  resources.pids_limit = -1;
  resources.unified["memory.max"] = "max";
  resources.hugepage_limits.push_back({"2MB", 5});
  Report report;
  const oci::Resources cut = updated(resources, report);
  EXPECT_EQ(cut.memory->limit, 512ll << 20);
  EXPECT_EQ(cut.memory->swap, 512ll << 20);
  EXPECT_EQ(cut.cpu->quota, 100'000);
  EXPECT_EQ(cut.pids_limit, 128);
  EXPECT_TRUE(cut.unified.empty());
  EXPECT_EQ(cut.hugepage_limits[0].limit, 0u);
  EXPECT_EQ(report.changes.size(), 6u) << explain_report(report);
  Report again;
  updated(cut, again);
  EXPECT_TRUE(again.changes.empty()) << explain_report(again);
}

TEST(HardenUpdate, LeavesWhatIsNotAsked) {
  oci::Resources resources;
  resources.pids_limit = 10;
  const oci::Resources cut = updated(resources);
  EXPECT_FALSE(cut.memory || cut.cpu);
  EXPECT_TRUE(cut.devices.empty() && cut.hugepage_limits.empty());
  EXPECT_EQ(cut.pids_limit, 10);
}

// Half of a pair: the other half is in the cgroup, and the product would be another.
TEST(HardenUpdate, KnowsThatLimitsComeInPairs) {
  oci::Resources lower;
  lower.memory.emplace().limit = 64 << 20;
  EXPECT_EQ(updated(lower).memory->swap, 64 << 20);  // else what the limit loses would become swap
  oci::Resources swap;
  swap.memory.emplace().swap = 8ll << 30;
  EXPECT_FALSE(updated(swap).memory->swap);
  oci::Resources quota;
  quota.cpu.emplace().quota = 100'000;
  EXPECT_EQ(updated(quota).cpu->period, 100'000u);
  oci::Resources period;
  period.cpu.emplace().period = 1000;
  EXPECT_FALSE(updated(period).cpu->period);
}

}  // namespace
}  // namespace agentrun::policy
