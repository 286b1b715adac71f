#include "sandbox/cgroup.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "cgroup_fixture.h"
#include "sandbox/cgroup_control.h"
#include "sandbox/cgroup_metrics.h"

// On the hierarchies as this host has them.
namespace agentrun::sandbox {
namespace {

using namespace testing_;

class Cgroup : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_root()) GTEST_SKIP() << "needs root";
    const auto layout = find_layout();
    if (!layout) GTEST_SKIP() << layout.error().message();
    const auto controllers = available_controllers(CgroupManager::cgroupfs);
    ASSERT_TRUE(controllers);
    controllers_ = *controllers;
  }
  void need(bool there, const char* what) {
    if (!there) GTEST_SKIP() << "this host has no cgroup controller " << what;
  }
  // The file of a controller, by its name on v2 and on v1.
  static std::string file(const CgroupLocation& location, const char* v1_controller, const char* v1, const char* v2) {
    const std::string directory = v1_directory(location, v1_controller);
    return content(directory.empty() ? location.v2 + "/" + v2 : directory + "/" + v1);
  }
  CgroupControllers controllers_;
};

oci::Resources memory_limit(std::int64_t bytes) {
  oci::Resources resources;
  resources.memory.emplace();
  resources.memory->limit = bytes;
  return resources;
}

TEST_F(Cgroup, ProcessIsInEveryHierarchyAndRemovalLeavesNothing) {
  CgroupLocation location;
  {
    Made made;
    ASSERT_TRUE(make(made, "life"));
    location = made.location;
    EXPECT_NE(location.inode, 0u);
    EXPECT_FALSE(*is_populated(location));
    Child child;
    const auto attached = attach_process(made.location, made.request, child.pid(), false, nullptr);
    ASSERT_TRUE(attached) << why(attached);
    const std::string own = content("/proc/" + std::to_string(child.pid()) + "/cgroup");
    for (const std::string_view line : text::split(own, '\n')) {
      EXPECT_TRUE(line.ends_with(test_root() + "/life")) << line;
    }
    EXPECT_TRUE(*is_populated(location));
    EXPECT_EQ(*cgroup_processes(location), std::vector<pid_t>{child.pid()});
    EXPECT_TRUE(*kill_cgroup(location, 5'000'000));
    EXPECT_FALSE(*is_populated(location));
    const auto removed = remove_cgroup(location);
    ASSERT_TRUE(removed) << why(removed);
  }
  EXPECT_FALSE(location.parents.empty());
  for (const std::string& parent : location.parents) EXPECT_NE(access(parent.c_str(), F_OK), 0) << parent;
  EXPECT_TRUE(remove_cgroup(location));
  EXPECT_TRUE(*kill_cgroup(location, 1'000'000));
}

TEST_F(Cgroup, MemoryAndSwap) {
  need(controllers_.memory, "memory");
  if (IsSkipped()) return;
  oci::Resources resources = memory_limit(32 << 20);
  resources.memory->swap = 32 << 20;
  resources.memory->reservation = 16 << 20;
  Made made;
  ASSERT_TRUE(make(made, "memory", &resources));
  EXPECT_EQ(file(made.location, "memory", "memory.limit_in_bytes", "memory.max"), "33554432");
  EXPECT_EQ(file(made.location, "memory", "memory.soft_limit_in_bytes", "memory.low"), "16777216");
  if (!v1_directory(made.location, "memory").empty()) {
    EXPECT_EQ(file(made.location, "memory", "memory.memsw.limit_in_bytes", ""), "33554432");
  }
  // Up, where swap has to go first on v1, and down, where memory has to.
  for (const std::int64_t size : {std::int64_t{64} << 20, std::int64_t{16} << 20}) {
    oci::Resources update = memory_limit(size);
    update.memory->swap = size;
    const auto updated = update_cgroup(made.location, update);
    ASSERT_TRUE(updated) << why(updated);
    EXPECT_EQ(file(made.location, "memory", "memory.limit_in_bytes", "memory.max"), std::to_string(size));
  }
  const auto open = update_cgroup(made.location, memory_limit(-1));
  ASSERT_TRUE(open) << why(open);
  EXPECT_FALSE(read_metrics(made.location)->memory_limit);
  EXPECT_FALSE(update_cgroup(made.location, memory_limit(0)));
}

TEST_F(Cgroup, AKillForMemoryIsCounted) {
  need(controllers_.memory, "memory");
  if (IsSkipped()) return;
  oci::Resources resources = memory_limit(8 << 20);
  resources.memory->swap = 8 << 20;
  Made made;
  ASSERT_TRUE(make(made, "oom", &resources));
  Gate gate;
  Child child([&] {
    gate.pass();
    constexpr std::size_t kSize = 64u << 20;
    auto* memory = static_cast<char*>(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (std::size_t at = 0; at < kSize; at += 4096) memory[at] = 1;
    return 0;
  });
  ASSERT_TRUE(attach_process(made.location, made.request, child.pid(), false, &resources));
  gate.open();
  const int status = child.wait();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_GE(*oom_kills(made.location), 1u);
  EXPECT_GE(*read_metrics(made.location)->memory_peak, 4u << 20);
}

TEST_F(Cgroup, CpuPidsAndCpuset) {
  need(controllers_.cpu && controllers_.pids && controllers_.cpuset, "cpu, pids and cpuset");
  if (IsSkipped()) return;
  oci::Resources resources;
  resources.cpu.emplace();
  resources.cpu->quota = 50'000;
  resources.cpu->period = 100'000;
  resources.cpu->shares = 1024;
  resources.cpu->burst = 10'000;
  resources.cpu->cpus = "0";
  resources.pids_limit = 20;
  Made made;
  ASSERT_TRUE(make(made, "cpu", &resources));
  const bool v1 = !v1_directory(made.location, "cpu").empty();
  EXPECT_EQ(file(made.location, "cpu", "cpu.cfs_quota_us", "cpu.max"), v1 ? "50000" : "50000 100000");
  EXPECT_EQ(file(made.location, "cpu", "cpu.shares", "cpu.weight"), v1 ? "1024" : "100");
  EXPECT_EQ(file(made.location, "cpu", "cpu.cfs_burst_us", "cpu.max.burst"), "10000");
  EXPECT_EQ(file(made.location, "cpuset", "cpuset.cpus", "cpuset.cpus"), "0");
  EXPECT_EQ(file(made.location, "pids", "pids.max", "pids.max"), "20");
  // A period alone leaves the quota; a burst and a quota that only fit together are written in either order.
  oci::Resources update;
  update.cpu.emplace();
  update.cpu->period = 200'000;
  ASSERT_TRUE(update_cgroup(made.location, update));
  EXPECT_EQ(file(made.location, "cpu", "cpu.cfs_quota_us", "cpu.max"), v1 ? "50000" : "50000 200000");
  update.cpu->period.reset();
  for (const auto& [quota, burst] : {std::pair{150'000, 120'000u}, std::pair{10'000, 5'000u}}) {
    update.cpu->quota = quota;
    update.cpu->burst = burst;
    const auto updated = update_cgroup(made.location, update);
    ASSERT_TRUE(updated) << why(updated);
  }
  update = {};
  update.pids_limit = 0;
  ASSERT_TRUE(update_cgroup(made.location, update));
  EXPECT_EQ(file(made.location, "pids", "pids.max", "pids.max"), "1");
  update.pids_limit = -1;
  ASSERT_TRUE(update_cgroup(made.location, update));
  EXPECT_EQ(file(made.location, "pids", "pids.max", "pids.max"), "max");
}

TEST_F(Cgroup, WhatTheKernelRefusesNamesTheFileAndLeavesNothing) {
  need(controllers_.cpuset, "cpuset");
  if (IsSkipped()) return;
  oci::Resources resources;
  resources.cpu.emplace();
  resources.cpu->cpus = "4095";
  Made made;
  made.request = request_for("refused");
  made.location = *plan_cgroup(made.request);
  const auto created = create_cgroup(made.location, made.request, &resources);
  ASSERT_FALSE(created);
  EXPECT_NE(created.error().message().find("cpuset.cpus"), std::string::npos) << why(created);
  EXPECT_NE(access(main_directory(made.location).c_str(), F_OK), 0);
  for (const std::string& parent : made.location.parents) EXPECT_NE(access(parent.c_str(), F_OK), 0) << parent;
}

TEST_F(Cgroup, AControllerThatIsNotThereIsAnError) {
  if (controllers_.rdma) GTEST_SKIP() << "this host has the controller rdma";
  oci::Resources resources;
  resources.rdma["mlx5_1"] = {1, {}};
  Made made;
  made.request = request_for("missing");
  made.location = *plan_cgroup(made.request);
  const auto created = create_cgroup(made.location, made.request, &resources);
  ASSERT_FALSE(created);
  EXPECT_NE(created.error().message().find("rdma"), std::string::npos) << why(created);
}

TEST_F(Cgroup, UnifiedNeedsItsControllerOnV2) {
  oci::Resources resources;
  resources.unified["memory.min"] = "131072";
  if (controllers_.unified) GTEST_SKIP() << "needs v1 controllers";
  Made made;
  made.request = request_for("unified");
  made.location = *plan_cgroup(made.request);
  const auto created = create_cgroup(made.location, made.request, &resources);
  ASSERT_FALSE(created);
  EXPECT_NE(created.error().message().find("invalid configuration"), std::string::npos) << why(created);
}

TEST_F(Cgroup, FreezeHoldsAndThawLetsGo) {
  Made made;
  ASSERT_TRUE(make(made, "freezer"));
  Child child;
  ASSERT_TRUE(attach_process(made.location, made.request, child.pid(), false, nullptr));
  EXPECT_FALSE(*is_frozen(made.location));
  const auto frozen = freeze_cgroup(made.location);
  ASSERT_TRUE(frozen) << why(frozen);
  EXPECT_TRUE(*is_frozen(made.location));
  kill(child.pid(), SIGSTOP);
  ASSERT_TRUE(thaw_cgroup(made.location));
  EXPECT_FALSE(*is_frozen(made.location));
}

TEST_F(Cgroup, KillsWhatIsFrozen) {
  Made made;
  ASSERT_TRUE(make(made, "frozen"));
  Child child;
  ASSERT_TRUE(attach_process(made.location, made.request, child.pid(), false, nullptr));
  ASSERT_TRUE(freeze_cgroup(made.location));
  // By somebody else on v1's side too, where a frozen task does not die.
  if (const std::string freezer = v1_directory(made.location, "freezer"); !freezer.empty()) {
    ASSERT_TRUE(sys::write_file(freezer + "/freezer.state", "FROZEN"));
  }
  EXPECT_TRUE(*kill_cgroup(made.location, 5'000'000));
  EXPECT_TRUE(WIFSIGNALED(child.wait()));
}

TEST_F(Cgroup, KillsThatKeepForking) {
  need(controllers_.pids, "pids");
  if (IsSkipped()) return;
  oci::Resources resources;
  resources.pids_limit = 40;
  Made made;
  ASSERT_TRUE(make(made, "forkers", &resources));
  Gate gate;
  Child child([&] {
    gate.pass();
    signal(SIGCHLD, SIG_IGN);
    while (true) fork();
    return 0;
  });
  ASSERT_TRUE(attach_process(made.location, made.request, child.pid(), false, &resources));
  gate.open();
  while (cgroup_processes(made.location)->size() < 30) poll(nullptr, 0, 1);
  EXPECT_TRUE(*kill_cgroup(made.location, 10'000'000));
  EXPECT_FALSE(*is_populated(made.location));
  child.wait();
  const auto removed = remove_cgroup(made.location);
  EXPECT_TRUE(removed) << why(removed);
}

TEST_F(Cgroup, SignalsEachOnce) {
  Made made;
  ASSERT_TRUE(make(made, "signals"));
  Child one, two;
  for (const Child* child : {&one, &two}) {
    ASSERT_TRUE(attach_process(made.location, made.request, child->pid(), false, nullptr));
  }
  ASSERT_TRUE(signal_cgroup(made.location, SIGUSR1));
  EXPECT_EQ(WTERMSIG(one.wait()), SIGUSR1);
  EXPECT_EQ(WTERMSIG(two.wait()), SIGUSR1);
}

TEST_F(Cgroup, IsNotSharedWithASecondContainer) {
  Made made;
  ASSERT_TRUE(make(made, "shared"));
  EXPECT_TRUE(plan_cgroup(made.request));
  {
    Child child;
    ASSERT_TRUE(attach_process(made.location, made.request, child.pid(), false, nullptr));
    const auto again = plan_cgroup(made.request);
    ASSERT_FALSE(again);
    EXPECT_NE(again.error().message().find("container's cgroup is not empty: 1 process(es) found"), std::string::npos);
    CgroupRequest above = made.request;
    above.cgroups_path = test_root();
    EXPECT_FALSE(plan_cgroup(above));
    EXPECT_TRUE(*kill_cgroup(made.location, 5'000'000));
  }
  ASSERT_TRUE(freeze_cgroup(made.location));
  const auto frozen = plan_cgroup(made.request);
  ASSERT_FALSE(frozen);
  EXPECT_NE(frozen.error().message().find("container's cgroup unexpectedly frozen"), std::string::npos);
  ASSERT_TRUE(thaw_cgroup(made.location));
}

TEST_F(Cgroup, ALaterOneOfTheSameNameIsLeftAlone) {
  Made first, second;
  ASSERT_TRUE(make(first, "again"));
  const CgroupLocation old = first.location;
  ASSERT_TRUE(remove_cgroup(old));
  ASSERT_TRUE(make(second, "again"));
  ASSERT_NE(second.location.inode, old.inode);
  Child child;
  ASSERT_TRUE(attach_process(second.location, second.request, child.pid(), false, nullptr));
  EXPECT_TRUE(*kill_cgroup(old, 1'000'000));
  EXPECT_TRUE(remove_cgroup(old));
  EXPECT_FALSE(freeze_cgroup(old));
  EXPECT_TRUE(cgroup_processes(old)->empty());
  EXPECT_EQ(waitpid(child.pid(), nullptr, WNOHANG), 0);
  EXPECT_TRUE(*is_populated(second.location));
}

TEST_F(Cgroup, RemovalWaitsForTheLastProcess) {
  Made made;
  ASSERT_TRUE(make(made, "waits"));
  const std::string below = main_directory(made.location) + "/below";
  ASSERT_EQ(mkdir(below.c_str(), 0755), 0);
  // Nothing is taken away as long as somebody is in.
  Child child([&] {
    poll(nullptr, 0, 300);
    return access(below.c_str(), F_OK) == 0 ? 0 : 1;
  });
  ASSERT_TRUE(attach_process(made.location, made.request, child.pid(), false, nullptr));
  const auto removed = remove_cgroup(made.location);
  EXPECT_TRUE(removed) << why(removed);
  EXPECT_EQ(WEXITSTATUS(child.wait()), 0);
  EXPECT_NE(access(main_directory(made.location).c_str(), F_OK), 0);
}

TEST_F(Cgroup, RemovalTakesWhatIsBelowAndKeepsAParentInUse) {
  Made one, two;
  ASSERT_TRUE(make(one, "one"));
  ASSERT_TRUE(make(two, "two"));
  const std::string directory = main_directory(one.location);
  for (const char* below : {"/a", "/a/b", "/a/b/c", "/d"}) {
    ASSERT_EQ(mkdir((directory + below).c_str(), 0755), 0);
  }
  Child child;
  ASSERT_TRUE(sys::write_file(directory + "/a/b/c/cgroup.procs", std::to_string(child.pid())));
  EXPECT_TRUE(*is_populated(one.location));
  EXPECT_EQ(*cgroup_processes(one.location), std::vector<pid_t>{child.pid()});
  EXPECT_TRUE(*kill_cgroup(one.location, 5'000'000));
  const auto removed = remove_cgroup(one.location);
  EXPECT_TRUE(removed) << why(removed);
  EXPECT_NE(access(directory.c_str(), F_OK), 0);
  EXPECT_EQ(access(main_directory(two.location).c_str(), F_OK), 0);
}

TEST_F(Cgroup, DeviceRulesHold) {
  oci::Resources resources;
  resources.devices = {{false, 'a', {}, {}, "rwm"}};
  Made made;
  ASSERT_TRUE(make(made, "devices", &resources));
  const auto opens = [&](const char* path, int flags) {
    Gate gate;
    Child child([&] {
      gate.pass();
      return open(path, flags | O_CLOEXEC) >= 0 ? 0 : errno;
    });
    EXPECT_TRUE(attach_process(made.location, made.request, child.pid(), false, &resources));
    gate.open();
    return WEXITSTATUS(child.wait());
  };
  EXPECT_EQ(opens("/dev/null", O_RDWR), 0);
  EXPECT_EQ(opens("/dev/kmsg", O_RDONLY), EPERM);
  resources.devices.push_back({true, 'c', 1, 11, "r"});
  const auto updated = update_cgroup(made.location, resources);
  ASSERT_TRUE(updated) << why(updated);
  EXPECT_EQ(opens("/dev/kmsg", O_RDONLY), 0);
  EXPECT_EQ(opens("/dev/kmsg", O_WRONLY), EPERM);
}

// Without any resources too: an absent list is no permission.
TEST_F(Cgroup, DevicesAreShutWithoutRules) {
  Made made;
  ASSERT_TRUE(make(made, "nodevices"));
  Gate gate;
  Child child([&] {
    gate.pass();
    return open("/dev/kmsg", O_RDONLY | O_CLOEXEC) >= 0 ? 0 : errno;
  });
  ASSERT_TRUE(attach_process(made.location, made.request, child.pid(), false, nullptr));
  gate.open();
  EXPECT_EQ(WEXITSTATUS(child.wait()), EPERM);
}

TEST_F(Cgroup, ViewIsRelativeToTheMounts) {
  Made made;
  ASSERT_TRUE(make(made, "view"));
  const auto view = cgroup_view(made.location);
  ASSERT_TRUE(view) << why(view);
  EXPECT_EQ(view->unified, controllers_.unified);
  EXPECT_EQ(view->v2_path, made.location.v2.empty() ? "" : test_root() + "/view");
  EXPECT_EQ(view->v1_paths.size(), made.location.v1.size());
  for (const auto& [name, path] : view->v1_paths) EXPECT_EQ(path, test_root() + "/view") << name;
}

TEST_F(Cgroup, MetricsHaveNumbers) {
  need(controllers_.memory && controllers_.pids && controllers_.cpu, "memory, pids and cpu");
  if (IsSkipped()) return;
  oci::Resources resources = memory_limit(64 << 20);
  resources.pids_limit = 9;
  Made made;
  ASSERT_TRUE(make(made, "metrics", &resources));
  Gate gate;
  Child child([&] {
    gate.pass();
    while (getppid() != 1) {
    }
    return 0;
  });
  ASSERT_TRUE(attach_process(made.location, made.request, child.pid(), false, &resources));
  gate.open();
  auto metrics = read_metrics(made.location);
  for (int i = 0; i < 1000 && metrics && metrics->cpu_usage_us.value_or(0) < 1000; ++i) {
    poll(nullptr, 0, 5);
    metrics = read_metrics(made.location);
  }
  ASSERT_TRUE(metrics) << why(metrics);
  EXPECT_GE(metrics->cpu_usage_us.value_or(0), 1000u);
  EXPECT_EQ(metrics->pids_current, 1u);
  EXPECT_EQ(metrics->pids_limit, 9u);
  EXPECT_EQ(metrics->memory_limit, 64u << 20);
  EXPECT_EQ(metrics->oom_kills, 0u);
}

TEST(CgroupDisabled, RefusesLimitsAndLetsDevicesGo) {
  CgroupRequest request;
  request.manager = CgroupManager::disabled;
  CgroupLocation location = *plan_cgroup(request);
  oci::Resources resources;
  resources.devices = {{false, 'a', {}, {}, "rwm"}};
  EXPECT_TRUE(create_cgroup(location, request, &resources));
  EXPECT_TRUE(attach_process(location, request, getpid(), false, &resources));
  EXPECT_FALSE(clone_target(location)->valid());
  EXPECT_TRUE(remove_cgroup(location));
  resources.pids_limit = 5;
  EXPECT_FALSE(create_cgroup(location, request, &resources));
  EXPECT_FALSE(update_cgroup(location, resources));
}

TEST(CgroupNames, AKeyThatMovesProcessesOfTheHostIsRefused) {
  CgroupRequest request;
  request.manager = CgroupManager::disabled;
  CgroupLocation location = *plan_cgroup(request);
  oci::Resources resources;
  resources.unified["cgroup.procs"] = "1";
  EXPECT_FALSE(create_cgroup(location, request, &resources));
  EXPECT_FALSE(update_cgroup(location, resources));
}

}  // namespace
}  // namespace agentrun::sandbox
