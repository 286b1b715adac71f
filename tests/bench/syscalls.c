// Loops of system calls whose arguments a filter looks at (so that the kernel caches no answer for them), and getppid,
// which it may cache. Prints "NAME NANOSECONDS" for each: the fastest of many short rounds, as a call costs when nothing
// else happens.
//
//   syscalls [ROUNDS]
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int pair[2], ready[2], udp;
static struct sockaddr_in sink = {.sin_family = AF_INET};

static void do_getppid(void) { syscall(SYS_getppid); }
static void do_socket(void) { close(socket(AF_UNIX, SOCK_STREAM, 0)); }
static void do_setsockopt(void) {
  const int on = 1;
  setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
}
/* Sends to a socket whose buffer is full: as little of the kernel as there is of a sendto. */
static void do_sendto_full(void) { (void)!sendto(ready[0], "x", 1, MSG_DONTWAIT, NULL, 0); }
static void do_sendto(void) { (void)!sendto(udp, "x", 1, 0, (struct sockaddr*)&sink, sizeof sink); }
static void do_ioctl(void) {
  int bytes;
  ioctl(pair[0], FIONREAD, &bytes);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void measure(const char* name, void (*call)(void), int rounds) {
  enum { kCalls = 2000 };
  double best = 1e18;
  for (int round = 0; round < rounds; ++round) {
    const double start = now();
    for (int i = 0; i < kCalls; ++i) call();
    const double each = (now() - start) / kCalls;
    if (each < best) best = each;
  }
  printf("%s %.1f\n", name, best);
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 40;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || socketpair(AF_UNIX, SOCK_DGRAM, 0, ready) != 0) return 1;
  while (send(ready[0], "x", 1, MSG_DONTWAIT) == 1) {
  }
  /* A socket that nobody reads: what it has no room for is dropped. */
  socklen_t length = sizeof sink;
  udp = socket(AF_INET, SOCK_DGRAM, 0);
  sink.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(udp, (struct sockaddr*)&sink, length) != 0 || getsockname(udp, (struct sockaddr*)&sink, &length) != 0) return 1;
  measure("getppid", do_getppid, rounds);
  measure("socket", do_socket, rounds);
  measure("setsockopt", do_setsockopt, rounds);
  measure("sendto", do_sendto, rounds);
  measure("sendto_full", do_sendto_full, rounds);
  measure("ioctl", do_ioctl, rounds);
  return 0;
}
