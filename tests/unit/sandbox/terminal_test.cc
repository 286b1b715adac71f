#include "sandbox/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>

#include "forked.h"
#include "sys/socket.h"

namespace agentrun::sandbox {
namespace {

bool put(const char* type, const char* target, const char* data) { return mount(type, target, type, 0, data) == 0; }

// A /dev of our own with a devpts of its own, as in an entered root.
bool own_dev() {
  return unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         put("tmpfs", "/dev", "mode=755") && mkdir("/dev/pts", 0755) == 0 &&
         put("devpts", "/dev/pts", "newinstance,ptmxmode=0666,mode=620,gid=5");
}

class TerminalTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "root is missing";
  }
};

TEST_F(TerminalTest, OpensAPairOfItsDevpts) {
  EXPECT_EQ(
      0, test::in_child([] {
        if (!own_dev()) return 119;
        const auto terminal = open_terminal(oci::ConsoleSize{41, 97});
        if (!terminal) return test::report(terminal);
        if (terminal->name != "/dev/pts/0") return 2;
        winsize window{};
        if (ioctl(terminal->master.get(), TIOCGWINSZ, &window) != 0 || window.ws_row != 41 || window.ws_col != 97) {
          return 3;
        }
        if ((fcntl(terminal->master.get(), F_GETFD) & FD_CLOEXEC) == 0) return 4;
        if ((fcntl(terminal->slave.get(), F_GETFD) & FD_CLOEXEC) == 0) return 5;
        if (!give_terminal(*terminal, 1000)) return 6;
        struct stat status {};
        return stat("/dev/pts/0", &status) == 0 && status.st_uid == 1000 && status.st_gid == 5 ? 0 : 7;
      }));
}

TEST_F(TerminalTest, BecomesStdioAndControllingTerminal) {
  EXPECT_EQ(0, test::in_child([] {
              if (!own_dev()) return 119;
              const auto terminal = open_terminal(std::nullopt);
              if (!terminal) return test::report(terminal);
              if (const int failed = test::report(take_terminal(*terminal)); failed != 0) return failed;
              signal(SIGHUP, SIG_IGN);  // for when the master goes, at the end
              if (write(1, "hello", 5) != 5) return 2;
              char text[16] = {};
              if (read(terminal->master.get(), text, sizeof text) != 5 || std::strcmp(text, "hello") != 0) return 3;
              const int controlling = open("/dev/pts/0", O_RDWR | O_NOCTTY);
              return tcgetsid(controlling) == getpid() && isatty(0) && isatty(2) ? 0 : 4;
            }));
}

TEST_F(TerminalTest, GoesOverTheConsoleSocket) {
  EXPECT_EQ(0, test::in_child([] {
              if (!own_dev()) return 119;
              const auto terminal = open_terminal(std::nullopt);
              auto pair = sys::socket_pair(SOCK_STREAM);
              if (!terminal || !pair || !send_terminal(pair->first.get(), *terminal)) return 2;
              char name[32] = {};
              iovec vector{name, sizeof name};
              alignas(cmsghdr) char control[64];
              msghdr header{};
              header.msg_iov = &vector;
              header.msg_iovlen = 1;
              header.msg_control = control;
              header.msg_controllen = sizeof control;
              if (recvmsg(pair->second.get(), &header, 0) <= 0 || CMSG_FIRSTHDR(&header) == nullptr) return 3;
              int master = -1;
              std::memcpy(&master, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof master);
              struct stat sent {
              }, own{};
              fstat(master, &sent);
              fstat(terminal->master.get(), &own);
              return std::string(name) == "/dev/pts/0" && sent.st_ino == own.st_ino ? 0 : 4;
            }));
}

TEST_F(TerminalTest, IsBoundOnTheConsole) {
  EXPECT_EQ(0, test::in_child([] {
              if (!own_dev()) return 119;
              const auto terminal = open_terminal(std::nullopt);
              if (!terminal) return 118;
              if (const int failed = test::report(bind_console(*terminal)); failed != 0) return failed;
              struct stat console {
              }, slave{};
              if (stat("/dev/console", &console) != 0 || fstat(terminal->slave.get(), &slave) != 0) return 2;
              return console.st_rdev == slave.st_rdev && S_ISCHR(console.st_mode) ? 0 : 3;
            }));
}

// CVE-2025-52565: the console is a symlink of the image's to something that is ours.
TEST_F(TerminalTest, NoSymlinkIsFollowed) {
  EXPECT_EQ(0, test::in_child([] {
              if (!own_dev()) return 119;
              close(creat("/dev/victim", 0600));
              if (symlink("/dev/victim", "/dev/console") != 0) return 118;
              const auto terminal = open_terminal(std::nullopt);
              if (!terminal) return 2;
              const auto bound = bind_console(*terminal);
              if (bound || bound.error().reason != "it is a symlink") return 3;
              struct stat victim {};
              if (stat("/dev/victim", &victim) != 0 || !S_ISREG(victim.st_mode)) return 4;
              return 0;
            }));
  EXPECT_EQ(0, test::in_child([] {
              if (!own_dev() || rename("/dev/pts", "/dev/other") == 0) return 119;  // a mount point stays
              if (umount("/dev/pts") != 0 || rmdir("/dev/pts") != 0 || symlink("/dev/other", "/dev/pts") != 0)
                return 118;
              if (mkdir("/dev/other", 0755) != 0 || !put("devpts", "/dev/other", "newinstance,ptmxmode=0666"))
                return 117;
              return open_terminal(std::nullopt) ? 2 : 0;
            }));
}

TEST_F(TerminalTest, AFalsePtmxIsRefused) {
  EXPECT_EQ(0, test::in_child([] {
              if (!own_dev() || umount("/dev/pts") != 0) return 119;
              // The right device in a directory that is no devpts, with a devpts where the kernel looks for one.
              if (mknod("/dev/pts/ptmx", S_IFCHR | 0666, makedev(5, 2)) != 0 || mkdir("/dev/pts/pts", 0755) != 0 ||
                  !put("devpts", "/dev/pts/pts", "newinstance,ptmxmode=0666")) {
                return 118;
              }
              if (close(open("/dev/pts/ptmx", O_RDWR | O_NOCTTY)) != 0) return 116;  // so that it is we who refuse
              if (open_terminal(std::nullopt)) return 2;
              if (unlink("/dev/pts/ptmx") != 0 || mknod("/dev/pts/ptmx", S_IFCHR | 0666, makedev(1, 3)) != 0)
                return 117;
              const auto null = open_terminal(std::nullopt);
              return !null && null.error().reason == "not a terminal of a devpts" ? 0 : 3;
            }));
}

}  // namespace
}  // namespace agentrun::sandbox
