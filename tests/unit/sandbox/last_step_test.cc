#include "sandbox/last_step.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>

#include "forked.h"
#include "sandbox/identity.h"
#include "sandbox/landlock.h"
#include "sys/file.h"
#include "sys/landlock.h"
#include "sys/socket.h"

namespace agentrun::sandbox {
namespace {

struct Outcome {
  int status = -1;      // exit status, or 128 + signal
  std::string failure;  // what came over error_fd
  std::string output;   // of the program, fd 1
};

// Reads until the other end closes.
std::string drain(int fd) { return *sys::read_fd(fd, "pipe"); }

class LastStepTest : public testing::Test {
 protected:
  using Setup = std::function<void(Launch&)>;

  void SetUp() override {
    directory_ = testing::TempDir() + "agentrun-last-step-XXXXXX";
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
    last_step_ = *prepare_last_step();
  }
  void TearDown() override {
    const auto parent = sys::open(testing::TempDir(), O_PATH | O_DIRECTORY);
    ASSERT_TRUE(sys::remove_tree_at(parent->get(), directory_.substr(testing::TempDir().size())));
  }

  std::string make(const std::string& name, const std::string& text, mode_t mode = 0755) {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path) << text;
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }

  // Starts `launch` in a child; `before` runs there first.
  void start(const Launch& launch, const Setup& before = {}) {
    int errors[2], output[2];
    ASSERT_EQ(pipe2(errors, O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(output, O_CLOEXEC), 0);
    errors_ = UniqueFd(errors[0]);
    output_ = UniqueFd(output[0]);
    const UniqueFd error_end(errors[1]), output_end(output[1]);
    pid_ = fork();
    if (pid_ != 0) return;
    dup2(output_end.get(), 1);
    Launch own = launch;
    own.error_fd = error_end.get();
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (before) before(own);
    std::fprintf(stderr, "in the child: %s\n", run_last_step(last_step_, own).message().c_str());
    _exit(120);
  }

  Outcome finish() {
    Outcome outcome;
    outcome.failure = drain(errors_.get());
    outcome.output = drain(output_.get());
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
  }

  Outcome run(const Launch& launch, const Setup& before = {}) {
    start(launch, before);
    return finish();
  }

  static Launch shell(const std::string& script) {
    Launch launch;
    launch.path = "/bin/sh";
    launch.args = {"sh", "-c", script};
    launch.env = {"PATH=/usr/bin:/bin"};
    return launch;
  }

  static UniqueFd proc() { return *sys::open("/proc", O_PATH | O_DIRECTORY); }

  LastStep last_step_;
  std::string directory_;
  UniqueFd errors_, output_;
  pid_t pid_ = -1;
};

TEST_F(LastStepTest, ArgumentsAndEnvironmentArrive) {
  Launch launch = shell("printf '%s|' \"$0\" \"$@\"; env");
  launch.args.insert(launch.args.end(), {"zero", "", "a b", "L:1:2", "\xff\n"});
  launch.env = {"A=1", "B=two words", "EMPTY="};
  const Outcome outcome = run(launch);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.failure, "");
  EXPECT_TRUE(outcome.output.starts_with("zero||a b|L:1:2|\xff\n|")) << outcome.output;
  for (const char* line : {"A=1\n", "B=two words\n", "EMPTY=\n"})
    EXPECT_NE(outcome.output.find(line), std::string::npos);
  EXPECT_EQ(outcome.output.find("agentrun"), std::string::npos);
}

TEST_F(LastStepTest, FailuresAreToldWithTheirExitStatus) {
  struct Expected {
    std::string path, message;
    int status;
  };
  const std::vector<Expected> expected = {
      {"/no/such/file", "exec /no/such/file: no such file or directory", 127},
      {make("script", "#!/no/such/interpreter\n"), "exec " + directory_ + "/script: no such file or directory", 127},
      {make("garbage", "\1\2\3garbage"), "exec " + directory_ + "/garbage: exec format error", 126},
      {make("plain", "#!/bin/sh\n", 0644), "exec " + directory_ + "/plain: permission denied", 126},
      {directory_, "exec " + directory_ + ": permission denied", 126},
      {make("file", "") + "/x", "exec " + directory_ + "/file/x: not a directory", 127}};
  for (const auto& [path, message, status] : expected) {
    Launch launch;
    launch.path = path;
    launch.args = {"x"};
    const Outcome outcome = run(launch);
    EXPECT_EQ(outcome.status, status) << path;
    const Error error = read_launch_failure(outcome.failure, path);
    EXPECT_EQ(error.message(), message);
    EXPECT_EQ(error.exit_status, status);
  }
  EXPECT_NE(read_launch_failure("x", "/p").message().find("without a reason"), std::string::npos);
}

TEST_F(LastStepTest, FiltersAreLoadedInOrder) {
  const auto strict = builtin_seccomp("strict");
  oci::Seccomp profile;
  profile.default_action = "SCMP_ACT_ALLOW";
  profile.syscalls = {{{"mkdir", "mkdirat"}, "SCMP_ACT_ERRNO", EXDEV, {}}};
  const auto programs = stack_seccomp(SeccompOrder::config_first, {*compile_seccomp(profile)}, *strict);
  const UniqueFd sealed = *seal_programs(programs);
  Launch launch =
      shell("grep '^Seccomp' /proc/self/status; mkdir " + directory_ + "/no 2>&1; unshare -U true || echo denied");
  launch.programs_fd = sealed.get();
  const Outcome outcome = run(launch);
  EXPECT_EQ(outcome.failure, "");
  EXPECT_NE(outcome.output.find("Seccomp:\t2\nSeccomp_filters:\t2\n"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("cross-device"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("denied"), std::string::npos);
}

// Between the two: a label is a file that the rules do not know, and a filter need not know the call.
TEST_F(LastStepTest, TheLandlockDomainIsEnteredAfterTheLabelsAndBeforeTheFilters) {
  if (sys::landlock_abi() < policy::kLandlockFiles) GTEST_SKIP() << "no Landlock here";
  policy::LandlockRules rules;
  rules.abi = sys::landlock_abi();
  rules.files = true;
  LandlockRequest request;
  request.rules = &rules;
  const UniqueFd ruleset = *make_landlock_ruleset(request);
  oci::Seccomp profile;
  profile.default_action = "SCMP_ACT_ALLOW";
  profile.syscalls = {{{"landlock_restrict_self"}, "SCMP_ACT_KILL_PROCESS", {}, {}}};
  const UniqueFd sealed = *seal_programs({*compile_seccomp(profile)});
  make("label", "", 0644);
  const UniqueFd directory = *sys::open(directory_, O_PATH | O_DIRECTORY);
  Launch launch =
      shell("cat " + directory_ + "/label; echo new > " + directory_ + "/label || echo denied; ls /proc/$$/fd");
  launch.procfs = directory.get();
  launch.labels = {{"label", "exec ours\n"}};
  launch.programs_fd = sealed.get();
  launch.landlock_fd = ruleset.get();
  const Outcome outcome = run(launch);
  EXPECT_EQ(outcome.failure, "");
  EXPECT_EQ(outcome.output, "exec ours\ndenied\n0\n1\n2\n");
}

TEST_F(LastStepTest, WithoutItsLandlockDomainTheProgramDoesNotStart) {
  Launch launch = shell("echo ran");
  const UniqueFd directory = *sys::open(directory_, O_RDONLY | O_DIRECTORY);  // no ruleset
  launch.landlock_fd = directory.get();
  const Outcome outcome = run(launch);
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(outcome.status, 126);
  EXPECT_EQ(read_launch_failure(outcome.failure, "x").message().substr(0, 21), "restrict by Landlock:");
}

TEST_F(LastStepTest, AFilterThatTheKernelRefusesStopsTheStart) {
  SeccompProgram nonsense;
  nonsense.instructions = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0}};  // without an end
  const UniqueFd sealed = *seal_programs({nonsense});
  Launch launch = shell("echo ran");
  launch.programs_fd = sealed.get();
  const Outcome outcome = run(launch);
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(outcome.status, 126);
  EXPECT_EQ(read_launch_failure(outcome.failure, "x").message(), "load seccomp filter: Invalid argument");
  EXPECT_FALSE(seal_programs({SeccompProgram{}}));
}

// CVE-2024-21626: whatever was left open, by whomever.
TEST_F(LastStepTest, NoFdIsLeft) {
  Launch launch = shell("ls /proc/$$/fd");
  const UniqueFd sealed = *seal_programs(*builtin_seccomp("strict"));
  launch.programs_fd = sealed.get();
  const UniqueFd procfs = proc();
  launch.procfs = procfs.get();
  const auto leak = [](Launch&) {
    for (int i = 0; i < 20; ++i) (void)!open("/", O_RDONLY);  // not close-on-exec
    dup2(open("/", O_RDONLY), 700);
  };
  EXPECT_EQ(run(launch, leak).output, "0\n1\n2\n");

  // And with --preserve-fds just those.
  launch = shell("ls /proc/$$/fd");
  launch.preserve_fds = 2;
  const auto preserve = [this](Launch& own) {
    last_step_.program = UniqueFd(fcntl(last_step_.program.get(), F_DUPFD_CLOEXEC, 100));
    own.error_fd = fcntl(own.error_fd, F_DUPFD, 100);
    const int root = fcntl(open("/", O_RDONLY), F_DUPFD_CLOEXEC, 200);
    for (int fd = 3; fd < 10; ++fd) dup2(root, fd);
  };
  const Outcome outcome = run(launch, preserve);
  EXPECT_EQ(outcome.output, "0\n1\n2\n3\n4\n");
  EXPECT_EQ(outcome.failure, "");
}

TEST_F(LastStepTest, TinyLimitsAreNoObstacle) {
  const UniqueFd sealed = *seal_programs(*builtin_seccomp("strict"));
  Launch launch = shell("echo ran");
  launch.programs_fd = sealed.get();
  const Outcome outcome = run(launch, [](Launch&) {
    (void)set_rlimits({{"RLIMIT_NOFILE", 4, 4}, {"RLIMIT_FSIZE", 0, 0}, {"RLIMIT_NPROC", 1, 1}});
  });
  EXPECT_EQ(outcome.output, "ran\n");
}

// As where no_new_privs is not set: the config's filter is on already, and its author thought of execve only.
TEST_F(LastStepTest, WorksUnderAFilterWithoutExecveatAndCloseRange) {
  oci::Seccomp profile;
  profile.default_action = "SCMP_ACT_ALLOW";
  profile.syscalls = {{{"execveat", "close_range"}, "SCMP_ACT_ERRNO", ENOSYS, {}}};
  const auto program = compile_seccomp(profile);
  const UniqueFd procfs = proc();
  Launch launch = shell("pwd; ls /proc/$$/fd");
  launch.procfs = procfs.get();
  const auto before = [&](Launch&) {
    (void)!chdir(directory_.c_str());
    (void)!open("/", O_RDONLY);
    if (!load_seccomp(*program)) _exit(119);
  };
  EXPECT_EQ(run(launch, before).output, directory_ + "\n0\n1\n2\n");
}

TEST_F(LastStepTest, LabelsAreWrittenRightBeforeTheProgram) {
  make("label", "", 0644);
  const UniqueFd directory = *sys::open(directory_, O_PATH | O_DIRECTORY);
  Launch launch = shell("cat " + directory_ + "/label");
  launch.procfs = directory.get();
  launch.labels = {{"label", "exec theirs//&ours"}};
  EXPECT_EQ(run(launch).output, "exec theirs//&ours");
  launch.labels = {{"missing", "exec x"}};
  const Outcome outcome = run(launch);
  EXPECT_EQ(outcome.status, 126);
  EXPECT_EQ(read_launch_failure(outcome.failure, "x").message(),
            "write `/proc/thread-self/attr/exec`: No such file or directory");
}

// --- the listener ---

struct Received {
  UniqueFd fd;
  std::string message;
};

Received receive_listener(int socket) {
  auto message = sys::receive_message(socket);
  if (!message || message->fds.size() != 1) return {};
  return {std::move(message->fds.front()), message->data};
}

// The agent: answers every notified call of the list with `error` until the program has ended.
int answer(int listener, int error) {
  int answered = 0;
  while (true) {
    pollfd waiting{listener, POLLIN, 0};
    if (poll(&waiting, 1, 10000) <= 0 || (waiting.revents & POLLIN) == 0) return answered;
    seccomp_notif request{};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) != 0) continue;
    seccomp_notif_resp response{};
    response.id = request.id;
    if (request.data.nr == SYS_mkdir || request.data.nr == SYS_mkdirat) {
      response.error = -error;
      ++answered;
    } else {
      response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    }
    (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
  }
}

oci::Seccomp listening_profile() {
  oci::Seccomp profile;
  profile.default_action = "SCMP_ACT_ALLOW";
  profile.listener_path = "/run/agent.sock";
  // What is needed to send an fd, to wait and to start is notified too: whoever sent its own listener would wait for
  // ever.
  profile.syscalls = {
      {{"mkdir", "mkdirat", "sendmsg", "sendto", "futex", "nanosleep", "clock_nanosleep", "close", "execve"},
       "SCMP_ACT_NOTIFY",
       {},
       {}}};
  return profile;
}

TEST_F(LastStepTest, TheListenerIsSentBeforeAnythingNeedsIt) {
  auto programs =
      stack_seccomp(SeccompOrder::config_first, {*compile_seccomp(listening_profile())}, *builtin_seccomp("strict"));
  const UniqueFd sealed = *seal_programs(programs);
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    auto pair = *sys::socket_pair(type);
    Launch launch = shell("mkdir " + directory_ + "/new 2>&1; echo $?");
    launch.programs_fd = sealed.get();
    launch.listener_fd = pair.second.get();
    launch.listener_message = R"({"pid":1})";
    start(launch);
    pair.second.reset();
    const Received received = receive_listener(pair.first.get());
    ASSERT_TRUE(received.fd.valid());
    EXPECT_EQ(received.message, R"({"pid":1})");
    EXPECT_GE(answer(received.fd.get(), EDQUOT), 1);
    const Outcome outcome = finish();
    EXPECT_EQ(outcome.failure, "");
    EXPECT_NE(outcome.output.find("quota"), std::string::npos) << outcome.output;
  }
}

TEST_F(LastStepTest, TheListenerIsSentByLoadSeccompToo) {
  auto pair = *sys::socket_pair(SOCK_SEQPACKET);
  const auto program = compile_seccomp(listening_profile());
  start(shell("mkdir " + directory_ + "/new 2>&1; echo $?"), [&](Launch&) {
    if (!load_seccomp(*program, pair.second.get(), "state")) _exit(119);
  });
  pair.second.reset();
  const Received received = receive_listener(pair.first.get());
  ASSERT_TRUE(received.fd.valid());
  EXPECT_EQ(received.message, "state");
  EXPECT_GE(answer(received.fd.get(), EDQUOT), 1);
  EXPECT_NE(finish().output.find("quota"), std::string::npos);
  EXPECT_FALSE(load_seccomp(*program));  // a listener that nobody gets
}

TEST_F(LastStepTest, WithoutTheAgentsEndTheProgramDoesNotStart) {
  auto pair = *sys::socket_pair(SOCK_SEQPACKET);
  const UniqueFd sealed = *seal_programs({*compile_seccomp(listening_profile())});
  Launch launch = shell("echo ran");
  launch.programs_fd = sealed.get();
  launch.listener_fd = pair.second.get();
  pair.first.reset();
  const Outcome outcome = run(launch);
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(read_launch_failure(outcome.failure, "x").message(), "send seccomp listener: Broken pipe");
}

// --- CVE-2019-5736 ---

// A script whose interpreter is whoever starts it. What it reaches is the last step, which does nothing with such
// arguments.
TEST_F(LastStepTest, AScriptOfProcSelfExeReachesTheLastStepOnly) {
  Launch launch;
  launch.path = make("script", "#!/proc/self/exe\n");
  launch.args = {"L:-:-:-:-:-:-:0", "L:-:-:-:-:-:-:0", "x", "/bin/sh", "-c", "echo ran"};
  const Outcome outcome = run(launch);
  EXPECT_EQ(outcome.status, 126);
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(outcome.failure, "");  // the interpreter was started: that was a success
}

// A last step that stands still: at a FIFO in the place of its label.
class StandingLastStepTest : public LastStepTest {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "root is missing";
    LastStepTest::SetUp();
    ASSERT_EQ(mkfifo((directory_ + "/fifo").c_str(), 0666), 0);
    ASSERT_EQ(chmod((directory_ + "/fifo").c_str(), 0666), 0);
    fifo_ = *sys::open(directory_, O_PATH | O_DIRECTORY);
    Launch launch = shell("echo ran");
    launch.procfs = fifo_.get();
    launch.labels = {{"fifo", "x"}};
    start(launch, [](Launch&) {
      oci::User user;
      user.uid = user.gid = 1000;
      if (!set_groups(user) || !set_user(user)) _exit(119);
    });
    // Until it is there: /proc/PID/exe is no longer this program.
    for (int i = 0; i < 1000 && exe().find("memfd") == std::string::npos; ++i) usleep(10000);
  }
  void TearDown() override {
    if (pid_ > 0) {
      (void)!read(open((directory_ + "/fifo").c_str(), O_RDONLY | O_CLOEXEC), buffer_, sizeof buffer_);
      EXPECT_EQ(finish().output, "ran\n");
    }
    if (!directory_.empty()) LastStepTest::TearDown();
  }
  std::string process(const char* file) const { return "/proc/" + std::to_string(pid_) + "/" + file; }
  std::string exe() const {
    char link[256] = {};
    return readlink(process("exe").c_str(), link, sizeof link - 1) > 0 ? link : "";
  }
  UniqueFd fifo_;
  char buffer_[16] = {};
};

TEST_F(StandingLastStepTest, ItsExeIsAMemfdThatNobodyCanWrite) {
  EXPECT_EQ(exe(), "/memfd:agentrun-last-step (deleted)");
  EXPECT_EQ(sys::stat_fd(last_step_.program.get(), "memfd")->st_mode & 07777, 0111u);
  for (const int flags : {O_RDWR, O_WRONLY, O_WRONLY | O_TRUNC}) {
    const UniqueFd fd(open(process("exe").c_str(), flags | O_CLOEXEC));
    EXPECT_TRUE(!fd && errno == ETXTBSY) << flags;
  }
  // Nor where it does not run: by the fd of whoever made it, root.
  const UniqueFd again(open(("/proc/self/fd/" + std::to_string(last_step_.program.get())).c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(again.valid());
  const auto other = prepare_last_step();
  const UniqueFd idle(open(("/proc/self/fd/" + std::to_string(other->program.get())).c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_NE(write(idle.get(), "x", 1), 1);
  EXPECT_NE(ftruncate(idle.get(), 0), 0);
}

// A process of the same ids in the container that took it over now would have one without filters.
TEST_F(StandingLastStepTest, OthersOfItsIdsCannotTakeItOver) {
  EXPECT_EQ(0, test::in_child([&] {
              oci::User user;
              user.uid = user.gid = 1000;
              if (!set_groups(user) || !set_user(user)) return 119;
              if (open(process("mem").c_str(), O_RDWR) >= 0) return 2;
              if (open(process("exe").c_str(), O_RDONLY) >= 0) return 3;
              if (access(process("fd").c_str(), R_OK) == 0) return 4;
              constexpr long kSeize = 0x4206;
              return syscall(SYS_ptrace, kSeize, pid_, 0, 0) == 0 ? 5 : 0;
            }));
}

TEST(PackPrograms, ComeOutAsTheyWentIn) {
  std::vector<SeccompProgram> programs(2);
  programs[0].flags = 2;
  programs[0].instructions = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  programs[1].listener = true;
  const auto unpacked = unpack_programs(pack_programs(programs));
  ASSERT_TRUE(unpacked.has_value());
  ASSERT_EQ(unpacked->size(), 2u);
  EXPECT_EQ((*unpacked)[0].flags, 2u);
  EXPECT_EQ((*unpacked)[0].instructions.size(), 2u);
  EXPECT_EQ((*unpacked)[0].instructions[1].k, 8u);
  EXPECT_TRUE((*unpacked)[1].listener);
}

// A filter that is lost on the way must never look like no filter.
TEST(PackPrograms, NoCutIsTakenForAWholeList) {
  std::vector<SeccompProgram> programs(1);
  programs[0].instructions = {{1, 2, 3, 4}};
  const std::string packed = pack_programs(programs);
  for (std::size_t size = 0; size < packed.size(); ++size) {
    EXPECT_FALSE(unpack_programs(packed.substr(0, size)).has_value()) << size;
  }
  EXPECT_FALSE(unpack_programs(packed + "x").has_value());
}

}  // namespace
}  // namespace agentrun::sandbox
