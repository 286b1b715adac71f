// Tries, one after the other, what kernel exploits and escapes begin with, and prints a line for each:
//
//   NAME RESULT ERRNO
//
//   denied     the call came back with an errno that says no (the kernel's own EPERM for want of a capability is one too)
//   killed     the process that tried died; the signal in place of the errno
//   reached    the kernel looked at the arguments and found them wrong: an exploit has better ones
//   succeeded
//
// Every attempt is made by a process of its own. Each rule about an argument is tried a second time with the high half of
// the argument set (NAME+high): the kernel looks at 32 bits of an int, and a filter must do the same.
//
//   cc -O1 -static -o probe probe.c
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BAD ((void*)8) /* a pointer that faults: the kernel got as far as reading it */

static unsigned long high;     /* 0, or bits that the kernel does not look at in an int */
static const char* second_rule; /* names the errnos of a row, see below */

#define I(value) ((unsigned long)(unsigned int)(value) | high)

/* The numbers that old headers lack; the same on all architectures. */
enum {
  nr_open_tree = 428, nr_move_mount = 429, nr_fsopen = 430, nr_fsconfig = 431, nr_fsmount = 432, nr_fspick = 433,
  nr_clone3 = 435, nr_pidfd_getfd = 438, nr_process_madvise = 440, nr_mount_setattr = 442, nr_quotactl_fd = 443,
  nr_memfd_secret = 447, nr_process_mrelease = 448, nr_cachestat = 451, nr_statmount = 457, nr_listmount = 458,
  nr_setxattrat = 463, nr_open_tree_attr = 467
};

struct attempt {
  const char* name;
  long (*call)(void);
  const char* errnos; /* that say no, besides EPERM and ENOSYS */
  int rule;           /* about an argument: tried with the high half too */
};

static int pair[2];

#define ATTEMPT(name, expression) \
  static long try_##name(void) { return (expression); }

/* namespaces */
ATTEMPT(unshare_user, syscall(SYS_unshare, 0x10000000))
ATTEMPT(unshare_mount, syscall(SYS_unshare, 0x00020000))
ATTEMPT(unshare_net, syscall(SYS_unshare, 0x40000000))
ATTEMPT(setns, syscall(SYS_setns, -1, 0))
ATTEMPT(clone3, syscall(nr_clone3, 0, 0))
/* With CLONE_THREAD and without CLONE_SIGHAND the kernel says EINVAL before it looks at rights. */
ATTEMPT(clone_newns, syscall(SYS_clone, I(0x00020000 | 0x10000), 0, 0, 0, 0))
ATTEMPT(clone_newcgroup, syscall(SYS_clone, I(0x02000000 | 0x10000), 0, 0, 0, 0))
ATTEMPT(clone_newuts, syscall(SYS_clone, I(0x04000000 | 0x10000), 0, 0, 0, 0))
ATTEMPT(clone_newipc, syscall(SYS_clone, I(0x08000000 | 0x10000), 0, 0, 0, 0))
ATTEMPT(clone_newuser, syscall(SYS_clone, I(0x10000000 | 0x10000), 0, 0, 0, 0))
ATTEMPT(clone_newpid, syscall(SYS_clone, I(0x20000000 | 0x10000), 0, 0, 0, 0))
ATTEMPT(clone_newnet, syscall(SYS_clone, I(0x40000000 | 0x10000), 0, 0, 0, 0))

/* mounts */
ATTEMPT(mount, syscall(SYS_mount, 0, BAD, 0, 0, 0))
ATTEMPT(umount2, syscall(SYS_umount2, BAD, 0))
ATTEMPT(pivot_root, syscall(SYS_pivot_root, BAD, BAD))
ATTEMPT(chroot, syscall(SYS_chroot, BAD))
ATTEMPT(fsopen, syscall(nr_fsopen, BAD, 0))
ATTEMPT(fsconfig, syscall(nr_fsconfig, -1, 0, 0, 0, 0))
ATTEMPT(fsmount, syscall(nr_fsmount, -1, 0, 0))
ATTEMPT(fspick, syscall(nr_fspick, -1, BAD, 0))
ATTEMPT(move_mount, syscall(nr_move_mount, -1, BAD, -1, BAD, 0))
ATTEMPT(open_tree, syscall(nr_open_tree, AT_FDCWD, "/", 0))
ATTEMPT(open_tree_attr, syscall(nr_open_tree_attr, AT_FDCWD, "/", 0, 0, 0))
ATTEMPT(mount_setattr, syscall(nr_mount_setattr, -1, "", 0, 0, 0))
ATTEMPT(statmount, syscall(nr_statmount, BAD, 0, 0, 0))
ATTEMPT(listmount, syscall(nr_listmount, BAD, 0, 0, 0))
ATTEMPT(name_to_handle_at, syscall(SYS_name_to_handle_at, AT_FDCWD, "/", BAD, BAD, 0))
ATTEMPT(open_by_handle_at, syscall(SYS_open_by_handle_at, AT_FDCWD, BAD, 0))
ATTEMPT(quotactl, syscall(SYS_quotactl, 255, BAD, 0, 0))
ATTEMPT(quotactl_fd, syscall(nr_quotactl_fd, -1, 255, 0, 0))
ATTEMPT(fanotify_init, syscall(SYS_fanotify_init, 0x200, 0))
ATTEMPT(setxattr, syscall(SYS_setxattr, BAD, BAD, 0, 0, 0))
ATTEMPT(setxattrat, syscall(nr_setxattrat, -1, BAD, 0, BAD, BAD, 0))

/* parts of the kernel with a history */
ATTEMPT(bpf, syscall(SYS_bpf, 0, 0, 1 << 20))
ATTEMPT(perf_event_open, syscall(SYS_perf_event_open, 0, 0, -1, -1, ~0ul))
ATTEMPT(userfaultfd, syscall(SYS_userfaultfd, 1))
ATTEMPT(io_uring_setup, syscall(SYS_io_uring_setup, 1, BAD))
ATTEMPT(io_uring_enter, syscall(SYS_io_uring_enter, -1, 0, 0, 0, 0, 0))
ATTEMPT(io_uring_register, syscall(SYS_io_uring_register, -1, 0, 0, 0))
ATTEMPT(io_setup, syscall(SYS_io_setup, 1, BAD))
ATTEMPT(keyctl, syscall(SYS_keyctl, 0, -3, 0))
ATTEMPT(add_key, syscall(SYS_add_key, BAD, BAD, 0, 0, 0))
ATTEMPT(request_key, syscall(SYS_request_key, BAD, BAD, 0, 0))
ATTEMPT(msgget, syscall(SYS_msgget, 0, 0600))
ATTEMPT(mq_open, syscall(SYS_mq_open, BAD, 0, 0, 0))
ATTEMPT(memfd_secret, syscall(nr_memfd_secret, 0))
ATTEMPT(mbind, syscall(SYS_mbind, 0, 0, 0, 0, 0, 0))
ATTEMPT(set_mempolicy, syscall(SYS_set_mempolicy, 0, 0, 0))
ATTEMPT(move_pages, syscall(SYS_move_pages, 0, 0, 0, 0, 0, 0))
ATTEMPT(remap_file_pages, syscall(SYS_remap_file_pages, 1, 0, 0, 0, 0))
ATTEMPT(sched_setattr, syscall(SYS_sched_setattr, 0, BAD, 0))
ATTEMPT(cachestat, syscall(nr_cachestat, -1, 0, 0, 0))
ATTEMPT(personality, syscall(SYS_personality, 0x0400000 /* READ_IMPLIES_EXEC */))

/* other processes */
static struct iovec own_memory(void) {
  static char byte;
  return (struct iovec){&byte, 1};
}
static long try_process_vm_readv(void) {
  struct iovec one = own_memory();
  return syscall(SYS_process_vm_readv, getpid(), &one, 1, &one, 1, 0);
}
static long try_process_vm_writev(void) {
  struct iovec one = own_memory();
  return syscall(SYS_process_vm_writev, getpid(), &one, 1, &one, 1, 0);
}
ATTEMPT(ptrace, syscall(SYS_ptrace, 0, 0, 0, 0))
ATTEMPT(kcmp, syscall(SYS_kcmp, getpid(), getpid(), 1, 0, 0))
ATTEMPT(pidfd_getfd, syscall(nr_pidfd_getfd, -1, 0, 0))
ATTEMPT(process_madvise, syscall(nr_process_madvise, -1, 0, 0, 0, 0))
ATTEMPT(process_mrelease, syscall(nr_process_mrelease, -1, 0))

/* the machine */
ATTEMPT(kexec_load, syscall(SYS_kexec_load, 0, 0, 0, ~0ul))
ATTEMPT(init_module, syscall(SYS_init_module, BAD, 1, BAD))
ATTEMPT(finit_module, syscall(SYS_finit_module, -1, BAD, 0))
ATTEMPT(delete_module, syscall(SYS_delete_module, BAD, 0))
ATTEMPT(reboot, syscall(SYS_reboot, 1, 2, 3, 0))
ATTEMPT(swapon, syscall(SYS_swapon, BAD, 0))
ATTEMPT(acct, syscall(SYS_acct, BAD))
ATTEMPT(syslog, syscall(SYS_syslog, 10, 0, 0))
ATTEMPT(settimeofday, syscall(SYS_settimeofday, BAD, 0))
ATTEMPT(adjtimex, syscall(SYS_adjtimex, BAD))
ATTEMPT(sethostname, syscall(SYS_sethostname, BAD, -1))

/* sockets */
#define SOCKET(name, family, type, protocol) ATTEMPT(name, syscall(SYS_socket, I(family), I(type), I(protocol)))
SOCKET(af_alg, 38, SOCK_SEQPACKET, 0)
SOCKET(af_vsock, 40, SOCK_STREAM, 0)
SOCKET(af_netlink_route, 16, SOCK_RAW, 0)
SOCKET(af_netlink_netfilter, 16, SOCK_RAW, 12)
SOCKET(af_packet, 17, SOCK_RAW, 0)
SOCKET(af_key, 15, SOCK_RAW, 2)
SOCKET(af_rxrpc, 33, SOCK_DGRAM, 2)
SOCKET(af_rds, 21, SOCK_SEQPACKET, 0)
SOCKET(af_tipc, 30, SOCK_STREAM, 0)
SOCKET(af_can, 29, SOCK_RAW, 1)
SOCKET(af_bluetooth, 31, SOCK_RAW, 1)
SOCKET(af_ax25, 3, SOCK_DGRAM, 0)
SOCKET(af_llc, 26, SOCK_STREAM, 0)
SOCKET(af_pppox, 24, SOCK_STREAM, 0)
SOCKET(af_nfc, 39, SOCK_SEQPACKET, 0)
SOCKET(af_kcm, 41, SOCK_DGRAM, 0)
SOCKET(af_smc, 43, SOCK_STREAM, 0)
SOCKET(af_xdp, 44, SOCK_RAW, 0)
SOCKET(sctp, AF_INET, SOCK_STREAM, 132)
SOCKET(sctp_by_type, AF_INET6, SOCK_SEQPACKET, 0)
SOCKET(dccp, AF_INET, 6, 33)
SOCKET(mptcp, AF_INET, SOCK_STREAM, 262)
SOCKET(udplite, AF_INET, SOCK_DGRAM, 136)
SOCKET(icmp, AF_INET, SOCK_DGRAM, 1)
SOCKET(raw, AF_INET, SOCK_RAW, 255)
ATTEMPT(socketpair_tipc, syscall(SYS_socketpair, I(30), I(SOCK_STREAM), I(0), pair))

static long try_tcp_ulp(void) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  return syscall(SYS_setsockopt, fd, I(6), I(31), "tls", 4);
}
static long try_tcp_ulp_espintcp(void) {
  const int fd = socket(AF_INET6, SOCK_STREAM, 0);
  return syscall(SYS_setsockopt, fd, I(6), I(31), "espintcp", 9);
}

static struct mmsghdr message(void) {
  static char byte = 'x';
  static struct iovec vector = {&byte, 1};
  struct mmsghdr all;
  memset(&all, 0, sizeof all);
  all.msg_hdr.msg_iov = &vector;
  all.msg_hdr.msg_iovlen = 1;
  return all;
}
static int stream(void) { return socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0 ? pair[0] : -1; }
/* One that has an urgent byte to receive, where the kernel lets it be sent. */
static int urgent(void) {
  const int fd = stream();
  (void)!write(pair[1], "y", 1);
  return fd;
}
static long try_sendto_oob(void) { return syscall(SYS_sendto, stream(), "x", 1, I(MSG_OOB), 0, 0); }
static long try_sendmsg_oob(void) {
  struct mmsghdr one = message();
  return syscall(SYS_sendmsg, stream(), &one.msg_hdr, I(MSG_OOB));
}
static long try_sendmmsg_oob(void) {
  struct mmsghdr one = message();
  return syscall(SYS_sendmmsg, stream(), &one, 1, I(MSG_OOB));
}
static long try_recvfrom_oob(void) {
  char byte;
  return syscall(SYS_recvfrom, urgent(), &byte, 1, I(MSG_OOB), 0, 0);
}
static long try_recvmsg_oob(void) {
  struct mmsghdr one = message();
  return syscall(SYS_recvmsg, urgent(), &one.msg_hdr, I(MSG_OOB));
}
static long try_recvmmsg_oob(void) {
  struct mmsghdr one = message();
  return syscall(SYS_recvmmsg, urgent(), &one, 1, I(MSG_OOB), 0);
}

/* ioctls; on something that has none of them: ENOTTY is the kernel's answer, or EBADF for a source of -1 */
ATTEMPT(tiocsti, syscall(SYS_ioctl, stream(), I(0x5412), "x"))
ATTEMPT(tioclinux, syscall(SYS_ioctl, stream(), I(0x541c), "\2"))
ATTEMPT(tiocsetd, syscall(SYS_ioctl, stream(), I(0x5423), BAD))
ATTEMPT(ficlone, syscall(SYS_ioctl, open("/proc/self/status", O_RDONLY), I(0x40049409), -1))
ATTEMPT(ficlonerange, syscall(SYS_ioctl, open("/proc/self/status", O_RDONLY), I(0x4020940d), BAD))

/* pipes and the page cache */
ATTEMPT(pipe2_notification, syscall(SYS_pipe2, pair, I(0200)))
ATTEMPT(splice, syscall(SYS_splice, -1, 0, -1, 0, 1, 0))
ATTEMPT(tee, syscall(SYS_tee, -1, -1, 1, 0))
ATTEMPT(vmsplice, syscall(SYS_vmsplice, -1, 0, 1, 0))
ATTEMPT(copy_file_range, syscall(SYS_copy_file_range, -1, 0, -1, 0, 1, 0))
ATTEMPT(seccomp_new_listener, syscall(SYS_seccomp, I(1), I(8), BAD))

/* A mask without a CPU: the kernel refuses it, a filter that pretends does not. */
static long try_sched_setaffinity(void) {
  unsigned long none = 0;
  const long result = syscall(SYS_sched_setaffinity, 0, sizeof none, &none);
  if (result != 0) return result;
  second_rule = "pretended";
  errno = EPERM;
  return -1;
}

#if defined(__x86_64__)
ATTEMPT(iopl, syscall(SYS_iopl, 4))
ATTEMPT(ioperm, syscall(SYS_ioperm, ~0ul, 1, 1))
ATTEMPT(modify_ldt, syscall(SYS_modify_ldt, 0, 0, 0))
ATTEMPT(abi_x32, syscall(0x40000000 + SYS_getpid))
static long try_abi_i386(void) {
  long value = 20; /* getpid */
  __asm__ volatile("int $0x80" : "+a"(value) : : "memory");
  return value;
}
#endif

#define ROW(name) {#name, try_##name, "", 0}
#define SAYS(name, errnos) {#name, try_##name, errnos, 0}
#define RULE(name, errnos) {#name, try_##name, errnos, 1}
#define FAMILY(name) RULE(name, "EAFNOSUPPORT EPROTONOSUPPORT ESOCKTNOSUPPORT EACCES EINVAL")

static const struct attempt attempts[] = {
    ROW(unshare_user), ROW(unshare_mount), ROW(unshare_net), ROW(setns), ROW(clone3), RULE(clone_newns, ""),
    RULE(clone_newcgroup, ""), RULE(clone_newuts, ""), RULE(clone_newipc, ""), RULE(clone_newuser, ""),
    RULE(clone_newpid, ""), RULE(clone_newnet, ""), ROW(mount), ROW(umount2), ROW(pivot_root), ROW(chroot), ROW(fsopen),
    ROW(fsconfig), ROW(fsmount), ROW(fspick), ROW(move_mount), ROW(open_tree), ROW(open_tree_attr), ROW(mount_setattr),
    ROW(statmount), ROW(listmount), ROW(name_to_handle_at), ROW(open_by_handle_at), ROW(quotactl), ROW(quotactl_fd),
    ROW(fanotify_init), ROW(setxattr), ROW(setxattrat), ROW(bpf), ROW(perf_event_open), ROW(userfaultfd),
    ROW(io_uring_setup), ROW(io_uring_enter), ROW(io_uring_register), ROW(io_setup), ROW(keyctl), ROW(add_key),
    ROW(request_key), ROW(msgget), ROW(mq_open), ROW(memfd_secret), ROW(mbind), ROW(set_mempolicy), ROW(move_pages),
    ROW(remap_file_pages), ROW(sched_setattr), ROW(cachestat), ROW(personality), ROW(ptrace), ROW(process_vm_readv),
    ROW(process_vm_writev), ROW(kcmp), ROW(pidfd_getfd), ROW(process_madvise), ROW(process_mrelease), ROW(kexec_load),
    ROW(init_module), ROW(finit_module), ROW(delete_module), ROW(reboot), ROW(swapon), ROW(acct), ROW(syslog),
    ROW(settimeofday), ROW(adjtimex), ROW(sethostname), FAMILY(af_alg), FAMILY(af_vsock), FAMILY(af_netlink_route),
    FAMILY(af_netlink_netfilter), FAMILY(af_packet), FAMILY(af_key), FAMILY(af_rxrpc), FAMILY(af_rds), FAMILY(af_tipc),
    FAMILY(af_can), FAMILY(af_bluetooth), FAMILY(af_ax25), FAMILY(af_llc), FAMILY(af_pppox), FAMILY(af_nfc),
    FAMILY(af_kcm), FAMILY(af_smc), FAMILY(af_xdp), FAMILY(sctp), FAMILY(sctp_by_type), FAMILY(dccp), FAMILY(mptcp),
    FAMILY(udplite), FAMILY(icmp), FAMILY(raw), FAMILY(socketpair_tipc), RULE(tcp_ulp, "ENOPROTOOPT"),
    RULE(tcp_ulp_espintcp, "ENOPROTOOPT"), RULE(sendto_oob, "EOPNOTSUPP"), RULE(sendmsg_oob, "EOPNOTSUPP"),
    RULE(sendmmsg_oob, "EOPNOTSUPP"), RULE(recvfrom_oob, "EOPNOTSUPP"), RULE(recvmsg_oob, "EOPNOTSUPP"),
    RULE(recvmmsg_oob, "EOPNOTSUPP"), RULE(tiocsti, ""), RULE(tioclinux, ""), RULE(tiocsetd, ""),
    RULE(ficlone, "EOPNOTSUPP"), RULE(ficlonerange, "EOPNOTSUPP"), RULE(pipe2_notification, "EINVAL"),
    SAYS(splice, "EINVAL"), SAYS(tee, "EINVAL"), SAYS(vmsplice, "EINVAL"), SAYS(copy_file_range, "EXDEV"),
    RULE(seccomp_new_listener, ""), ROW(sched_setaffinity),
#if defined(__x86_64__)
    ROW(iopl), ROW(ioperm), ROW(modify_ldt), ROW(abi_x32), ROW(abi_i386),
#endif
};

struct outcome {
  long result;
  char errno_name[32];
  int denied;
};

static int says_no(int code, const char* errnos) {
  const char* name = strerrorname_np(code);
  const size_t length = strlen(name);
  if (code == EPERM || code == ENOSYS) return 1;
  for (const char* at = strstr(errnos, name); at != NULL; at = strstr(at + 1, name)) {
    if ((at == errnos || at[-1] == ' ') && (at[length] == '\0' || at[length] == ' ')) return 1;
  }
  return 0;
}

static void make_attempt(const struct attempt* attempt, struct outcome* outcome) {
  memset(outcome, 0, sizeof *outcome);
  const pid_t pid = fork();
  if (pid < 0) {
    perror("fork");
    exit(2);
  }
  if (pid == 0) {
    second_rule = NULL;
    errno = 0;
    const long result = attempt->call();
    const int code = errno;
    outcome->denied = result < 0 && says_no(code, attempt->errnos);
    const char* name = second_rule != NULL ? second_rule : result < 0 ? strerrorname_np(code) : "-";
    snprintf(outcome->errno_name, sizeof outcome->errno_name, "%s", name);
    outcome->result = result;
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  printf("%s%s ", attempt->name, high != 0 ? "+high" : "");
  if (WIFSIGNALED(status)) {
    printf("killed SIG%s\n", sigabbrev_np(WTERMSIG(status)));
  } else {
    printf("%s %s\n", outcome->denied ? "denied" : outcome->result < 0 ? "reached" : "succeeded", outcome->errno_name);
  }
  fflush(stdout);
}

int main(void) {
  struct outcome* outcome = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (outcome == MAP_FAILED) return 2;
  for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; ++i) {
    high = 0;
    make_attempt(&attempts[i], outcome);
    if (!attempts[i].rule) continue;
    high = 1ul << 32;
    make_attempt(&attempts[i], outcome);
  }
  return 0;
}
