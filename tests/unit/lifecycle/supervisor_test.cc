#include "lifecycle/supervisor.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "base/clock.h"
#include "base/text.h"
#include "fixture.h"
#include "lifecycle/deadline_index.h"
#include "lifecycle/supervise.h"
#include "sys/file.h"
#include "sys/socket.h"

namespace agentrun::lifecycle {
namespace {

constexpr std::int64_t kLong = 3600'000'000;
constexpr std::int64_t kPatience = 20'000'000;

class SupervisorTest : public LifecycleTest {
 protected:
  void TearDown() override {
    for (const sys::ProcessId& supervisor : started_) {
      end_supervisor(supervisor);
      waitpid(supervisor.pid, nullptr, WNOHANG);
    }
    LifecycleTest::TearDown();
  }

  sys::ProcessId started(const Result<sys::ProcessId>& result) {
    if (!result) {
      ADD_FAILURE() << result.error().message();
      return {};
    }
    started_.push_back(*result);
    return *result;
  }

  // A container that waits for its start, with its supervisor.
  Container supervised(const sys::ProcessId& process, std::int64_t created_us, bool audit = false) {
    Container container = make_container("c1", process);
    record_ = record_of("c1", process);
    record_.deadline.created_us = created_us;
    record_.audit = audit;
    record_.supervisor = started(fork_supervisor(container, record_));
    EXPECT_TRUE(container.write_record(record_));
    return container;
  }

  // As start does it.
  Result<sys::ProcessId> arm(const Container& container, std::int64_t at_us) {
    if (record_.deadline.at_us == 0) record_.deadline.at_us = at_us;
    EXPECT_TRUE(container.write_record(record_));
    auto armed = arm_supervisor(container, record_, at_us);
    if (armed) record_.supervisor = started(armed);
    return armed;
  }

  static bool ended(const sys::ProcessId& process) {
    const auto pidfd = sys::open_process(process);
    return pidfd && (!*pidfd || *sys::wait_for_end(pidfd->get(), kPatience));
  }

  static bool alive(const sys::ProcessId& process) {
    const auto pidfd = sys::open_process(process);
    return pidfd && *pidfd && !*sys::wait_for_end(pidfd->get(), 0);
  }

  std::string ask(const Container& container, const std::string& message) {
    const auto socket = sys::connect_at(container.directory(), kSupervisorSocket);
    if (!socket) return socket.error().message();
    EXPECT_TRUE(sys::send_message(socket->get(), message));
    const auto answer = sys::receive_message(socket->get(), kMessageLimit);
    return answer ? answer->data : answer.error().message();
  }

  std::string audit() const { return read_text(scratch_ + "/log/audit.jsonl"); }

  Record record_;
  std::vector<sys::ProcessId> started_;
};

TEST_F(SupervisorTest, KillsAtItsDeadlineAndSaysWhy) {
  Sleeper sleeper;
  const Container container = supervised(sleeper.id(), kLong, true);
  const std::int64_t at = clock::boottime_us() + 200'000;
  ASSERT_TRUE(arm(container, at));
  const int status = sleeper.wait(kPatience);
  EXPECT_GE(clock::boottime_us(), at);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_TRUE(ended(record_.supervisor));
  EXPECT_EQ(container.record()->exit_reason, "deadline");
  EXPECT_FALSE(container.record()->kill_pending);
  EXPECT_NE(
      audit().find(
          "\"event\":\"kill\",\"container\":\"c1\",\"reason\":\"deadline\",\"signal\":\"SIGKILL\",\"pending\":false"),
      std::string::npos)
      << audit();
  EXPECT_NE(audit().find("\"event\":\"exit\""), std::string::npos) << audit();
  EXPECT_TRUE(names_in(root_ + "/.deadlines").empty());
}

TEST_F(SupervisorTest, KillsOneThatIsNeverStarted) {
  Sleeper sleeper;
  // The process began a moment ago, in whole clock ticks: the wait is counted from then.
  const Container container = supervised(sleeper.id(), 300'000);
  EXPECT_TRUE(WIFSIGNALED(sleeper.wait(kPatience)));
  EXPECT_TRUE(ended(record_.supervisor));
  EXPECT_EQ(container.record()->exit_reason, "never started");
}

TEST_F(SupervisorTest, AStartWithoutADeadlineEndsTheWait) {
  Sleeper sleeper;
  const Container container = supervised(sleeper.id(), 300'000);
  record_.started = true;
  ASSERT_TRUE(container.write_record(record_));
  EXPECT_EQ(sleeper.wait(800'000), -1);
  EXPECT_TRUE(alive(record_.supervisor));
}

TEST_F(SupervisorTest, NoticesTheEndAndItsStatus) {
  Sleeper sleeper;
  const Container container = supervised(sleeper.id(), kLong, true);
  ASSERT_TRUE(arm(container, clock::boottime_us() + kLong));
  kill(sleeper.id().pid, SIGTERM);
  sleeper.wait(kPatience);  // reaped: now the kernel may tell the status
  EXPECT_TRUE(ended(record_.supervisor));
  const auto note = container.exit_note();
  ASSERT_TRUE(note && *note);
  if (exit_status_of(sleeper.pidfd())) {
    EXPECT_EQ((*note)->reason, "signalled");
    EXPECT_EQ((*note)->status, SIGTERM);
    EXPECT_NE(audit().find("\"status\":143,\"reason\":\"signalled\",\"oom_kills\":0"), std::string::npos) << audit();
  } else {
    EXPECT_EQ((*note)->reason, "unknown");
    EXPECT_NE(audit().find("\"status\":\"unknown\""), std::string::npos) << audit();
  }
}

TEST_F(SupervisorTest, ADeadlineIsNeverMovedLater) {
  Sleeper sleeper;
  const Container container = supervised(sleeper.id(), kLong);
  const std::int64_t at = clock::boottime_us() + kLong;
  EXPECT_TRUE(ask(container, "arm " + std::to_string(at)).starts_with("armed " + std::to_string(at) + " "));
  EXPECT_TRUE(ask(container, "arm " + std::to_string(at + 5)).starts_with("armed " + std::to_string(at) + " "));
  EXPECT_TRUE(ask(container, "arm " + std::to_string(at - 5)).starts_with("armed " + std::to_string(at - 5) + " "));
  EXPECT_EQ(names_in(root_ + "/.deadlines").size(), 1u);
  // Nor by a start that was told of an earlier one by the record.
  record_.deadline.at_us = clock::boottime_us() + 200'000;
  ASSERT_TRUE(arm_supervisor(container, record_, at + kLong));
  EXPECT_TRUE(WIFSIGNALED(sleeper.wait(kPatience)));
}

TEST_F(SupervisorTest, NonsenseChangesNothing) {
  Sleeper sleeper;
  const Container container = supervised(sleeper.id(), kLong);
  for (const char* message : {"arm", "arm ", "arm -1", "arm 0", "arm 1x", "arm 99999999999999999999", "x", "disarm"}) {
    EXPECT_EQ(ask(container, message), "unknown") << message;
  }
  EXPECT_EQ(ask(container, "end"), "alive");
  EXPECT_TRUE(alive(record_.supervisor));
  EXPECT_TRUE(alive(sleeper.id()));
}

TEST_F(SupervisorTest, AClientThatSaysNothingHoldsUpNoKill) {
  Sleeper sleeper;
  const Container container = supervised(sleeper.id(), kLong);
  ASSERT_TRUE(arm(container, clock::boottime_us() + 300'000));
  const auto silent = sys::connect_at(container.directory(), kSupervisorSocket);
  ASSERT_TRUE(silent);
  EXPECT_TRUE(WIFSIGNALED(sleeper.wait(kPatience)));
}

TEST_F(SupervisorTest, AnotherIsForkedWhereItDied) {
  Sleeper sleeper;
  const Container container = supervised(sleeper.id(), kLong);
  const sys::ProcessId first = record_.supervisor;
  kill(first.pid, SIGKILL);
  ASSERT_TRUE(ended(first));
  ASSERT_TRUE(arm(container, clock::boottime_us() + 300'000));
  EXPECT_NE(record_.supervisor.pid, first.pid);
  EXPECT_TRUE(WIFSIGNALED(sleeper.wait(kPatience)));
  EXPECT_EQ(container.record()->exit_reason, "deadline");
}

TEST_F(SupervisorTest, AnotherIsForkedWhereItIsStuck) {
  Sleeper sleeper;
  const Container container = supervised(sleeper.id(), kLong);
  const sys::ProcessId first = record_.supervisor;
  kill(first.pid, SIGSTOP);
  ASSERT_TRUE(arm(container, clock::boottime_us() + kLong));
  EXPECT_TRUE(ended(first));
  EXPECT_TRUE(alive(record_.supervisor));
  EXPECT_NE(record_.supervisor.pid, first.pid);
}

TEST_F(SupervisorTest, OneThatIsGoneIsNotArmed) {
  Sleeper sleeper;
  const Container container = supervised(sleeper.id(), kLong);
  kill(sleeper.id().pid, SIGKILL);
  sleeper.wait(kPatience);
  ASSERT_TRUE(ended(record_.supervisor));
  waitpid(record_.supervisor.pid, nullptr, 0);
  EXPECT_FALSE(arm_supervisor(container, record_, clock::boottime_us() + kLong));
}

TEST_F(SupervisorTest, HoldsNothingOfItsCallers) {
  Sleeper sleeper;
  const int leak = open("/etc/passwd", O_RDONLY);
  const auto pipe = sys::socket_pair(SOCK_STREAM);
  ASSERT_TRUE(pipe);
  Container locked = *open_store().create("c2");
  Record record = record_of("c2", sleeper.id());
  ASSERT_TRUE(locked.write_record(record));
  const sys::ProcessId supervisor = started(fork_supervisor(locked, record));
  ASSERT_TRUE(locked.write_record(record));
  // Its answer says that it is past its beginning.
  EXPECT_EQ(ask(locked, "x"), "unknown");
  EXPECT_EQ(getsid(supervisor.pid), supervisor.pid);
  const std::string proc = "/proc/" + std::to_string(supervisor.pid) + "/fd";
  const std::size_t expected = 8;  // 0 to 2, root, directory, pidfd, listener, timer
  // The connection that just gave the answer may be closed a moment later.
  for (int i = 0; i < 200 && names_in(proc).size() > expected; ++i) usleep(10'000);
  EXPECT_EQ(names_in(proc).size(), expected);
  for (const std::string& name : names_in(proc)) {
    std::array<char, 256> target{};
    if (readlink((proc + "/" + name).c_str(), target.data(), target.size() - 1) < 0) continue;
    const std::string_view what = target.data();
    EXPECT_NE(what, "/etc/passwd");
    EXPECT_FALSE(what.ends_with("/lock")) << "it keeps the container's lock";
    if (name == "0" || name == "1" || name == "2") {
      EXPECT_EQ(what, "/dev/null") << name;
    }
  }
  close(leak);
  // The lock that its forker held is free as soon as that one gives it back.
  locked.unlock();
  EXPECT_TRUE(open_store().lock("c2", 0));
}

TEST_F(SupervisorTest, SignalsOfASessionDoNotEndIt) {
  Sleeper sleeper;
  const Container container = supervised(sleeper.id(), kLong);
  EXPECT_EQ(ask(container, "x"), "unknown");
  for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGPIPE}) kill(record_.supervisor.pid, signal);
  EXPECT_EQ(ask(container, "x"), "unknown");
  EXPECT_TRUE(alive(record_.supervisor));
}

TEST_F(SupervisorTest, SurvivesTheDeathOfItsForker) {
  Sleeper sleeper;
  const Container container = make_container("c1", sleeper.id());
  Record record = record_of("c1", sleeper.id());
  record.deadline.at_us = clock::boottime_us() + 400'000;
  ASSERT_TRUE(container.write_record(record));
  const pid_t forker = *sys::fork_running([&] {
    if (!fork_supervisor(container, record)) return 1;
    ::kill(getpid(), SIGKILL);
    return 1;
  });
  EXPECT_TRUE(WIFSIGNALED(sys::wait_process(forker)->status));
  EXPECT_TRUE(WIFSIGNALED(sleeper.wait(kPatience)));
  EXPECT_EQ(container.record()->exit_reason, "deadline");
}

TEST_F(SupervisorTest, EndsWhenDeleteAsksEvenIfNobodyReaps) {
  Sleeper sleeper;
  const Container container = supervised(sleeper.id(), kLong, true);
  kill(sleeper.id().pid, SIGKILL);
  ASSERT_TRUE(*sys::wait_for_end(sleeper.pidfd(), kPatience));  // a zombie from now on
  end_supervisor(container, record_);
  EXPECT_FALSE(alive(record_.supervisor));
  EXPECT_NE(audit().find("\"event\":\"exit\""), std::string::npos) << audit();
}

TEST_F(SupervisorTest, SweepKillsWhatHasNoSupervisorAnyMore) {
  Sleeper overdue, early, unstarted;
  const Store store = open_store();
  const auto add = [&](const std::string& id, const sys::ProcessId& process, Deadline deadline) {
    const Container container = make_container(id, process);
    Record record = record_of(id, process);
    record.deadline = deadline;
    EXPECT_TRUE(container.write_record(record));
    EXPECT_TRUE(index_deadline(store.directory(), id, overdue_at(record)));
  };
  const std::int64_t now = clock::boottime_us();
  add("overdue", overdue.id(), {now - 3'000'000, 1, 0, ""});
  add("early", early.id(), {now + kLong, 1, 0, ""});
  add("unstarted", unstarted.id(), {0, 1, 1, ""});
  sys::ProcessId reborn = early.id();
  reborn.boot_id = "of an earlier boot";
  add("reborn", reborn, {now - 3'000'000, 1, 0, ""});
  ASSERT_TRUE(index_deadline(store.directory(), "nobody", 5));
  usleep(2'100'000);  // the grace of a supervisor that is at it

  const auto killed = sweep(store);
  ASSERT_TRUE(killed) << killed.error().message();
  EXPECT_EQ(*killed, 2);
  EXPECT_TRUE(WIFSIGNALED(overdue.wait(kPatience)));
  EXPECT_TRUE(WIFSIGNALED(unstarted.wait(kPatience)));
  EXPECT_EQ(early.wait(0), -1);
  EXPECT_EQ(store.find("overdue")->record()->exit_reason, "deadline");
  EXPECT_EQ(store.find("unstarted")->record()->exit_reason, "never started");
  EXPECT_EQ(*sweep(store), 0);
  EXPECT_EQ(names_in(root_ + "/.deadlines").size(), 1u);  // early
}

}  // namespace
}  // namespace agentrun::lifecycle
