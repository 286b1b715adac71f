#include "sandbox/landlock.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/random.h>
#include <mqueue.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "forked.h"
#include "sys/file.h"
#include "sys/landlock.h"

namespace agentrun::sandbox {
namespace {

using policy::LandlockRules;
using test::in_child;

int error_of(int result) { return result < 0 ? errno : 0; }

int try_write(const char* path) {
  const UniqueFd fd(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  return fd ? error_of(static_cast<int>(write(fd.get(), "x", 1))) : errno;
}

int device_ioctl(const char* path) {
  const UniqueFd device(open(path, O_RDWR | O_CLOEXEC));
  int number = 0;
  return error_of(ioctl(device.get(), RNDGETENTCNT, &number));
}

// Names the check that did not hold, for a child whose exit status is all that the parent sees.
int expect(int got, int wanted, const char* what) {
  if (got == wanted) return 0;
  std::fprintf(stderr, "in the child: %s: %s, expected %s\n", what, std::strerror(got), std::strerror(wanted));
  return 1;
}

// A root with mounts of its own, all of them writable, in a mount namespace of its own: what is denied in it is denied
// by Landlock and by nothing else.
class LandlockTest : public testing::Test {
 protected:
  using Body = std::function<int()>;

  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "root is missing";
    if (sys::landlock_abi() < 3) GTEST_SKIP() << "no Landlock of version 3 here";
    root_ = testing::TempDir() + "agentrun-landlock-XXXXXX";
    ASSERT_NE(mkdtemp(root_.data()), nullptr);
    rules_.abi = sys::landlock_abi();
    rules_.files = true;
    rules_.places = {"/place"};
    rules_.procfs = {"/proc"};
  }

  void TearDown() override {
    if (!root_.empty()) rmdir(root_.c_str());
  }

  bool build() const {
    const char* root = root_.c_str();
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    if (mount("tmpfs", root, "tmpfs", 0, nullptr) != 0 || chdir(root) != 0) return false;
    for (const char* directory : {"place", "place/a", "other", "directory", "proc", "dev"}) {
      if (mkdir(directory, 0777) != 0) return false;
    }
    for (const char* place : {"place", "other", "dev"}) {
      if (mount("tmpfs", place, "tmpfs", 0, nullptr) != 0) return false;
    }
    if (mount("proc", "proc", "proc", 0, nullptr) != 0 || chroot(".") != 0) return false;
    for (const char* directory : {"/place/a", "/place/b", "/other/a", "/other/b"}) mkdir(directory, 0777);
    for (const char* file : {"/place/a/f", "/other/a/f", "/other/a/g", "/directory/f"}) {
      if (try_write(file) != 0) return false;
    }
    return mknod("/dev/null", S_IFCHR | 0666, makedev(1, 3)) == 0 &&
           mknod("/dev/urandom", S_IFCHR | 0666, makedev(1, 9)) == 0 &&
           mknod("/other/urandom", S_IFCHR | 0666, makedev(1, 9)) == 0 && symlink("/place", "/link") == 0;
  }

  // Exit status of `body`, run under the rules; `before` runs without them.
  int restricted(
      const Body& body, const Body& before = [] { return 0; }) {
    return in_child([&] {
      if (!build()) return 100;
      if (const int failed = before(); failed != 0) return failed;
      LandlockRequest request;
      request.rules = &rules_;
      request.open_fds = open_fds_;
      request.trust_symlinks = trust_symlinks_;
      const auto ruleset = make_landlock_ruleset(request);
      if (!ruleset) return test::report(ruleset);
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      if (const auto done = sys::landlock_restrict_self(ruleset->get()); !done) return test::report(done);
      return body();
    });
  }

  std::string root_;
  LandlockRules rules_;
  std::vector<int> open_fds_;
  bool trust_symlinks_ = true;
};

// Each of them is allowed without the rules; `denied` is what it must be with them.
int write_everywhere(const std::string& top, int denied) {
  const auto in = [&top](const char* name) { return top + name; };
  int failed = 0;
  failed += expect(try_write(in("/a/new").c_str()), denied, "create");
  failed += expect(try_write(in("/a/f").c_str()), denied, "write");
  failed += expect(error_of(mkdir(in("/d").c_str(), 0755)), denied, "mkdir");
  failed += expect(error_of(symlink("x", in("/l").c_str())), denied, "symlink");
  failed += expect(error_of(mkfifo(in("/p").c_str(), 0644)), denied, "mkfifo");
  failed += expect(error_of(truncate(in("/a/f").c_str(), 0)), denied, "truncate");
  failed += expect(error_of(rename(in("/a/f").c_str(), in("/b/f").c_str())), denied, "rename to another directory");
  failed += expect(error_of(link(in(denied == 0 ? "/b/f" : "/a/f").c_str(), in("/c").c_str())), denied, "link");
  failed += expect(error_of(unlink(in(denied == 0 ? "/b/f" : "/a/f").c_str())), denied, "unlink");
  failed += expect(error_of(rmdir(in("/b").c_str())), denied, "rmdir");
  const UniqueFd bound(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, in("/s").c_str(), sizeof address.sun_path - 1);
  failed += expect(error_of(bind(bound.get(), reinterpret_cast<sockaddr*>(&address), sizeof address)), denied, "bind");
  return failed;
}

TEST_F(LandlockTest, WritesOnlyInThePlaces) {
  EXPECT_EQ(restricted([] {
              int failed = write_everywhere("/place", 0);
              failed += write_everywhere("/other", EACCES);
              failed += expect(try_write("/directory/f"), EACCES, "write to the root");
              const UniqueFd readable(open("/other/a/f", O_RDONLY | O_CLOEXEC));
              return failed + expect(readable ? 0 : errno, 0, "read");
            }),
            0);
  // The same without the rules: it is not the mounts that deny.
  EXPECT_EQ(in_child([this] { return build() ? write_everywhere("/other", 0) : 100; }), 0);
}

TEST_F(LandlockTest, APlaceThatIsNoMountGetsNoRight) {
  rules_.places = {"/directory", "/missing", "/other/a"};
  EXPECT_EQ(restricted([] {
              return expect(try_write("/directory/f"), EACCES, "a directory of the image") +
                     expect(try_write("/other/a/f"), EACCES, "a directory within a mount") +
                     expect(try_write("/place/a/f"), EACCES, "what is no place");
            }),
            0);
}

TEST_F(LandlockTest, SymlinksLeadToAPlaceUntilTheContainerRuns) {
  rules_.places = {"/link"};
  EXPECT_EQ(restricted([] { return expect(try_write("/place/a/f"), 0, "through a symlink of the image"); }), 0);
  trust_symlinks_ = false;
  EXPECT_EQ(restricted([] { return expect(try_write("/place/a/f"), EACCES, "through one of the program's"); }), 0);
}

TEST_F(LandlockTest, ProcAndDevicesWork) {
  EXPECT_EQ(restricted([] {
              int failed = expect(try_write("/proc/self/comm"), 0, "/proc/self/comm");
              failed += expect(try_write("/dev/null"), 0, "/dev/null");
              failed += expect(try_write("/dev/new"), EACCES, "a new file in /dev");
              failed += expect(device_ioctl("/dev/urandom"), 0, "ioctl of a device");
              const UniqueFd memory(memfd_create("m", MFD_CLOEXEC));
              failed += expect(try_write(("/proc/self/fd/" + std::to_string(memory.get())).c_str()), 0, "memfd");
              return failed;
            }),
            0);
}

TEST_F(LandlockTest, DevicesElsewhereTakeNoIoctl) {
  if (sys::landlock_abi() < 5) GTEST_SKIP() << "no Landlock of version 5 here";
  rules_.places = {"/other"};
  const auto use = [](int wanted) { return expect(device_ioctl("/other/urandom"), wanted, "ioctl outside of /dev"); };
  EXPECT_EQ(restricted([&] { return use(EACCES); }), 0);
  rules_.abi = 4;
  EXPECT_EQ(restricted([&] { return use(0); }), 0);
}

// mq_open(3) opens by a mount of the kernel's own, whose root is that of the queues: a rule for /dev does not reach it.
TEST_F(LandlockTest, MessageQueuesAreAPlaceOfTheirOwn) {
  const auto queues = [] {
    if (unshare(CLONE_NEWIPC) != 0 || mkdir("/dev/mqueue", 01777) != 0) return 101;
    return mount("mqueue", "/dev/mqueue", "mqueue", 0, nullptr) == 0 ? 0 : 102;
  };
  const auto use = [](int wanted) {
    return expect(error_of(mq_open("/q", O_RDWR | O_CREAT, 0600, nullptr)), wanted, "mq_open");
  };
  rules_.places = {"/dev"};
  EXPECT_EQ(restricted([&] { return use(EACCES); }, queues), 0);
  rules_.places = {"/dev", "/dev/mqueue"};
  EXPECT_EQ(restricted([&] { return use(0); }, queues), 0);
}

TEST_F(LandlockTest, DeviceNodesOnlyWhereTheyMayBeMade) {
  const auto make = [] { return error_of(mknod("/place/node", S_IFCHR | 0600, makedev(1, 3))); };
  EXPECT_EQ(restricted([&] { return expect(make(), EACCES, "mknod"); }), 0);
  rules_.device_nodes = true;
  EXPECT_EQ(restricted([&] { return expect(make(), 0, "mknod"); }), 0);
}

// `agentrun run ... > log` and a program that opens /dev/stdout.
TEST_F(LandlockTest, WhatIsInheritedForWritingCanBeOpenedAgain) {
  const auto inherit = [] {
    dup2(open("/directory/f", O_WRONLY), 40);
    dup2(open("/directory/f", O_RDONLY), 41);
    dup2(open("/directory", O_RDONLY | O_DIRECTORY), 42);
    dup2(open("/other/a/g", O_RDONLY), 43);
    return 0;
  };
  const auto reopen = [](int wanted) { return expect(try_write("/proc/self/fd/40"), wanted, "open again"); };
  EXPECT_EQ(restricted([&] { return reopen(EACCES); }, inherit), 0);
  open_fds_ = {40, 41, 42, 43, 44};
  EXPECT_EQ(restricted(
                [&] {
                  return reopen(0) + expect(try_write("/proc/self/fd/43"), EACCES, "what was open for reading") +
                         expect(error_of(openat(42, "new", O_WRONLY | O_CREAT, 0644)), EACCES, "below a directory");
                },
                inherit),
            0);
}

// What an older kernel lacks is not asked for, and what it has works: simulated by asking for no more.
TEST_F(LandlockTest, OlderVersions) {
  for (int abi = policy::kLandlockFiles; abi <= sys::landlock_abi(); ++abi) {
    SCOPED_TRACE(abi);
    rules_.abi = abi;
    EXPECT_EQ(restricted([abi] {
                int failed = write_everywhere("/place", 0);
                failed += expect(try_write("/other/a/f"), EACCES, "write");
                failed += expect(error_of(truncate("/other/a/f", 0)), abi < 3 ? 0 : EACCES, "truncate");
                failed += expect(error_of(rename("/other/a/f", "/other/b/f")), EACCES, "rename");
                return failed;
              }),
              0);
  }
}

TEST_F(LandlockTest, MoreThanTheKernelHasIsAnError) {
  EXPECT_FALSE(sys::new_landlock_ruleset({1ULL << 62, 0, 0}));
  EXPECT_FALSE(sys::new_landlock_ruleset({0, 0, 0}));
}

// --- TCP ---

int tcp(std::uint16_t port, bool listening) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* where = reinterpret_cast<const sockaddr*>(&address);
  return error_of(listening ? bind(fd.get(), where, sizeof address) : connect(fd.get(), where, sizeof address));
}

TEST_F(LandlockTest, TcpByPortOnly) {
  if (sys::landlock_abi() < 4) GTEST_SKIP() << "no Landlock of version 4 here";
  rules_.files = false;
  // In a network namespace whose lo is down: what is not denied is ENETUNREACH, and a bind works.
  const auto apart = [] { return unshare(CLONE_NEWNET) == 0 ? 0 : 101; };
  rules_.tcp_connect = {443, 8080};
  EXPECT_EQ(restricted(
                [] {
                  return expect(tcp(443, false), ENETUNREACH, "connect to a listed port") +
                         expect(tcp(80, false), EACCES, "connect to another") + expect(tcp(80, true), 0, "bind") +
                         expect(try_write("/other/a/f"), 0, "write");
                },
                apart),
            0);
  rules_.tcp_connect = std::nullopt;
  rules_.tcp_bind.emplace();  // not one
  EXPECT_EQ(
      restricted([] { return expect(tcp(80, false), ENETUNREACH, "connect") + expect(tcp(80, true), EACCES, "bind"); },
                 apart),
      0);
}

// --- scopes ---

int connect_abstract(const char* name) {
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path + 1, name, sizeof address.sun_path - 2);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + std::strlen(name));
  return error_of(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size));
}

TEST_F(LandlockTest, ScopesHoldWhatIsOutside) {
  if (sys::landlock_abi() < 6) GTEST_SKIP() << "no Landlock of version 6 here";
  const std::string name = "agentrun-landlock-" + std::to_string(getpid());
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener.get(), 8), 0);

  rules_.files = false;
  const auto reach = [&name](int signal, int socket) {
    return expect(error_of(kill(getppid(), 0)), signal, "a signal to outside") +
           expect(connect_abstract(name.c_str()), socket, "an abstract socket outside") +
           expect(error_of(kill(getpid(), 0)), 0, "a signal to itself");
  };
  rules_.signals = rules_.abstract_sockets = true;
  EXPECT_EQ(restricted([&] { return reach(EPERM, EPERM); }), 0);
  rules_.abstract_sockets = false;
  EXPECT_EQ(restricted([&] { return reach(EPERM, 0); }), 0);
  rules_.signals = false;
  rules_.abstract_sockets = true;
  EXPECT_EQ(restricted([&] { return reach(0, EPERM); }), 0);
}

// What policy/landlock.cc says of this kernel, and why exec has no domain by itself.
TEST_F(LandlockTest, NoProcessLooksIntoADomainThatIsNotBelowItsOwn) {
  const auto look = [](pid_t pid) {
    char target[64];
    const std::string link = "/proc/" + std::to_string(pid) + "/exe";
    return error_of(static_cast<int>(readlink(link.c_str(), target, sizeof target)));
  };
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  int stop[2];
  ASSERT_EQ(pipe2(stop, O_CLOEXEC), 0);
  const pid_t held = fork();
  if (held == 0) {
    close(stop[1]);
    (void)restricted([&] {
      const pid_t self = getpid();
      char byte = 0;
      (void)!write(ready[1], &self, sizeof self);
      return static_cast<int>(read(stop[0], &byte, 1));
    });
    _exit(0);
  }
  close(stop[0]);
  pid_t inside = 0;
  ASSERT_EQ(read(ready[0], &inside, sizeof inside), static_cast<ssize_t>(sizeof inside));
  EXPECT_EQ(look(inside), 0);  // from outside of any domain
  EXPECT_EQ(restricted([&] { return expect(look(inside), EACCES, "from a domain beside it"); }), 0);
  close(stop[1]);
  EXPECT_EQ(waitpid(held, nullptr, 0), held);
}

}  // namespace
}  // namespace agentrun::sandbox
