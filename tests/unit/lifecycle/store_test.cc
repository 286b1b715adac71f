#include "lifecycle/store.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "base/clock.h"
#include "fixture.h"
#include "lifecycle/deadline_index.h"
#include "lifecycle/lock.h"
#include "lifecycle/owner.h"
#include "lifecycle/store_names.h"
#include "sys/file.h"

namespace agentrun::lifecycle {
namespace {

TEST(Ids, GoodOnesAreTaken) {
  for (const char* id : {"a", "A9", "web_1", "a+b.c-d", "0", "_", "+", "a..b"}) EXPECT_TRUE(check_id(id)) << id;
  EXPECT_TRUE(check_id(std::string(200, 'x')));
}

TEST(Ids, BadOnesAreRefusedWithTheReason) {
  const auto reason = [](const std::string& id) {
    const auto result = check_id(id);
    return result ? std::string("accepted") : result.error().message();
  };
  EXPECT_EQ(reason(""), "container id: it is empty");
  EXPECT_EQ(reason("."), "container id .: it starts with '.' or '-'");
  EXPECT_EQ(reason(".."), "container id ..: it starts with '.' or '-'");
  EXPECT_EQ(reason("-f"), "container id -f: it starts with '.' or '-'");
  EXPECT_EQ(reason(std::string(2000, 'x')),
            "container id " + std::string(64, 'x') + "...: it has 2000 bytes, at most 200 are allowed");
  for (const std::string& id :
       {std::string("a/b"), std::string("a/../b"), std::string("a b"), std::string("a\n"), std::string("a\0b", 3),
        std::string("\xc3\xa9"), std::string("a:b"), std::string("a%")}) {
    EXPECT_NE(reason(id).find("only letters, digits"), std::string::npos) << reason(id);
  }
  EXPECT_FALSE(check_id(std::string(201, 'x')));
}

TEST(Owner, OuterUidFollowsTheMap) {
  EXPECT_EQ(outer_uid("         0          0 4294967295\n", 0), 0u);
  EXPECT_EQ(outer_uid("0 1000 1\n1 100000 65536\n", 0), 1000u);
  EXPECT_EQ(outer_uid("0 1000 1\n1 100000 65536\n", 2), 100001u);
  EXPECT_EQ(outer_uid("0 1000 1\n", 5), std::nullopt);
  EXPECT_EQ(outer_uid("", 0), std::nullopt);
}

class StoreTest : public LifecycleTest {};

TEST_F(StoreTest, RootIsMadeForItsOwnerOnly) {
  const Store store = open_store();
  struct stat status {};
  ASSERT_EQ(stat(root_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
  EXPECT_EQ(store.path(), root_);
  global_.root = scratch_ + "/a/b/c";
  ASSERT_TRUE(Store::open(global_.root));
  ASSERT_EQ(stat((scratch_ + "/a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0755u);
  ASSERT_EQ(stat((scratch_ + "/a/b/c").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
}

TEST_F(StoreTest, RootThatOthersCanWriteToIsRefused) {
  for (const unsigned mode : {0770u, 0707u, 0777u, 01777u}) {
    mkdir(root_.c_str(), 0700);
    chmod(root_.c_str(), mode);
    const auto store = Store::open(root_);
    ASSERT_FALSE(store) << std::oct << mode;
    EXPECT_NE(store.error().message().find("others can write to it"), std::string::npos);
    rmdir(root_.c_str());
  }
}

TEST_F(StoreTest, RootOfAnotherUserIsRefused) {
  mkdir(root_.c_str(), 0700);
  ASSERT_EQ(chown(root_.c_str(), 1234, 0), 0);
  const auto store = Store::open(root_);
  ASSERT_FALSE(store);
  EXPECT_NE(store.error().message().find("owned by uid 1234"), std::string::npos) << store.error().message();
}

TEST_F(StoreTest, RootsAreRegisteredAndForgottenWithTheirDirectory) {
  open_store();
  open_store();  // again: one entry
  auto roots = Store::roots();
  ASSERT_TRUE(roots);
  EXPECT_EQ(std::count(roots->begin(), roots->end(), root_), 1);
  ASSERT_EQ(rmdir(root_.c_str()), 0);
  roots = Store::roots();
  ASSERT_TRUE(roots);
  EXPECT_EQ(std::count(roots->begin(), roots->end(), root_), 0);
}

TEST_F(StoreTest, DefaultRootOfTheHostsRootIgnoresTheEnvironment) {
  setenv("XDG_RUNTIME_DIR", scratch_.c_str(), 1);
  EXPECT_EQ(default_root(), "/run/agentrun");
  unsetenv("XDG_RUNTIME_DIR");
}

TEST_F(StoreTest, SecondCreateOfAnIdFails) {
  const Store store = open_store();
  const auto first = store.create("a");
  ASSERT_TRUE(first) << first.error().message();
  const auto second = store.create("a");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message(), "container with id exists: a");
  EXPECT_EQ(second.error().code, EEXIST);
  EXPECT_EQ(names_in(root_), std::vector<std::string>{"a"});  // and nothing of the second is left
  struct stat status {};
  ASSERT_EQ(stat((root_ + "/a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
}

TEST_F(StoreTest, OfManyCreatesAtOnceExactlyOneWins) {
  open_store();
  for (int round = 0; round < 20; ++round) {
    const std::string id = "race-" + std::to_string(round);
    std::vector<pid_t> children;
    for (int i = 0; i < 8; ++i) {
      children.push_back(*sys::fork_running([&] {
        auto store = Store::open(root_);
        return store && store->create(id) ? 0 : 1;
      }));
    }
    int winners = 0;
    for (const pid_t child : children) winners += sys::wait_process(child)->code() == 0;
    EXPECT_EQ(winners, 1);
  }
  EXPECT_EQ(names_in(root_).size(), 20u);
}

TEST_F(StoreTest, FullDiskLeavesNothing) {
  mkdir(root_.c_str(), 0700);
  // Inodes: the root, the new directory, and no more; so the lock file cannot be made.
  ASSERT_EQ(mount("tmpfs", root_.c_str(), "tmpfs", 0, "nr_inodes=2,mode=0700"), 0);
  {
    const Store store = open_store();
    const auto container = store.create("a");
    ASSERT_FALSE(container);
    EXPECT_EQ(container.error().code, ENOSPC);
    EXPECT_TRUE(names_in(root_).empty());
  }
  umount(root_.c_str());
}

TEST_F(StoreTest, FullDiskKeepsTheOldRecord) {
  mkdir(root_.c_str(), 0700);
  ASSERT_EQ(mount("tmpfs", root_.c_str(), "tmpfs", 0, "size=64k,mode=0700"), 0);
  {
    const Store store = open_store();
    auto container = store.create("a");
    ASSERT_TRUE(container);
    Record record = record_of("a", {1, 2, "boot"});
    ASSERT_TRUE(container->write_record(record));
    record.annotations["big"] = std::string(1 << 20, 'x');
    const auto written = container->write_record(record);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, ENOSPC);
    ASSERT_TRUE(container->record());
    EXPECT_EQ(container->record()->annotations.count("big"), 0u);
    std::vector<std::string> names = names_in(root_ + "/a");
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, (std::vector<std::string>{"lock", "state.json"}));
  }
  umount(root_.c_str());
}

TEST_F(StoreTest, MissingContainer) {
  const Store store = open_store();
  const auto found = store.find("nobody");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message(), "container nobody does not exist");
  EXPECT_FALSE(store.lock("nobody"));
  EXPECT_FALSE(*store.look_up("nobody"));
  EXPECT_FALSE(store.find("../state"));
}

TEST_F(StoreTest, MissingStateIsAKilledCreate) {
  const Store store = open_store();
  const auto container = store.create("a");
  Intent intent;
  intent.id = "a";
  intent.creator = {1, 2, "boot"};
  ASSERT_TRUE(container->write_intent(intent));
  const auto record = container->record();
  ASSERT_FALSE(record);
  EXPECT_EQ(record.error().code, ENOENT);
  EXPECT_EQ(container->intent()->creator.pid, 1);
}

TEST_F(StoreTest, RecordOfAnotherIdIsRefused) {
  const Container container = make_container("a", {1, 2, "boot"});
  write_text(root_ + "/a/state.json",
             read_text(root_ + "/a/state.json").replace(read_text(root_ + "/a/state.json").find("\"a\""), 3, "\"b\""));
  EXPECT_FALSE(container.record());
}

TEST_F(StoreTest, LockIsExclusiveAndWaitsForItsRelease) {
  const Store store = open_store();
  auto held = store.create("a");
  const std::int64_t began = clock::monotonic_us();
  const auto refused = store.lock("a", 100'000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "lock container a: another operation holds it");
  EXPECT_GE(clock::monotonic_us() - began, 100'000);
  EXPECT_FALSE(store.lock("a", 0));
  EXPECT_TRUE(store.find("a"));  // without the lock at once

  const pid_t waiter = *sys::fork_running([&] {
    static_cast<void>(held->unlock());  // the child's copy: it is the parent's lock that it waits for
    return store.lock("a", 10'000'000) ? 0 : 1;
  });
  usleep(50'000);
  held->unlock();
  EXPECT_EQ(sys::wait_process(waiter)->code(), 0);
}

TEST_F(StoreTest, LockWaitsInNoChildAfterwards) {
  const Store store = open_store();
  const auto held = store.create("a");
  EXPECT_FALSE(store.lock("a", 20'000));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(StoreTest, LockOfOneThatWasDeletedAndMadeAgainIsNotTheOldOne) {
  const Store store = open_store();
  auto old = store.create("a");
  ASSERT_TRUE(old->write_record(record_of("a", {1, 2, "boot"})));
  // Somebody waits for the lock of the old one; it is removed, and another of that name made, before it is given back.
  const pid_t waiter = *sys::fork_running([&] {
    old->unlock();
    const auto locked = store.lock_if_there("a", 10'000'000);
    return locked && !*locked ? 0 : 1;
  });
  usleep(100'000);
  ASSERT_TRUE(old->remove());
  const auto fresh = store.create("a");
  ASSERT_TRUE(fresh);
  old->unlock();
  EXPECT_EQ(sys::wait_process(waiter)->code(), 0);
}

TEST_F(StoreTest, RemoveTakesEverythingAndTheIndex) {
  const Store store = open_store();
  auto container = store.create("a");
  Record record = record_of("a", {1, 1000, "boot"});
  record.deadline.created_us = 5;
  const std::int64_t created_at = overdue_at(record);
  EXPECT_EQ(created_at, 10'000'005);
  ASSERT_TRUE(index_deadline(store.directory(), "a", created_at));
  record.started = true;
  record.deadline.at_us = 12345;
  ASSERT_TRUE(index_deadline(store.directory(), "a", 12345));
  ASSERT_TRUE(index_deadline(store.directory(), "b", 12345));
  ASSERT_TRUE(container->write_record(record));
  ASSERT_TRUE(container->remove());
  EXPECT_EQ(names_in(root_), std::vector<std::string>{".deadlines"});
  EXPECT_EQ(names_in(root_ + "/.deadlines"), std::vector<std::string>{"0000000000000012345-b"});
}

TEST_F(StoreTest, IdsLeaveOutWhatIsNoContainer) {
  const Store store = open_store();
  static_cast<void>(store.create("b"));
  static_cast<void>(store.create("a"));
  ASSERT_TRUE(store.seccomp_cache());
  mkdir((root_ + "/.new-1-x").c_str(), 0700);
  EXPECT_EQ(*store.ids(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(exists(root_ + "/.cache/seccomp"));
}

TEST_F(StoreTest, LeftoversOfKilledCommandsAreCleared) {
  const Store store = open_store();
  Sleeper alive;
  const pid_t dead = *sys::fork_running([] { return 0; });
  ASSERT_TRUE(sys::wait_process(dead));
  const std::string of_the_living = ".new-" + std::to_string(alive.id().pid) + "-x";
  for (const std::string& name : {std::string(".gone-1"), ".new-" + std::to_string(dead) + "-x", of_the_living}) {
    mkdir((root_ + "/" + name).c_str(), 0700);
    write_text(root_ + "/" + name + "/lock", "");
  }
  remove_leftovers(store.directory());
  EXPECT_EQ(names_in(root_), std::vector<std::string>{of_the_living});
}

TEST_F(StoreTest, StatusFollowsTheProcess) {
  Sleeper sleeper;
  const Container container = make_container("a", sleeper.id());
  Record record = *container.record();
  EXPECT_EQ(*container.status(record), oci::Status::created);
  record.started = true;
  EXPECT_EQ(*container.status(record), oci::Status::running);
  Record other = record;
  other.process.start_time += 1;  // the pid is another's by now
  EXPECT_EQ(*container.status(other), oci::Status::stopped);
  other = record;
  other.process.boot_id = "of an earlier boot";
  EXPECT_EQ(*container.status(other), oci::Status::stopped);
  kill(sleeper.id().pid, SIGKILL);
  ASSERT_TRUE(*sys::wait_for_end(sleeper.pidfd(), 5'000'000));
  EXPECT_EQ(*container.status(record), oci::Status::stopped);  // not reaped yet
  sleeper.wait(0);
  EXPECT_EQ(*container.status(record), oci::Status::stopped);
}

TEST_F(StoreTest, ExitNoteIsAPartOfTheRecord) {
  const Container container = make_container("a", {1, 2, "boot"});
  ASSERT_TRUE(container.write_exit_note({"deadline", true, std::nullopt}));
  const auto record = container.record();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->exit_reason, "deadline");
  EXPECT_TRUE(record->kill_pending);
  write_text(root_ + "/a/exit.json", "{\"for");
  EXPECT_FALSE(container.record());
}

TEST_F(StoreTest, DeadlineIndexGivesTheOverdue) {
  const Store store = open_store();
  EXPECT_TRUE(overdue_entries(store.directory(), 100)->empty());
  ASSERT_TRUE(index_deadline(store.directory(), "late", 200));
  ASSERT_TRUE(index_deadline(store.directory(), "due-1", 100));
  write_text(root_ + "/.deadlines/nonsense", "");
  const auto entries = overdue_entries(store.directory(), 100);
  ASSERT_TRUE(entries);
  ASSERT_EQ(entries->size(), 1u);
  EXPECT_EQ((*entries)[0].id, "due-1");
  EXPECT_EQ((*entries)[0].at_us, 100);
  unindex_all(store.directory(), "due-1");
  EXPECT_TRUE(overdue_entries(store.directory(), 100)->empty());
  EXPECT_EQ(overdue_entries(store.directory(), 200)->size(), 1u);
}

}  // namespace
}  // namespace agentrun::lifecycle
