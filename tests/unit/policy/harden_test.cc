#include "policy/harden.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace agentrun::policy {
namespace {

using oci::NamespaceType;

Effective strict(const oci::Config& config, const Facts& facts = {}, const char* policy = "strict") {
  const auto effective = harden(config, *builtin_policy(policy), facts);
  EXPECT_TRUE(effective) << effective.error().message();
  return effective ? *effective : Effective();
}

const Change* find(const Report& report, const std::string& pointer) {
  for (const auto& change : report.changes) {
    if (change.pointer == pointer) return &change;
  }
  return nullptr;
}

oci::Config with_process() {
  oci::Config config;
  config.process.emplace().cwd = "/";
  return config;
}

TEST(Harden, EmptyConfigIsStrict) {
  const Effective e = strict(with_process());
  EXPECT_TRUE(e.config.root.readonly && e.config.process->no_new_privileges && e.empty_network && e.audit);
  EXPECT_EQ(e.seccomp_program, "strict");
  EXPECT_EQ(e.policy, "strict");
  EXPECT_EQ(e.report.policy, "strict");
  EXPECT_EQ(e.cpu_mask_width, 1);
  EXPECT_EQ(e.deadline, 600'000'000);
  EXPECT_EQ(e.exec_deadline, 600'000'000);
  EXPECT_EQ(e.created_deadline, 600'000'000);
  const auto& resources = *e.config.linux.resources;
  EXPECT_EQ(resources.memory->limit, 512ll << 20);
  EXPECT_EQ(resources.memory->swap, 512ll << 20);
  EXPECT_EQ(resources.cpu->quota, 100'000);
  EXPECT_EQ(resources.cpu->period, 100'000u);
  EXPECT_EQ(resources.pids_limit, 128);
  // No object at all leaves the sets as root has them, so it has to be there.
  ASSERT_TRUE(e.config.process->capabilities);
  EXPECT_TRUE(e.config.process->capabilities->bounding.empty());
}

TEST(Harden, MemoryOfTwoGigabytesIsNoMystery) {
  oci::Config config = with_process();
  config.linux.resources.emplace().memory.emplace().limit = 2ll << 30;
  const Effective e = strict(config);
  const Change* change = find(e.report, "/linux/resources/memory/limit");
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->before, "2147483648");
  EXPECT_EQ(change->after, "536870912");
  EXPECT_EQ(change->rule, "strict /limits/memory");
}

TEST(HardenEnvironment, KeepsTheList) {
  oci::Config config = with_process();
  config.process->env = {"PATH=/bin",        "AWS_SECRET_ACCESS_KEY=hush",
                         "LC_ALL=C",         "LC_TOKEN=hush",
                         "LD_PRELOAD=/x",    "LD_LIBRARY_PATH=/l",
                         "NOVALUE",          "=x",
                         "NOTIFY_SOCKET=/n", "PATHX=1",
                         "container=podman"};
  const Effective e = strict(config);
  EXPECT_EQ(e.config.process->env,
            (std::vector<std::string>{"PATH=/bin", "LC_ALL=C", "LD_LIBRARY_PATH=/l", "container=podman"}));
  const Change* change = find(e.report, "/process/env/1");
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(change->before, "\"AWS_SECRET_ACCESS_KEY\"");
  EXPECT_EQ(change->after, "");
  EXPECT_EQ(print_report(e.report).find("hush"), std::string::npos);
}

TEST(HardenEnvironment, SecretsAreKeptByFullNameOnly) {
  oci::Config config = with_process();
  config.process->env = {"APP_MODE=x", "APP_TOKEN=y", "APP_KEY=z"};
  const Policy policy = *parse_policy(R"({"env": {"keep": ["APP_*", "APP_KEY"], "set": {"MODE": "ours"}}})", "p");
  EXPECT_EQ(harden(config, policy, {})->config.process->env,
            (std::vector<std::string>{"APP_MODE=x", "APP_KEY=z", "MODE=ours"}));
}

TEST(HardenProcess, CapabilitiesLimitsAndPriorities) {
  oci::Config config = with_process();
  config.process->capabilities =
      oci::Capabilities{{"CAP_SYS_ADMIN"}, {"CAP_SYS_ADMIN"}, {"CAP_CHOWN"}, {"CAP_CHOWN"}, {"CAP_CHOWN"}};
  config.process->rlimits = {{"RLIMIT_NOFILE", 1 << 20, 512}, {"RLIMIT_CORE", ~0ull, ~0ull}};
  config.process->oom_score_adj = -999;
  config.process->scheduler = oci::Scheduler{"SCHED_FIFO", 0, 99, {}, 0, 0, 0};
  config.process->io_priority = oci::IoPriority{"IOPRIO_CLASS_RT", 0};
  const oci::Process p = *strict(config).config.process;
  const auto& sets = *p.capabilities;
  EXPECT_TRUE(sets.bounding.empty() && sets.effective.empty() && sets.inheritable.empty() && sets.permitted.empty() &&
              sets.ambient.empty());
  EXPECT_EQ(p.rlimits[0].hard, 1024u);
  EXPECT_EQ(p.rlimits[0].soft, 512u);
  EXPECT_EQ(p.rlimits[1].hard, 0u);
  EXPECT_TRUE(std::any_of(p.rlimits.begin(), p.rlimits.end(),
                          [](const auto& l) { return l.type == "RLIMIT_FSIZE" && l.hard == 256u << 20; }));
  EXPECT_EQ(p.oom_score_adj, 0);
  EXPECT_FALSE(p.scheduler || p.io_priority);
}

TEST(HardenProcess, RootWithCapabilitiesIsRefused) {
  const Policy policy = *parse_policy(R"({"capabilities": {"keep": ["CAP_CHOWN"]}})", "p");
  oci::Config config = with_process();
  config.process->capabilities = oci::Capabilities{{"CAP_CHOWN"}, {}, {}, {}, {}};
  EXPECT_NE(harden(config, policy, {}).error().message().find("/process/user/uid"), std::string::npos);
  config.process->user.uid = 1000;
  EXPECT_TRUE(harden(config, policy, {}));
}

TEST(HardenProcess, AppArmorIsStackedWhereItIsLoaded) {
  const auto profile = [](const char* theirs, bool loaded) {
    oci::Config config = with_process();
    config.process->apparmor_profile = theirs;
    Facts facts;
    facts.apparmor_loaded = loaded;
    return strict(config, facts).config.process->apparmor_profile;
  };
  EXPECT_EQ(profile("", true), "agentrun-strict");
  EXPECT_EQ(profile("unconfined", true), "agentrun-strict");
  EXPECT_EQ(profile("docker-default", true), "docker-default//&:agentrun:agentrun-strict");
  EXPECT_EQ(profile("a//&:agentrun:agentrun-strict", true), "a//&:agentrun:agentrun-strict");
  EXPECT_EQ(profile("a//&agentrun-strict//&b", true), "a//&agentrun-strict//&b");
  EXPECT_EQ(profile("docker-default", false), "docker-default");
  EXPECT_NE(strict(with_process()).report.notes.at(0).find("not loaded"), std::string::npos);
}

std::string path_of(const Effective& e, NamespaceType type) {
  const auto* ns = oci::find_namespace(e.config, type);
  return ns == nullptr ? "missing" : ns->path;
}

TEST(HardenNamespaces, HostsAreReplacedAndPodsAreJoined) {
  oci::Config config = with_process();
  using enum NamespaceType;
  config.linux.namespaces = {{pid, "/proc/7/ns/pid"},
                             {ipc, "/proc/1/ns/ipc"},
                             {network, "/run/netns/pod"},
                             {mount, "/proc/7/ns/mnt"},
                             {cgroup, "/proc/7/ns/cgroup"}};
  Facts facts;
  facts.namespaces_of_host = {"ipc"};
  const Effective e = strict(config, facts);
  EXPECT_EQ(path_of(e, pid), "/proc/7/ns/pid");
  for (const auto type : {ipc, network, mount, cgroup, uts}) EXPECT_EQ(path_of(e, type), "") << oci::name_of(type);
  EXPECT_EQ(path_of(e, user), "missing");
  EXPECT_EQ(find(e.report, "/linux/namespaces/2/path")->before, "\"/run/netns/pod\"");
  EXPECT_EQ(find(e.report, "/linux/namespaces/2/path")->rule, "strict /network/mode");
}

TEST(HardenNamespaces, NetworkByMode) {
  oci::Config config = with_process();
  const auto with_mode = [&](const char* mode, bool host) {
    const Policy policy = *parse_policy(std::string(R"({"network": {"mode": ")") + mode + "\"}}", "p");
    Facts facts;
    if (host) facts.namespaces_of_host = {"network"};
    return *harden(config, policy, facts);
  };
  EXPECT_EQ(path_of(with_mode("inherit", false), NamespaceType::network), "missing");
  EXPECT_EQ(path_of(with_mode("config", false), NamespaceType::network), "");
  config.linux.namespaces = {{NamespaceType::network, "/n"}};
  EXPECT_EQ(path_of(with_mode("config", false), NamespaceType::network), "/n");
  EXPECT_EQ(path_of(with_mode("config", true), NamespaceType::network), "");
  EXPECT_EQ(path_of(with_mode("none", false), NamespaceType::network), "");
  EXPECT_EQ(path_of(with_mode("inherit", true), NamespaceType::network), "/n");
  EXPECT_FALSE(with_mode("config", false).empty_network);
}

TEST(HardenResources, TheStricterOfBoth) {
  oci::Config config = with_process();
  auto& r = config.linux.resources.emplace();
  r.memory.emplace().limit = 64 << 20;
  r.memory->reservation = 1ll << 40;
  r.memory->disable_oom_killer = true;
  r.cpu.emplace().quota = 5000;
  r.cpu->period = 10'000;
  r.cpu->shares = 262'144;
  r.cpu->realtime_runtime = 950'000;
  r.pids_limit = 10;
  r.unified = {{"memory.max", "max"}};
  r.hugepage_limits = {{"2MB", 4096}};
  r.network.emplace().class_id = 7;
  Facts facts;
  facts.huge_page_sizes = {2 << 20, 1 << 30, 64 << 10};
  const Effective e = strict(config, facts);
  const oci::Resources& a = *e.config.linux.resources;
  EXPECT_EQ(a.memory->limit, 64 << 20);
  EXPECT_EQ(a.memory->swap, 64 << 20);
  EXPECT_EQ(a.memory->reservation, 64 << 20);
  EXPECT_FALSE(a.memory->disable_oom_killer);
  EXPECT_EQ(a.cpu->quota, 5000);
  EXPECT_EQ(a.cpu->period, 10'000u);
  EXPECT_EQ(a.cpu->shares, 1024u);
  EXPECT_FALSE(a.cpu->realtime_runtime);
  EXPECT_EQ(a.pids_limit, 10);
  EXPECT_TRUE(a.unified.empty());
  EXPECT_FALSE(a.network);
  ASSERT_EQ(a.hugepage_limits.size(), 3u);
  EXPECT_EQ(a.hugepage_limits[0].limit, 0u);
  EXPECT_EQ(a.hugepage_limits[1].page_size, "1GB");
  EXPECT_EQ(a.hugepage_limits[2].page_size, "64KB");
  EXPECT_EQ(e.cpu_mask_width, 1);
}

TEST(Harden, WithoutAHugetlbControllerHugePagesAreReported) {
  Facts facts;
  facts.huge_page_sizes = {2 << 20};
  facts.cgroup_hugetlb = false;
  const Effective e = strict(with_process(), facts);
  EXPECT_TRUE(e.config.linux.resources->hugepage_limits.empty());
  EXPECT_TRUE(std::any_of(e.report.notes.begin(), e.report.notes.end(), [](const std::string& note) {
    return note.find("no hugetlb controller here") != std::string::npos;
  }));
}

TEST(HardenResources, QuotaIsJudgedWithItsPeriod) {
  const auto quota = [](std::int64_t q, std::uint64_t p, const char* policy = "strict") {
    oci::Config config = with_process();
    config.linux.resources.emplace().cpu.emplace().quota = q;
    config.linux.resources->cpu->period = p;
    const auto cpu = *strict(config, {}, policy).config.linux.resources->cpu;
    return std::pair(*cpu.quota, *cpu.period);
  };
  EXPECT_EQ(quota(10'000, 10'000), std::pair(std::int64_t(10'000), std::uint64_t(10'000)));
  EXPECT_EQ(quota(10'001, 10'000), std::pair(std::int64_t(100'000), std::uint64_t(100'000)));
  EXPECT_EQ(quota(1, 0), std::pair(std::int64_t(100'000), std::uint64_t(100'000)));
  EXPECT_EQ(quota(1, ~0ull), std::pair(std::int64_t(100'000), std::uint64_t(100'000)));
  EXPECT_EQ(quota(INT64_MAX, 1'000'000), std::pair(std::int64_t(100'000), std::uint64_t(100'000)));
  EXPECT_EQ(quota(150'000, 100'000, "build"), std::pair(std::int64_t(150'000), std::uint64_t(100'000)));
}

TEST(HardenResources, MaskIsAsWideAsTheQuota) {
  oci::Config config = with_process();
  config.linux.resources.emplace().cpu.emplace().quota = 150'000;
  EXPECT_EQ(strict(config, {}, "build").cpu_mask_width, 2);
  EXPECT_EQ(strict(config, {}, "strict").cpu_mask_width, 1);
  config.linux.resources->cpu->cpus = "0-3";
  EXPECT_EQ(strict(config).cpu_mask_width, std::nullopt);
  Facts none;
  none.cgroup_cpu = false;
  const Effective e = strict(with_process(), none);
  EXPECT_EQ(e.cpu_mask_width, 1);
  EXPECT_FALSE(e.config.linux.resources->cpu);
  EXPECT_TRUE(std::any_of(e.report.notes.begin(), e.report.notes.end(),
                          [](const auto& n) { return n.starts_with("no cpu controller"); }));
}

TEST(HardenDevices, OnlyStandardOnes) {
  oci::Config config = with_process();
  config.linux.devices = {{'c', "/dev/kvm", 10, 232, {}, {}, {}}, {'c', "/dev/null", 1, 3, {}, {}, {}},
                          {'c', "/etc/x", 1, 3, {}, {}, {}},      {'c', "/dev/../x", 1, 3, {}, {}, {}},
                          {'b', "/dev/null", 1, 3, {}, {}, {}},   {'c', "/dev/console", 5, 1, {}, {}, {}}};
  config.linux.resources.emplace().devices = {{true, 'a', {}, {}, "rwm"}, {true, 'c', 1, 3, "rwm"},
                                              {true, 'c', {}, 3, "rwm"},  {true, 'b', 8, 0, "r"},
                                              {false, 'c', 1, 5, "w"},    {true, 'c', 136, {}, "rwm"}};
  const Effective e = strict(config);
  ASSERT_EQ(e.config.linux.devices.size(), 1u);
  EXPECT_EQ(e.config.linux.devices[0].path, "/dev/null");
  EXPECT_NE(find(e.report, "/linux/devices/0")->before.find("/dev/kvm"), std::string::npos);
  const auto& rules = e.config.linux.resources->devices;
  ASSERT_EQ(rules.size(), 4u);
  EXPECT_TRUE(!rules[0].allow && rules[0].type == 'a' && rules[0].access == "rwm");
  EXPECT_TRUE(rules[1].allow && rules[1].major == 1 && !rules[2].allow && rules[3].major == 136);
}

TEST(HardenLinux, SysctlsOfTheContainersOwnNamespaces) {
  oci::Config config = with_process();
  for (const char* key :
       {"net.ipv4.ip_forward", "net/ipv4/conf/eth0.1/forwarding", "kernel.shmmax", "fs.mqueue.msg_max",
        "kernel.core_pattern", "net/../kernel/core_pattern", "net..x", "vm.swappiness", "net", "kernel.shm.x",
        "kernel.shm_rmid_forced", "/net/x", "fs.mqueue", "kernel.msgmax/../x"}) {
    config.linux.sysctl[key] = "1";
  }
  const auto kept = strict(config).config.linux.sysctl;
  std::string keys;
  for (const auto& [key, value] : kept) keys += key + " ";
  EXPECT_EQ(
      keys,
      "fs.mqueue.msg_max kernel.shm_rmid_forced kernel.shmmax net.ipv4.ip_forward net/ipv4/conf/eth0.1/forwarding ");
  // net.* belongs to the namespace that the container is in: not where that is the host's.
  const Policy inherit = *parse_policy(R"({"network": {"mode": "inherit"}})", "p");
  EXPECT_FALSE(harden(config, inherit, {})->config.linux.sysctl.contains("net.ipv4.ip_forward"));
}

TEST(HardenLinux, WhatReachesOut) {
  oci::Config config = with_process();
  config.linux.personality = oci::Personality{"LINUX32", {}};
  config.linux.intel_rdt.emplace().clos_id = "other";
  config.linux.memory_policy.emplace().mode = "MPOL_BIND";
  config.linux.net_devices["eth0"] = {"x"};
  config.linux.rootfs_propagation = "shared";
  config.linux.seccomp.emplace().flags = {"SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_SPEC_ALLOW"};
  config.linux.seccomp->listener_path = "/run/agent.sock";
  config.linux.mount_label = "label";
  const Effective e = strict(config);
  const auto& l = e.config.linux;
  EXPECT_FALSE(l.personality || l.intel_rdt || l.memory_policy || !l.net_devices.empty());
  EXPECT_EQ(l.rootfs_propagation, "private");
  EXPECT_EQ(l.seccomp->flags, std::vector<std::string>{"SECCOMP_FILTER_FLAG_LOG"});
  EXPECT_EQ(l.seccomp->listener_path, "/run/agent.sock");
  EXPECT_EQ(l.mount_label, "label");
  for (const char* pointer :
       {"/linux/personality", "/linux/intelRdt", "/linux/memoryPolicy", "/linux/netDevices/eth0"}) {
    EXPECT_NE(find(e.report, pointer), nullptr) << pointer;
  }
}

TEST(HardenLinux, MasksAreTheUnion) {
  oci::Config config = with_process();
  config.linux.masked_paths = {"/own", "/proc/kcore"};
  const auto& paths = strict(config).config.linux.masked_paths;
  EXPECT_EQ(paths[0], "/own");
  EXPECT_EQ(std::count(paths.begin(), paths.end(), "/proc/kcore"), 1);
  EXPECT_EQ(std::count(paths.begin(), paths.end(), "/sys/firmware"), 1);
  const auto readonly = strict(config).config.linux.readonly_paths;
  EXPECT_EQ(std::count(readonly.begin(), readonly.end(), "/proc/sys"), 1);
}

TEST(HardenHooks, OnlyFromTheAdministratorsDirectories) {
  oci::Config config = with_process();
  config.hooks.prestart = {{"/usr/bin/evil", {"evil", "hush"}, {"A=hush"}, {}}, {"/opt/hooks/good", {}, {}, {}}};
  config.hooks.poststop = {
      {"/opt/hooks/../evil", {}, {}, {}}, {"/opt/hooks", {}, {}, {}}, {"/opt/hooksx/a", {}, {}, {}}};
  EXPECT_TRUE(strict(config).config.hooks.prestart.empty());
  EXPECT_EQ(print_report(strict(config).report).find("hush"), std::string::npos);
  const Policy policy = *parse_policy(R"({"hooks": {"directories": ["/opt/hooks"]}})", "p");
  const auto hooks = harden(config, policy, {})->config.hooks;
  ASSERT_EQ(hooks.prestart.size(), 1u);
  EXPECT_EQ(hooks.prestart[0].path, "/opt/hooks/good");
  EXPECT_TRUE(hooks.poststop.empty());
}

TEST(HardenAnnotations, OfRuntimesHaveNoEffect) {
  oci::Config config = with_process();
  config.annotations = {{"run.oci.hooks.stdout", "/etc/cron.d/x"},
                        {"org.systemd.property.ExecStart", "x"},
                        {"org.systemd.property.KillSignal", "15"},
                        {"org.systemd.property.TimeoutStopUSec", "uint64 10000000"},
                        {"org.criu.config", "/x"},
                        {"dev.gvisor.flag.host-uds", "all"},
                        {"krun.cpus", "64"},
                        {"module.wasm.image/variant", "compat"},
                        {"io.kubernetes.cri.container-type", "sandbox"},
                        {"io.container.manager", "libpod"},
                        {"org.agentrun.memory", "1M"}};
  const auto kept = strict(config).config.annotations;
  EXPECT_EQ(kept.size(), 4u);
  EXPECT_TRUE(kept.contains("org.systemd.property.KillSignal") &&
              kept.contains("org.systemd.property.TimeoutStopUSec"));
  EXPECT_NE(find(strict(config).report, "/annotations/module.wasm.image~1variant"), nullptr);
  config.annotations = {{"org.systemd.property.KillSignal", "0"},
                        {"org.systemd.property.TimeoutStopUSec", "uint64 90000001"}};
  EXPECT_TRUE(strict(config).config.annotations.empty());
}

// A megabyte in an annotation is not carried into state, audit and syslog.
TEST(HardenReport, LongValuesAreNotCarriedAlong) {
  oci::Config config = with_process();
  config.annotations["run.oci.seccomp_bpf_data"] = std::string(1 << 20, 'A');
  EXPECT_LT(print_report(strict(config).report).size(), 20'000u);
}

TEST(HardenRequire, FailsWhereTheHostLacksIt) {
  const auto error = [](auto change) {
    Facts facts;
    change(facts);
    const auto effective = harden(with_process(), *builtin_policy("strict"), facts);
    return effective ? "accepted" : effective.error().message();
  };
  EXPECT_EQ(error([](Facts& f) { f.cgroup_memory = false; }),
            "apply policy strict /require/cgroup.memory: no memory controller can be had here");
  EXPECT_NE(error([](Facts& f) { f.cgroup_pids = false; }).find("/require/cgroup.pids"), std::string::npos);
  EXPECT_EQ(error([](Facts& f) { f.cgroup_cpu = false; }), "accepted");
  const Policy none = *parse_policy(R"({"seccomp": {"program": "none"}})", "p");
  EXPECT_NE(harden(with_process(), none, {}).error().message().find("/require/seccomp"), std::string::npos);
}

// Where the administrator does without the controller, it is said so, and no limit is made up that create would fail
// on.
TEST(HardenRequire, MissingControllersAreNoted) {
  const Policy policy = *parse_policy(R"({"require": []})", "p");
  Facts facts;
  facts.cgroup_memory = facts.cgroup_pids = facts.cgroup_cpu = false;
  const auto effective = harden(with_process(), policy, facts);
  ASSERT_TRUE(effective);
  EXPECT_FALSE(effective->config.linux.resources->memory || effective->config.linux.resources->cpu ||
               effective->config.linux.resources->pids_limit);
  EXPECT_EQ(effective->report.notes.size(),
            6u);  // three controllers, AppArmor, the working directory /, Landlock of exec
  EXPECT_EQ(effective->writable->size, 256ll << 20);
}

TEST(Harden, WithoutAProcess) {
  const Effective e = strict({});
  EXPECT_FALSE(e.config.process);
  EXPECT_TRUE(e.config.root.readonly && e.writable->overlays.empty());
}

using Throttles = std::vector<oci::ThrottleDevice>;

std::string text_of(const Throttles& devices) {
  std::string text;
  for (const auto& d : devices) {
    text += std::to_string(d.major) + ":" + std::to_string(d.minor) + "=" + std::to_string(d.rate) + " ";
  }
  return text;
}

TEST(HardenIo, BoundsEveryDiskAndWhatTheConfigAsksOfOthers) {
  const Policy policy = *parse_policy(R"({"limits": {"io": {"read_bps": "100M", "write_iops": 500}}})", "p");
  Facts facts;
  facts.disks = {{8, 0}, {259, 1}};
  oci::Config config;
  auto& io = config.linux.resources.emplace().block_io.emplace();
  io.read_bps = {{8, 0, 5}, {9, 9, 0}, {9, 8, 1ull << 40}};
  io.write_bps = {{8, 0, 0}};
  const auto effective = harden(config, policy, facts);
  ASSERT_TRUE(effective) << effective.error().message();
  const oci::BlockIoResources& cut = *effective->config.linux.resources->block_io;
  EXPECT_EQ(text_of(cut.read_bps), "8:0=5 9:9=104857600 9:8=104857600 259:1=104857600 ");
  EXPECT_EQ(text_of(cut.write_iops), "8:0=500 259:1=500 ");
  EXPECT_EQ(text_of(cut.write_bps), "8:0=0 ") << "the policy has no bound of it";
  EXPECT_TRUE(cut.read_iops.empty());

  Report report;
  oci::Resources update;
  update.block_io.emplace().read_bps = {{8, 0, 0}};
  const auto updated = harden_update(update, policy, facts, report);
  ASSERT_TRUE(updated);
  EXPECT_EQ(text_of(updated->block_io->read_bps), "8:0=104857600 ");
  EXPECT_EQ(text_of(updated->block_io->write_iops), "") << "what an update does not name stays as it is";
  EXPECT_EQ(report.changes.size(), 1u);
}

TEST(HardenIo, IsToldWhereItHasNoEffect) {
  const Policy policy = *parse_policy(R"({"limits": {"io": {"write_bps": "100M"}}})", "p");
  Facts facts;
  facts.disks = {{8, 0}};
  const auto note = [&] {
    const auto effective = harden({}, policy, facts);
    std::string all;
    for (const auto& text : effective->report.notes) all += text + "\n";
    return all;
  };
  EXPECT_EQ(note().find("io"), std::string::npos) << note();
  facts.cgroup_v1_io = true;
  EXPECT_NE(note().find("does not count writes through the page cache"), std::string::npos);
  facts.disks.clear();
  EXPECT_NE(note().find("no disk of this host"), std::string::npos);
  facts.cgroup_io = false;
  EXPECT_NE(note().find("no io controller"), std::string::npos);
  EXPECT_FALSE(harden({}, policy, facts)->config.linux.resources->block_io);
  Policy strict = policy;
  strict.require = {"cgroup.io"};
  EXPECT_FALSE(harden({}, strict, facts));
}

}  // namespace
}  // namespace agentrun::policy
