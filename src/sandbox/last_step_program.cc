// The last step: see last_step.h. A static program without a C library, so that its execve costs a fifth of glibc's,
// and so that what a container can reach of it has nothing in it but these lines.
//
// It runs with the rights of the container's program, and a filter of the config's may be loaded already. What it
// calls, in this order: prctl, fcntl, [fchdir], [openat, write, close], [landlock_restrict_self], [mmap], [clone,
// nanosleep, sendmsg, exit in a thread of its own], seccomp, execve; on failure write, exit_group.
#include <asm/unistd.h>
#include <linux/fcntl.h>
#include <linux/filter.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>

#include <cstddef>
#include <cstdint>

#include "sandbox/last_step_wire.h"

namespace wire = agentrun::sandbox::wire;

namespace {

#if defined(__x86_64__)

long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  long result = number;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall" : "+a"(result) : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
  return result;
}

// clone(2) onto another stack: the child calls `body(argument)`, which must not return.
long spawn(unsigned long flags, void* stack, void (*body)(void*), void* argument) {
  long result = __NR_clone;
  register long r10 asm("r10") = 0;
  register long r8 asm("r8") = 0;
  register void (*r12)(void*) asm("r12") = body;
  register void* r13 asm("r13") = argument;
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %%r13, %%rdi\n\t"
      "call *%%r12\n\t"
      "hlt\n"
      "1:"
      : "+a"(result)
      : "D"(flags), "S"(stack), "d"(0L), "r"(r10), "r"(r8), "r"(r12), "r"(r13)
      : "rcx", "r11", "memory");
  return result;
}

void relax() { asm volatile("pause" ::: "memory"); }

asm(".globl _start\n"
    "_start:\n\t"
    "xor %ebp, %ebp\n\t"
    "mov %rsp, %rdi\n\t"
    "and $-16, %rsp\n\t"
    "call last_step_main\n\t"
    "hlt\n");

#elif defined(__aarch64__)

long call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}

long spawn(unsigned long flags, void* stack, void (*body)(void*), void* argument) {
  register long x8 asm("x8") = __NR_clone;
  register unsigned long x0 asm("x0") = flags;
  register void* x1 asm("x1") = stack;
  register long x2 asm("x2") = 0;
  register long x3 asm("x3") = 0;
  register long x4 asm("x4") = 0;
  register void (*x19)(void*) asm("x19") = body;
  register void* x20 asm("x20") = argument;
  asm volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "mov x30, xzr\n\t"
      "mov x0, x20\n\t"
      "blr x19\n\t"
      "brk #1\n"
      "1:"
      : "+r"(x0)
      : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x19), "r"(x20)
      : "memory");
  return static_cast<long>(x0);
}

void relax() { asm volatile("yield" ::: "memory"); }

asm(".globl _start\n"
    "_start:\n\t"
    "mov x29, xzr\n\t"
    "mov x30, xzr\n\t"
    "mov x0, sp\n\t"
    "and sp, x0, #-16\n\t"
    "bl last_step_main\n\t"
    "brk #1\n");

#else
#error "the last step is written for x86-64 and aarch64"
#endif

template <typename T>
long as_long(T* pointer) {
  return static_cast<long>(reinterpret_cast<std::uintptr_t>(pointer));
}

constexpr long kNoEntry = -2, kNotDirectory = -20, kTryAgain = -11, kInvalid = -22;  // -ENOENT, -ENOTDIR, ...

int fds[wire::kFdCount];

[[noreturn]] void end(int status) {
  while (true) call(__NR_exit_group, status);
}

[[noreturn]] void fail(wire::Step step, long result) {
  wire::Failure failure;
  failure.step = step;
  failure.code = static_cast<std::int32_t>(-result);
  call(__NR_write, fds[wire::error_fd], as_long(&failure), sizeof failure);
  const bool missing = step == wire::exec && (result == kNoEntry || result == kNotDirectory);
  end(missing ? wire::kNotFound : wire::kCannotExecute);
}

long check(wire::Step step, long result) {
  if (result < 0) fail(step, result);
  return result;
}

// ":17" or ":-" at `text`, which moves on. Anything else is not ours.
bool take_number(const char*& text, int& number) {
  if (*text++ != ':') return false;
  number = -1;
  if (*text == '-') {
    ++text;
    return true;
  }
  int value = 0;
  bool digits = false;
  while (*text >= '0' && *text <= '9' && value < 100000000) {
    value = value * 10 + (*text++ - '0');
    digits = true;
  }
  number = value;
  return digits;
}

bool take_orders(const char* text, int& labels) {
  if (text == nullptr || *text++ != wire::kMark) return false;
  for (int& fd : fds) {
    if (!take_number(text, fd)) return false;
  }
  return take_number(text, labels) && labels >= 0 && labels <= 9 && *text == '\0';
}

std::size_t length_of(const char* text) {
  std::size_t length = 0;
  while (text[length] != '\0') ++length;
  return length;
}

// The label is written here and not before: it is for the next execve, and that has to be the program's. On SELinux the
// file that is executed must be an entry point of the new domain, which a memfd of the runtime's is not.
void write_label(const char* file, const char* text) {
  const long fd = check(wire::label, call(__NR_openat, fds[wire::procfs_fd], as_long(file), O_WRONLY | O_CLOEXEC));
  const auto length = static_cast<long>(length_of(text));
  const long written = check(wire::label, call(__NR_write, fd, as_long(text), length));
  if (written != length) fail(wire::label, kInvalid);
  call(__NR_close, fd);
}

// --- the listener's fd ---
//
// Once the filter is on, each of our calls may be one that the agent is asked about, and the agent has no listener yet:
// a program that sends its own listener can wait for itself. So a thread that has no filter, with the same fds, sends
// it.

struct Messenger {
  long socket = -1;
  const char* message = nullptr;
  long listener = 0;  // 0: not yet; the fd plus 1; or a -errno of the filter
  long sent = 0;      // 0: not yet; 1; or a -errno
};

long get(const long& shared) { return __atomic_load_n(&shared, __ATOMIC_ACQUIRE); }
void set(long& shared, long value) { __atomic_store_n(&shared, value, __ATOMIC_RELEASE); }

// The kernel's struct user_msghdr, iovec and cmsghdr with one fd.
struct Vector {
  const void* base;
  std::size_t length;
};
struct Control {
  std::size_t length;
  int level, type;
  int fd;
  int padding;
};
struct Header {
  void* name;
  int name_length;
  int padding;
  Vector* vectors;
  std::size_t vector_count;
  void* control;
  std::size_t control_length;
  unsigned flags;
};

long send_fd(const Messenger& letter, long fd) {
  Vector vector{letter.message, length_of(letter.message)};
  if (vector.length == 0) vector = {"S", 1};  // an fd goes with at least one byte
  constexpr int kSocketLevel = 1, kRights = 1;
  Control control{offsetof(Control, fd) + sizeof(int), kSocketLevel, kRights, static_cast<int>(fd), 0};
  Header header{nullptr, 0, 0, &vector, 1, &control, sizeof control, 0};
  const long sent = call(__NR_sendmsg, letter.socket, as_long(&header), 0x4000 /* MSG_NOSIGNAL */);
  return sent < 0 ? sent : 1;
}

void run_messenger(void* argument) {
  auto* messenger = static_cast<Messenger*>(argument);
  while (get(messenger->listener) == 0) {
    const long pause[2] = {0, 20000};  // 20 microseconds
    call(__NR_nanosleep, as_long(&pause), 0);
  }
  const long listener = get(messenger->listener);
  if (listener > 0) set(messenger->sent, send_fd(*messenger, listener - 1));
  while (true) call(__NR_exit, 0);
}

alignas(16) char messenger_stack[4096];
Messenger messenger;

long load_filter(const sock_fprog& program, unsigned long flags) {
  return call(__NR_seccomp, SECCOMP_SET_MODE_FILTER, static_cast<long>(flags), as_long(&program));
}

void load_with_listener(const sock_fprog& program, unsigned long flags, const char* message) {
  messenger.message = message;
  messenger.socket = fds[wire::listener_fd];
  constexpr unsigned long kThread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
  const long thread = spawn(kThread, messenger_stack + sizeof messenger_stack, run_messenger, &messenger);
  // No room for a thread (a limit of one process): then by ourselves, which works unless the profile sends sendmsg or
  // the agent's own start to the agent.
  if (thread < 0 && thread != kTryAgain) fail(wire::listener, thread);
  const long fd = load_filter(program, flags | SECCOMP_FILTER_FLAG_NEW_LISTENER);
  if (thread < 0) {
    check(wire::filter, fd);
    check(wire::listener, send_fd(messenger, fd));
    return;
  }
  set(messenger.listener, fd < 0 ? fd : fd + 1);
  check(wire::filter, fd);
  while (get(messenger.sent) == 0) relax();  // in user space: under the filter no call is sure to work
  check(wire::listener, get(messenger.sent));
}

void load_filters(const char* message) {
  const long mapped =
      call(__NR_mmap, 0, static_cast<long>(wire::kLargestPrograms), PROT_READ, MAP_PRIVATE, fds[wire::programs_fd], 0);
  if (mapped < 0 && mapped > -4096) fail(wire::orders, mapped);
  const auto* bytes = reinterpret_cast<const char*>(mapped);
  const auto* header = reinterpret_cast<const wire::ProgramsHeader*>(bytes);
  if (header->magic != wire::kProgramsMagic || header->count > wire::kMostPrograms) fail(wire::orders, kInvalid);
  bytes += sizeof *header;
  for (std::uint32_t i = 0; i < header->count; ++i) {
    const auto* program = reinterpret_cast<const wire::ProgramHeader*>(bytes);
    if (program->length == 0 || program->length > BPF_MAXINSNS) fail(wire::orders, kInvalid);
    bytes += sizeof *program;
    const sock_fprog filter{static_cast<unsigned short>(program->length),
                            reinterpret_cast<sock_filter*>(reinterpret_cast<std::uintptr_t>(bytes))};
    if (program->listener != 0) {
      load_with_listener(filter, program->flags, message);
    } else {
      check(wire::filter, load_filter(filter, program->flags));
    }
    bytes += program->length * sizeof(sock_filter);
  }
}

}  // namespace

extern "C" [[noreturn]] void last_step_main(long* stack) {
  const long count = stack[0];
  auto** arguments = reinterpret_cast<char**>(stack + 1);
  char** environment = arguments + count + 1;
  int labels = 0;
  if (count < 1 || !take_orders(arguments[0], labels)) end(wire::kCannotExecute);
  const long first = wire::kFixedArguments + 2 * labels;  // of the program's own
  if (count <= first) end(wire::kCannotExecute);

  // Until the filters are on, another process of the container with the same ids must not be able to write into this
  // one by ptrace or /proc/PID/mem and so get a process without filters. The memfd is unreadable for the same reason;
  // this is for those who read it by capability.
  call(__NR_prctl, PR_SET_DUMPABLE, 0);

  for (const int fd : fds) {
    if (fd >= 0) check(wire::close_on_exec, call(__NR_fcntl, fd, F_SETFD, FD_CLOEXEC));
  }
  if (fds[wire::directory_fd] >= 0) check(wire::directory, call(__NR_fchdir, fds[wire::directory_fd]));
  for (int i = 0; i < labels; ++i)
    write_label(arguments[wire::kFixedArguments + 2 * i], arguments[wire::kFixedArguments + 2 * i + 1]);
  // After the labels, which are files that the rules do not know; before the filters, which may not know this call.
  if (fds[wire::landlock_fd] >= 0) {
    check(wire::landlock, call(__NR_landlock_restrict_self, fds[wire::landlock_fd], 0));
  }
  if (fds[wire::programs_fd] >= 0) load_filters(arguments[2]);
  fail(wire::exec, call(__NR_execve, as_long(arguments[1]), as_long(arguments + first), as_long(environment)));
}

// The compiler may ask for these where it copies or clears a struct.
extern "C" void* memset(void* target, int value, std::size_t size) {
  auto* bytes = static_cast<volatile char*>(target);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(value);
  return target;
}
extern "C" void* memcpy(void* target, const void* source, std::size_t size) {
  auto* to = static_cast<volatile char*>(target);
  const auto* from = static_cast<const char*>(source);
  for (std::size_t i = 0; i < size; ++i) to[i] = from[i];
  return target;
}
