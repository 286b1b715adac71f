// The strict program twice: by an interpreter, for every system call there is, and by the kernel, for those where being
// wrong would be an escape.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "bpf.h"
#include "forked.h"
#include "sandbox/last_step.h"
#include "sandbox/seccomp.h"

namespace agentrun::sandbox {
namespace {

using test::ask;
using test::errno_of;

constexpr std::uint64_t kHigh = std::uint64_t{1} << 32;  // what the kernel does not look at in an int

std::vector<sock_filter> strict() { return builtin_seccomp("strict")->at(0).instructions; }

std::set<long> numbers_in_file(const char* part) {
  std::ifstream file(SOURCE_DIR "/policies/seccomp/strict.json");
  std::stringstream text;
  text << file.rdbuf();
  const auto json = boost::json::parse(text.str());
  std::set<long> numbers;
  const auto add = [&](std::string_view name) {
    numbers.insert(seccomp_syscall_resolve_name(std::string(name).c_str()));
  };
  const auto& list = json.as_object().at(part);
  if (list.is_array()) {
    for (const auto& name : list.as_array()) add(name.as_string());
  } else {
    for (const auto& entry : list.as_object()) add(entry.key());
  }
  return numbers;
}

TEST(SeccompStrict, EveryCallIsAsTheFileSays) {
  const auto program = strict();
  const std::set<long> allowed = numbers_in_file("allow"), ruled = numbers_in_file("rules");
  EXPECT_GT(allowed.size(), 200u);
  for (long number = 0; number < 1000; ++number) {
    if (ruled.contains(number)) continue;
    char* name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, static_cast<int>(number));
    // Calls that this libseccomp has no name for yet (mseal) are in the file and not in `allowed`.
    if (name != nullptr) {
      EXPECT_EQ(ask(program, number), allowed.contains(number) ? SECCOMP_RET_ALLOW : errno_of(ENOSYS)) << name;
    }
    free(name);
  }
  EXPECT_EQ(ask(program, 462), SECCOMP_RET_ALLOW);  // mseal
  for (const long number : {600L, 1000L, 0x3fffffffL, -1L}) EXPECT_EQ(ask(program, number), errno_of(ENOSYS)) << number;
}

TEST(SeccompStrict, WhatMustNeverBeThere) {
  const auto program = strict();
  for (const char* name : {"clone3",
                           "unshare",
                           "setns",
                           "mount",
                           "umount2",
                           "pivot_root",
                           "fsopen",
                           "fsconfig",
                           "fsmount",
                           "fspick",
                           "move_mount",
                           "open_tree",
                           "mount_setattr",
                           "chroot",
                           "keyctl",
                           "add_key",
                           "request_key",
                           "bpf",
                           "userfaultfd",
                           "io_uring_setup",
                           "io_uring_enter",
                           "io_uring_register",
                           "perf_event_open",
                           "open_by_handle_at",
                           "name_to_handle_at",
                           "kexec_load",
                           "init_module",
                           "finit_module",
                           "delete_module",
                           "ptrace",
                           "process_vm_readv",
                           "process_vm_writev",
                           "pidfd_getfd",
                           "kcmp",
                           "move_pages",
                           "mbind",
                           "set_mempolicy",
                           "personality",
                           "modify_ldt",
                           "swapon",
                           "reboot",
                           "syslog",
                           "acct",
                           "quotactl",
                           "fanotify_init",
                           "setxattr",
                           "io_setup",
                           "msgget",
                           "mq_open",
                           "memfd_secret",
                           "iopl",
                           "ioperm"}) {
    const int number = seccomp_syscall_resolve_name(name);
    if (number < 0) continue;  // not of this architecture
    EXPECT_EQ(ask(program, number), errno_of(ENOSYS)) << name;
  }
}

TEST(SeccompStrict, OtherAbisAreKilled) {
  const auto program = strict();
  EXPECT_EQ(ask(program, SYS_getpid, {}, AUDIT_ARCH_I386), SECCOMP_RET_KILL_PROCESS);
  EXPECT_EQ(ask(program, SYS_getpid, {}, AUDIT_ARCH_ARM), SECCOMP_RET_KILL_PROCESS);
#if defined(__x86_64__)
  for (const long number : {0x40000000L, 0x40000000L + SYS_getpid, 0x7fffffffL, 0x80000000L, 0xfffffffeL}) {
    EXPECT_EQ(ask(program, number), SECCOMP_RET_KILL_PROCESS) << number;
  }
#endif
}

struct Case {
  long number;
  std::array<std::uint64_t, 6> arguments;
  std::uint32_t expected;
};

// Each with its arguments as they are, with garbage in the high half of all, and with bit 32 alone: libc leaves garbage
// there, and an attacker puts it there.
void expect_cases(const std::vector<Case>& cases) {
  const auto program = strict();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    for (const std::uint64_t high : {std::uint64_t{0}, kHigh, std::uint64_t{0xffffffff00000000}}) {
      auto arguments = cases[i].arguments;
      for (auto& argument : arguments) argument |= high;
      EXPECT_EQ(ask(program, cases[i].number, arguments), cases[i].expected) << "case " << i << " high " << high;
    }
  }
}

TEST(SeccompStrict, CloneMakesNoNamespaces) {
  std::vector<Case> cases = {{SYS_clone, {SIGCHLD}, SECCOMP_RET_ALLOW},
                             {SYS_clone,
                              {CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                               CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID},
                              SECCOMP_RET_ALLOW},
                             {SYS_clone, {CLONE_VM | CLONE_VFORK | SIGCHLD}, SECCOMP_RET_ALLOW}};
  for (const std::uint64_t flag :
       {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET}) {
    cases.push_back({SYS_clone, {flag | SIGCHLD}, errno_of(EPERM)});
  }
  expect_cases(cases);
}

TEST(SeccompStrict, Sockets) {
  std::vector<Case> cases;
  for (const std::uint64_t flags : {0, 02000000, 02004000}) {  // SOCK_CLOEXEC, SOCK_NONBLOCK
    for (const std::uint64_t family : {AF_INET, AF_INET6}) {
      for (const std::uint64_t type : {SOCK_STREAM, SOCK_DGRAM}) {
        for (const std::uint64_t protocol : {0, 6, 17})
          cases.push_back({SYS_socket, {family, type | flags, protocol}, SECCOMP_RET_ALLOW});
        for (const std::uint64_t protocol : {1, 58, 132, 136, 255, 262}) {
          cases.push_back({SYS_socket, {family, type | flags, protocol}, errno_of(EPROTONOSUPPORT)});
        }
      }
      // SOCK_SEQPACKET is SCTP, SOCK_DCCP (6) DCCP, SOCK_PACKET (10) and SOCK_RAW are raw.
      for (const std::uint64_t type : {0, 3, 4, 5, 6, 10, 15}) {
        cases.push_back({SYS_socket, {family, type | flags, 0}, errno_of(EPROTONOSUPPORT)});
      }
    }
    for (const std::uint64_t type : {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}) {
      cases.push_back({SYS_socket, {AF_UNIX, type | flags, 0}, SECCOMP_RET_ALLOW});
      cases.push_back({SYS_socketpair, {AF_UNIX, type | flags, 0}, SECCOMP_RET_ALLOW});
    }
  }
  for (std::uint64_t family = 0; family < 64; ++family) {
    if (family == AF_UNIX) continue;
    cases.push_back({SYS_socketpair, {family, SOCK_STREAM, 0}, errno_of(EAFNOSUPPORT)});  // AF_TIPC has pairs
    if (family == AF_INET || family == AF_INET6) continue;
    cases.push_back({SYS_socket, {family, SOCK_STREAM, 0}, errno_of(EAFNOSUPPORT)});
  }
  expect_cases(cases);
}

TEST(SeccompStrict, SocketOptionsAndFlags) {
  expect_cases({{SYS_setsockopt, {3, 6, 31}, errno_of(ENOPROTOOPT)},
                {SYS_setsockopt, {3, 6, 1}, SECCOMP_RET_ALLOW},
                {SYS_setsockopt, {3, 1, 31}, SECCOMP_RET_ALLOW},
                {SYS_sendto, {3, 0, 0, 0x4001}, errno_of(EOPNOTSUPP)},
                {SYS_sendto, {3, 1, 1, 0x4000, 1, 1}, SECCOMP_RET_ALLOW},
                {SYS_recvfrom, {3, 0, 0, 1}, errno_of(EOPNOTSUPP)},
                {SYS_sendmsg, {3, 0, 1}, errno_of(EOPNOTSUPP)},
                {SYS_sendmsg, {3, 1, 0x4000}, SECCOMP_RET_ALLOW},
                {SYS_recvmsg, {3, 0, 0x41}, errno_of(EOPNOTSUPP)},
                {SYS_sendmmsg, {3, 0, 1, 1}, errno_of(EOPNOTSUPP)},
                {SYS_recvmmsg, {3, 0, 1, 1}, errno_of(EOPNOTSUPP)},
                {SYS_recvmmsg, {3, 1, 1, 0}, SECCOMP_RET_ALLOW}});
}

TEST(SeccompStrict, OtherArguments) {
  expect_cases({{SYS_ioctl, {0, 0x5412}, errno_of(EPERM)},
                {SYS_ioctl, {0, 0x541c}, errno_of(EPERM)},
                {SYS_ioctl, {0, 0x5423}, errno_of(EPERM)},
                {SYS_ioctl, {0, 0x40049409}, errno_of(EOPNOTSUPP)},
                {SYS_ioctl, {0, 0x4020940d}, errno_of(EOPNOTSUPP)},
                {SYS_ioctl, {0, TCGETS}, SECCOMP_RET_ALLOW},
                {SYS_ioctl, {0, FIONREAD}, SECCOMP_RET_ALLOW},
                {SYS_pipe2, {0, O_CLOEXEC}, SECCOMP_RET_ALLOW},
                {SYS_pipe2, {0, O_CLOEXEC | 0200}, errno_of(EINVAL)},
                {SYS_seccomp, {1, 0, 1}, SECCOMP_RET_ALLOW},
                {SYS_seccomp, {1, 1, 1}, SECCOMP_RET_ALLOW},
                {SYS_seccomp, {1, 8, 1}, errno_of(EPERM)},
                {SYS_seccomp, {1, 9, 1}, errno_of(EPERM)},
                {SYS_splice, {}, errno_of(EINVAL)},
                {SYS_tee, {}, errno_of(EINVAL)},
                {SYS_vmsplice, {}, errno_of(EINVAL)},
                {SYS_copy_file_range, {}, errno_of(EXDEV)},
                {SYS_sched_setaffinity, {0, 8, 1}, errno_of(0)}});
}

// --- by the kernel ---

// The errno of a call, 0 for success, in a process that has the strict filter.
int under_filter(int (*body)()) {
  return test::in_child([&] {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 119;
    if (const int failed = test::report(load_seccomp(builtin_seccomp("strict")->at(0))); failed != 0) return 118;
    return body();
  });
}

int result(long returned) { return returned < 0 ? errno : 0; }

TEST(SeccompStrict, TheKernelTakesItAndDenies) {
  EXPECT_EQ(under_filter([] { return result(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)); }), EPERM);
  EXPECT_EQ(under_filter([] { return result(syscall(SYS_clone, kHigh | CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)); }),
            EPERM);
  EXPECT_EQ(under_filter([] { return result(syscall(SYS_clone3, 0, 0)); }), ENOSYS);
  EXPECT_EQ(under_filter([] { return result(syscall(SYS_unshare, CLONE_NEWUSER)); }), ENOSYS);
  EXPECT_EQ(under_filter([] { return result(syscall(SYS_socket, kHigh | AF_ALG, SOCK_SEQPACKET, 0)); }), EAFNOSUPPORT);
  EXPECT_EQ(under_filter([] { return result(syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 0)); }), EAFNOSUPPORT);
  EXPECT_EQ(under_filter([] { return result(syscall(SYS_socket, kHigh | AF_INET, kHigh | SOCK_STREAM, kHigh)); }), 0);
  EXPECT_EQ(under_filter([] { return result(syscall(SYS_ioctl, 0, kHigh | 0x5412, 0)); }), EPERM);
  EXPECT_EQ(under_filter([] { return result(syscall(SYS_ioctl, 0, kHigh | 0x40049409, 0)); }), EOPNOTSUPP);
  EXPECT_EQ(under_filter([] { return result(syscall(SYS_splice, 0, 0, 0, 0, 0, 0)); }), EINVAL);
  EXPECT_EQ(under_filter([] { return result(syscall(SYS_seccomp, 1, kHigh | 8, 0)); }), EPERM);
  EXPECT_EQ(under_filter([] { return result(syscall(SYS_io_uring_setup, 1, 0)); }), ENOSYS);
  EXPECT_EQ(under_filter([] { return result(syscall(-1)); }), ENOSYS);
}

// The one that reached the kernel under a filter that compared 64 bits: setsockopt(6 | 1 << 32, 31, "tls").
TEST(SeccompStrict, TcpUlpWithTheHighHalfSet) {
  for (const std::uint64_t high : {std::uint64_t{0}, kHigh}) {
    static std::uint64_t bits;
    bits = high;
    EXPECT_EQ(under_filter([] {
                const int fd = socket(AF_INET, SOCK_STREAM, 0);
                return result(syscall(SYS_setsockopt, fd, bits | 6, bits | 31, "tls", 4));
              }),
              ENOPROTOOPT);
  }
}

TEST(SeccompStrict, AffinityIsPretended) {
  EXPECT_EQ(under_filter([] {
              unsigned long mask = 0;  // no CPU at all: the kernel would say EINVAL
              return result(syscall(SYS_sched_setaffinity, 0, sizeof mask, &mask));
            }),
            0);
}

#if defined(__x86_64__)
TEST(SeccompStrict, ForeignAbisDie) {
  EXPECT_EQ(under_filter([] {
              long value = 20;  // getpid of i386
              asm volatile("int $0x80" : "+a"(value) : : "memory");
              return 0;
            }),
            128 + SIGSYS);
  EXPECT_EQ(under_filter([] { return result(syscall(0x40000000 + SYS_getpid)); }), 128 + SIGSYS);
}
#endif

TEST(SeccompStrict, ProgramsRun) {
  EXPECT_EQ(under_filter([] {
              execl("/bin/sh", "sh", "-c",
                    "x=$(echo one | sed s/one/two/); (exit 3) & wait $!; test $? = 3 && test $x = two", nullptr);
              return 2;
            }),
            0);
}

}  // namespace
}  // namespace agentrun::sandbox
