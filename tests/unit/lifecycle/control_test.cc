#include "lifecycle/control.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>

#include "base/clock.h"
#include "fixture.h"
#include "lifecycle/merge_resources.h"
#include "lifecycle/reports.h"
#include "lifecycle/supervisor.h"

namespace agentrun::lifecycle {
namespace {

constexpr std::int64_t kPatience = 20'000'000;

class ControlTest : public LifecycleTest {
 protected:
  void start(const std::string& id) const {
    const auto container = open_store().find(id);
    Record record = *container->record();
    record.started = true;
    ASSERT_TRUE(container->write_record(record));
  }

  template <typename T>
  static std::string message(const Result<T>& result) {
    return result ? std::string("ok") : result.error().message();
  }
};

TEST_F(ControlTest, KillSendsTheSignal) {
  Sleeper sleeper;
  make_container("a", sleeper.id());
  EXPECT_EQ(message(kill(global_, "a", 0, false)), "ok");
  EXPECT_EQ(sleeper.wait(50'000), -1);
  EXPECT_EQ(message(kill(global_, "a", SIGTERM, false)), "ok");  // created is enough
  EXPECT_EQ(WTERMSIG(sleeper.wait(kPatience)), SIGTERM);
  EXPECT_EQ(message(kill(global_, "a", SIGTERM, false)), "container not running: a");
  EXPECT_EQ(message(kill(global_, "a", SIGKILL, false)), "container not running: a");
  EXPECT_EQ(message(kill(global_, "a", SIGKILL, true)), "ok");  // engines make sure with --all
  EXPECT_EQ(message(kill(global_, "b", SIGKILL, false)), "container b does not exist");
}

TEST_F(ControlTest, KillDoesNotWaitForTheLock) {
  Sleeper sleeper;
  make_container("a", sleeper.id());
  const auto held = open_store().lock("a");
  ASSERT_TRUE(held);
  EXPECT_EQ(message(kill(global_, "a", SIGKILL, false)), "ok");
  EXPECT_EQ(WTERMSIG(sleeper.wait(kPatience)), SIGKILL);
  EXPECT_EQ(held->record()->exit_reason, "killed");
}

TEST_F(ControlTest, KillNeverReachesALaterProcessOfThePid) {
  Sleeper sleeper;
  sys::ProcessId other = sleeper.id();
  other.start_time -= 1;
  make_container("a", other);
  EXPECT_EQ(message(kill(global_, "a", SIGKILL, false)), "container not running: a");
  EXPECT_EQ(message(remove(global_, "a", true)), "ok");
  EXPECT_EQ(sleeper.wait(50'000), -1);
}

TEST_F(ControlTest, KillIsInTheAuditTrail) {
  Sleeper sleeper;
  const Container container = make_container("a", sleeper.id());
  Record record = *container.record();
  record.audit = true;
  ASSERT_TRUE(container.write_record(record));
  EXPECT_EQ(message(kill(global_, "a", SIGTERM, false)), "ok");
  EXPECT_NE(read_text(scratch_ + "/log/audit.jsonl")
                .find("\"event\":\"kill\",\"container\":\"a\",\"signal\":\"SIGTERM\",\"number\":15,\"all\":false"),
            std::string::npos);
}

TEST_F(ControlTest, KillGoesOnWhereTheAuditTrailCannot) {
  Sleeper sleeper;
  const Container container = make_container("a", sleeper.id());
  Record record = *container.record();
  record.audit = true;
  ASSERT_TRUE(container.write_record(record));
  write_text(scratch_ + "/log", "a file in the place of the directory");
  EXPECT_NE(message(kill(global_, "a", SIGKILL, false)), "ok");
  EXPECT_EQ(WTERMSIG(sleeper.wait(kPatience)), SIGKILL);
}

TEST_F(ControlTest, RemoveWantsAStoppedContainer) {
  Sleeper sleeper;
  make_container("a", sleeper.id());
  EXPECT_EQ(message(remove(global_, "a", false)), "container a is not stopped: created");
  start("a");
  EXPECT_EQ(message(remove(global_, "a", false)), "container a is not stopped: running");
  EXPECT_EQ(message(kill(global_, "a", SIGKILL, false)), "ok");
  sleeper.wait(kPatience);
  EXPECT_EQ(message(remove(global_, "a", false)), "ok");
  EXPECT_FALSE(exists(root_ + "/a"));
  EXPECT_EQ(message(remove(global_, "a", false)), "container a does not exist");
  EXPECT_EQ(message(remove(global_, "a", true)), "ok");
}

TEST_F(ControlTest, ForcedRemoveKills) {
  Sleeper sleeper;
  make_container("a", sleeper.id());
  EXPECT_EQ(message(remove(global_, "a", true)), "ok");
  EXPECT_EQ(WTERMSIG(sleeper.wait(0)), SIGKILL);  // it is dead when the command is done
  EXPECT_FALSE(exists(root_ + "/a"));
}

TEST_F(ControlTest, ForcedRemoveKillsBeforeItWaitsForTheLock) {
  Sleeper sleeper;
  make_container("a", sleeper.id());
  auto held = open_store().lock("a");
  ASSERT_TRUE(held);
  const pid_t remover = *sys::fork_running([&] {
    held->unlock();
    return remove(global_, "a", true) ? 0 : 1;
  });
  EXPECT_EQ(WTERMSIG(sleeper.wait(kPatience)), SIGKILL);  // while the lock is held
  EXPECT_TRUE(exists(root_ + "/a"));
  held->unlock();
  EXPECT_EQ(sys::wait_process(remover)->code(), 0);
  EXPECT_FALSE(exists(root_ + "/a"));
}

TEST_F(ControlTest, ForcedRemoveEndsTheSupervisor) {
  Sleeper sleeper;
  const Container container = make_container("a", sleeper.id());
  Record record = *container.record();
  record.supervisor = *fork_supervisor(container, record);
  ASSERT_TRUE(container.write_record(record));
  const std::int64_t began = clock::monotonic_us();
  EXPECT_EQ(message(remove(global_, "a", true)), "ok");
  EXPECT_LT(clock::monotonic_us() - began, 900'000);  // it does not wait for a reaper that is not there
  int status = 0;
  EXPECT_EQ(waitpid(record.supervisor.pid, &status, WNOHANG), record.supervisor.pid);  // gone, not going
  EXPECT_TRUE(WIFEXITED(status));
}

TEST_F(ControlTest, WhatAKilledCreateLeftIsRemoved) {
  const Store store = open_store();
  {
    // Killed right after the rename: nothing but the lock.
    ASSERT_TRUE(store.create("bare"));
    EXPECT_EQ(message(remove(global_, "bare", false)), "ok");
    EXPECT_FALSE(exists(root_ + "/bare"));
  }
  const pid_t dead = *sys::fork_running([] { return 0; });
  Intent intent;
  intent.id = "a";
  intent.creator = {dead, *sys::start_time(dead), *sys::boot_id()};
  intent.cgroup.manager = sandbox::CgroupManager::disabled;
  ASSERT_TRUE(sys::wait_process(dead));
  {
    const auto container = store.create("a");
    ASSERT_TRUE(container->write_intent(intent));
  }
  EXPECT_EQ(state(global_, "a")->status, oci::Status::stopped);
  EXPECT_EQ(message(kill(global_, "a", SIGTERM, false)), "container not running: a");
  EXPECT_EQ(message(remove(global_, "a", true)), "ok");
  EXPECT_FALSE(exists(root_ + "/a"));
}

TEST_F(ControlTest, OneThatIsBeingCreatedIsLeftToItsCreator) {
  Sleeper creator;
  Intent intent;
  intent.id = "a";
  intent.creator = creator.id();
  intent.cgroup.manager = sandbox::CgroupManager::disabled;
  {
    const auto container = open_store().create("a");
    ASSERT_TRUE(container->write_intent(intent));
  }
  EXPECT_EQ(state(global_, "a")->status, oci::Status::creating);
  EXPECT_EQ(message(remove(global_, "a", true)),
            "container a is not stopped: process " + std::to_string(creator.id().pid) + " is creating it");
  EXPECT_EQ(creator.wait(0), -1);
  EXPECT_TRUE(exists(root_ + "/a"));
}

TEST_F(ControlTest, ForcedRemoveOfWhatCannotBeRead) {
  Sleeper sleeper;
  make_container("a", sleeper.id());
  write_text(root_ + "/a/state.json", "{\"format\":1,\"id\":\"a\",\"pro");
  EXPECT_NE(message(remove(global_, "a", false)), "ok");
  EXPECT_EQ(message(remove(global_, "a", true)), "ok");
  EXPECT_FALSE(exists(root_ + "/a"));
}

TEST_F(ControlTest, StateSaysWhatIs) {
  Sleeper sleeper;
  const Container container = make_container("a", sleeper.id());
  Record record = *container.record();
  record.annotations["mine"] = "yes";
  record.policy = "strict";
  record.deadline.length_us = 600'000'000;
  ASSERT_TRUE(container.write_record(record));
  auto state_now = state(global_, "a");
  ASSERT_TRUE(state_now);
  EXPECT_EQ(state_now->status, oci::Status::created);
  EXPECT_EQ(state_now->pid, sleeper.id().pid);
  EXPECT_EQ(state_now->bundle, "/bundle");
  EXPECT_EQ(state_now->annotations["mine"], "yes");
  EXPECT_EQ(state_now->annotations["org.agentrun.policy"], "strict");
  EXPECT_EQ(state_now->annotations["org.agentrun.backend"], "native");
  EXPECT_EQ(state_now->annotations["org.agentrun.deadline"], "10m");
  EXPECT_EQ(state_now->annotations["org.agentrun.report"], root_ + "/a/report.json");
  EXPECT_EQ(state_now->annotations.count("org.agentrun.exit.reason"), 0u);
  start("a");
  EXPECT_EQ(state(global_, "a")->status, oci::Status::running);
  EXPECT_EQ(message(kill(global_, "a", SIGKILL, false)), "ok");
  sleeper.wait(kPatience);
  state_now = state(global_, "a");
  EXPECT_EQ(state_now->status, oci::Status::stopped);
  EXPECT_EQ(state_now->pid, 0);
  EXPECT_EQ(state_now->annotations["org.agentrun.exit.reason"], "killed");
  EXPECT_EQ(message(state(global_, "b")), "container b does not exist");
}

TEST_F(ControlTest, ListBearsWithHalfMadeOnes) {
  Sleeper sleeper;
  make_container("whole", sleeper.id());
  ASSERT_TRUE(open_store().create("bare"));
  make_container("broken", sleeper.id());
  write_text(root_ + "/broken/state.json", "{");
  write_text(root_ + "/a-file", "");
  const auto states = list(global_);
  ASSERT_TRUE(states) << states.error().message();
  std::map<std::string, oci::Status> found;
  for (const oci::State& one : *states) found[one.id] = one.status;
  EXPECT_EQ(found.size(), 3u);
  EXPECT_EQ(found["whole"], oci::Status::created);
  EXPECT_EQ(found["bare"], oci::Status::creating);
  EXPECT_EQ(found["broken"], oci::Status::stopped);
}

TEST_F(ControlTest, WithoutACgroupNothingIsPretended) {
  Sleeper sleeper;
  make_container("a", sleeper.id());
  EXPECT_NE(message(pause(global_, "a")).find("no cgroup"), std::string::npos);
  EXPECT_NE(message(resume(global_, "a")).find("no cgroup"), std::string::npos);
  EXPECT_NE(message(update(global_, "a", {})).find("no cgroup"), std::string::npos);
  EXPECT_NE(message(processes(global_, "a")).find("no cgroup"), std::string::npos);
  kill(global_, "a", SIGKILL, false);
  sleeper.wait(kPatience);
  EXPECT_EQ(message(pause(global_, "a")), "container not running: a");
}

TEST_F(ControlTest, ReportOutlivesTheContainer) {
  Sleeper sleeper;
  const Container container = make_container("a", sleeper.id());
  policy::Report made;
  made.policy = "strict";
  ASSERT_TRUE(container.write_report(made));
  EXPECT_EQ(report(global_, "a")->policy, "strict");
  EXPECT_EQ(message(remove(global_, "a", true)), "ok");
  ASSERT_TRUE(report(global_, "a")) << message(report(global_, "a"));
  EXPECT_EQ(report(global_, "a")->policy, "strict");
  EXPECT_EQ(message(report(global_, "b")), "container b does not exist: and there is no report of it");
}

TEST_F(ControlTest, OnlyTheNewestReportsAreKept) {
  const Store store = open_store();
  mkdir((root_ + "/.reports").c_str(), 0700);
  for (int i = 0; i < 10; ++i) {
    const std::string path = root_ + "/.reports/r" + std::to_string(i) + ".json";
    write_text(path, "{}");
    const timespec times[2] = {{1000 + i, 0}, {1000 + i, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  ASSERT_TRUE(prune_reports(store.directory(), 3));
  auto names = names_in(root_ + "/.reports");
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"r7.json", "r8.json", "r9.json"}));
}

TEST(MergeResources, SwapFollowsTheLimit) {
  const auto swap_after = [](std::int64_t limit, std::int64_t swap, std::int64_t wanted) {
    oci::Resources base, change;
    base.memory.emplace();
    base.memory->limit = limit;
    base.memory->swap = swap;
    change.memory.emplace();
    change.memory->limit = wanted;
    merge_resources(base, change);
    return *base.memory->swap;
  };
  EXPECT_EQ(swap_after(100, 100, 500), 500);  // none before, none after
  EXPECT_EQ(swap_after(100, 300, 50), 250);
  EXPECT_EQ(swap_after(100, -1, 50), -1);
  EXPECT_EQ(swap_after(100, 100, -1), -1);
  EXPECT_EQ(swap_after(-1, -1, 50), -1);
}

TEST(MergeResources, WhatTheChangeDoesNotNameStays) {
  oci::Resources base, change;
  base.memory.emplace();
  base.memory->limit = 100;
  base.memory->swap = 200;
  base.pids_limit = 7;
  base.hugepage_limits = {{"2MB", 1}, {"1GB", 2}};
  base.unified = {{"memory.high", "1"}};
  change.memory.emplace();
  change.memory->limit = 50;
  change.cpu.emplace();
  change.cpu->quota = 1000;
  change.hugepage_limits = {{"1GB", 0}, {"64KB", 3}};
  change.unified = {{"memory.high", "2"}, {"pids.max", "3"}};
  merge_resources(base, change);
  EXPECT_EQ(base.memory->limit, 50);
  EXPECT_EQ(base.memory->swap, 150);  // as much swap as before
  EXPECT_EQ(base.pids_limit, 7);
  EXPECT_EQ(base.cpu->quota, 1000);
  ASSERT_EQ(base.hugepage_limits.size(), 3u);
  EXPECT_EQ(base.hugepage_limits[1].limit, 0u);
  EXPECT_EQ(base.unified["memory.high"], "2");
  EXPECT_EQ(base.unified["pids.max"], "3");
}

}  // namespace
}  // namespace agentrun::lifecycle
