#include "sandbox/last_step.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/text.h"
#include "sandbox/last_step_wire.h"
#include "sandbox/procfs.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

// src/sandbox/last_step_program.cc, compiled and linked.
constexpr unsigned char kProgram[] = {
#include "sandbox/last_step_program.inc"
};

template <typename T>
void append(std::string& bytes, const T& part) {
  bytes.append(reinterpret_cast<const char*>(&part), sizeof part);
}

// False where fewer bytes are left.
bool take(std::string_view& bytes, void* part, std::size_t size) {
  if (bytes.size() < size) return false;
  std::memcpy(part, bytes.data(), size);
  bytes.remove_prefix(size);
  return true;
}

Result<void> mark_range(unsigned from, unsigned to) {
  if (syscall(SYS_close_range, from, to, CLOSE_RANGE_CLOEXEC) != 0) return errno_error("close_range");  // Linux 5.11
  return ok();
}

// The same by looking which fds there are. For a process whose filter is loaded already and does not know
// close_range(2).
Result<void> mark_listed(int procfs, unsigned first, const std::vector<int>& crossing) {
  TRY(check_procfs(procfs, "/proc"));
  for (const std::string& name : TRY(sys::list_directory(procfs, "self/fd"))) {
    const auto fd = text::parse_unsigned(name);
    if (!fd || *fd < first) continue;
    const int number = static_cast<int>(*fd);
    if (std::find(crossing.begin(), crossing.end(), number) != crossing.end()) continue;
    if (fcntl(number, F_SETFD, FD_CLOEXEC) != 0 && errno != EBADF) return errno_error("close-on-exec");
  }
  return ok();
}

// An fd that the program inherits by mistake is a host file in its hands (CVE-2024-21626): what is not named is closed,
// whoever opened it.
Result<void> mark_all_but(unsigned first, std::vector<int> crossing, int procfs) {
  std::sort(crossing.begin(), crossing.end());
  unsigned next = first;
  Result<void> marked = ok();
  for (const int fd : crossing) {
    const auto kept = static_cast<unsigned>(fd);
    if (kept < next) continue;
    if (marked && kept > next) marked = mark_range(next, kept - 1);
    next = kept + 1;
  }
  if (marked) marked = mark_range(next, ~0U);
  if (!marked && procfs >= 0) marked = mark_listed(procfs, first, crossing);
  return marked;
}

// These cross two execves, or one: the last step closes its own.
Result<void> pass_on(const std::vector<int>& fds) {
  for (const int fd : fds) {
    if (fcntl(fd, F_SETFD, 0) != 0) return errno_error("pass on fd", std::to_string(fd));
  }
  return ok();
}

std::string orders_of(const Launch& launch, int directory) {
  std::string orders(1, wire::kMark);
  for (const int fd :
       {launch.error_fd, launch.programs_fd, launch.listener_fd, launch.procfs, directory, launch.landlock_fd}) {
    orders += ':';
    orders += fd < 0 ? "-" : std::to_string(fd);
  }
  return orders + ':' + std::to_string(launch.labels.size());
}

char* pointer(const std::string& text) { return const_cast<char*>(text.c_str()); }

std::vector<char*> arguments_of(const Launch& launch, const std::string& orders) {
  std::vector<char*> list{pointer(orders), pointer(launch.path), pointer(launch.listener_message)};
  for (const ExecLabel& label : launch.labels) {
    list.push_back(pointer(label.file));
    list.push_back(pointer(label.text));
  }
  for (const std::string& argument : launch.args) list.push_back(pointer(argument));
  list.push_back(nullptr);
  return list;
}

Error execute(int program, const Launch& launch) {
  std::vector<char*> environment;
  for (const std::string& variable : launch.env) environment.push_back(pointer(variable));
  environment.push_back(nullptr);

  std::string orders = orders_of(launch, -1);
  std::vector<char*> list = arguments_of(launch, orders);
  syscall(SYS_execveat, program, "", list.data(), environment.data(), AT_EMPTY_PATH);
  const Error failure = errno_error("execveat", "the last step");

  // A filter of the config's that was loaded already, and whose author thought of execve only. Then by the name that
  // procfs has for the memfd; of the procfs that we know, not of what the container has at /proc: hence from within it.
  if ((failure.code != ENOSYS && failure.code != EPERM && failure.code != EACCES) || launch.procfs < 0) return failure;
  const UniqueFd directory(open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory || !check_procfs(launch.procfs, "/proc") || !pass_on({directory.get()})) return failure;
  if (fchdir(launch.procfs) != 0) return failure;
  orders = orders_of(launch, directory.get());
  list = arguments_of(launch, orders);
  const std::string path = "self/fd/" + std::to_string(program);
  execve(path.c_str(), list.data(), environment.data());
  if (fchdir(directory.get()) != 0) return errno_error("fchdir");
  return failure;
}

void relax() {
#if defined(__x86_64__)
  asm volatile("pause" ::: "memory");
#else
  asm volatile("" ::: "memory");
#endif
}

long load(const SeccompProgram& program, unsigned long flags) {
  sock_fprog filter{static_cast<unsigned short>(program.instructions.size()),
                    const_cast<sock_filter*>(program.instructions.data())};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
}

// See run_messenger of the last step: under a filter with a listener no call is sure to return before the agent has the
// listener, so that a thread without the filter sends it. A bare thread, on this thread's C library state: it makes two
// system calls while this one makes none.
struct Messenger {
  int socket = -1;
  std::string_view message;
  std::atomic<long> listener{0};  // 0: not yet; the fd plus 1; or -1 where there is none
  std::atomic<long> sent{0};      // 0: not yet; 1; or a -errno
};

long send_fd(int socket, std::string_view message, int fd) {
  iovec vector{const_cast<char*>(message.data()), message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  return syscall(SYS_sendmsg, socket, &header, MSG_NOSIGNAL) < 0 ? -errno : 1;
}

int run_messenger(void* argument) {
  auto& messenger = *static_cast<Messenger*>(argument);
  while (messenger.listener == 0) {
    const timespec pause{0, 20'000};
    syscall(SYS_nanosleep, &pause, nullptr);
  }
  const long listener = messenger.listener;
  if (listener > 0) messenger.sent = send_fd(messenger.socket, messenger.message, static_cast<int>(listener - 1));
  syscall(SYS_exit, 0);
  return 0;
}

Result<void> load_with_listener(const SeccompProgram& program, int listener_fd, const std::string& message) {
  if (listener_fd < 0) return refusal("load seccomp filter", {}, "it has a listener, and nobody listens");
  // Static: the thread may still be on its last instruction when this function returns.
  alignas(16) static std::array<char, 64 * 1024> stack;
  static Messenger messenger;
  messenger.socket = listener_fd;
  messenger.message = message.empty() ? std::string_view("S") : std::string_view(message);
  constexpr int kThread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
  if (clone(run_messenger, stack.data() + stack.size(), kThread, &messenger) < 0) {
    return errno_error("start a thread for the seccomp listener");
  }
  const long fd = load(program, program.flags | SECCOMP_FILTER_FLAG_NEW_LISTENER);
  const int code = errno;
  messenger.listener = fd < 0 ? -1 : fd + 1;
  if (fd < 0) return os_error(code, "load seccomp filter");
  while (messenger.sent == 0) relax();
  const UniqueFd listener(static_cast<int>(fd));
  if (messenger.sent < 0) return os_error(static_cast<int>(-messenger.sent), "send seccomp listener");
  return ok();
}

}  // namespace

Result<LastStep> prepare_last_step() {
  LastStep last_step;
  const std::string_view bytes(reinterpret_cast<const char*>(kProgram), sizeof kProgram);
  last_step.program = TRY(sys::sealed_memory("agentrun-last-step", bytes, true));
  // Executable and nothing else: a process of a program that it may not read is not dumpable, so that nobody of the
  // same ids takes it over by ptrace or /proc/PID/mem while it has no filter yet.
  if (fchmod(last_step.program.get(), 0111) != 0) return errno_error("chmod", "the last step");
  return last_step;
}

std::string pack_programs(const std::vector<SeccompProgram>& programs) {
  std::string bytes;
  append(bytes, wire::ProgramsHeader{wire::kProgramsMagic, static_cast<std::uint32_t>(programs.size())});
  for (const SeccompProgram& program : programs) {
    wire::ProgramHeader header;
    header.flags = program.flags;
    header.listener = program.listener ? 1 : 0;
    header.length = static_cast<std::uint32_t>(program.instructions.size());
    append(bytes, header);
    bytes.append(reinterpret_cast<const char*>(program.instructions.data()),
                 program.instructions.size() * sizeof(sock_filter));
  }
  return bytes;
}

Result<std::vector<SeccompProgram>> unpack_programs(std::string_view bytes) {
  const auto cut_off = [] { return refusal("read", "seccomp programs", "cut off"); };
  wire::ProgramsHeader all;
  if (!take(bytes, &all, sizeof all) || all.magic != wire::kProgramsMagic) return cut_off();
  std::vector<SeccompProgram> programs;
  for (std::uint32_t i = 0; i < all.count; ++i) {
    wire::ProgramHeader header;
    if (!take(bytes, &header, sizeof header)) return cut_off();
    if (bytes.size() / sizeof(sock_filter) < header.length) return cut_off();
    SeccompProgram program;
    program.flags = header.flags;
    program.listener = header.listener != 0;
    program.instructions.resize(header.length);
    if (!take(bytes, program.instructions.data(), header.length * sizeof(sock_filter))) return cut_off();
    programs.push_back(std::move(program));
  }
  if (!bytes.empty()) return cut_off();
  return programs;
}

Result<UniqueFd> seal_programs(const std::vector<SeccompProgram>& programs) {
  if (programs.empty()) return UniqueFd();
  if (programs.size() > wire::kMostPrograms) return refusal("seccomp", {}, "too many filters");
  for (const SeccompProgram& program : programs) {
    if (program.instructions.empty() || program.instructions.size() > BPF_MAXINSNS) {
      return refusal("seccomp", {}, "a filter has no instruction, or more than the kernel takes");
    }
  }
  return sys::sealed_memory("agentrun-seccomp", pack_programs(programs), false);
}

Result<std::vector<SeccompProgram>> read_programs(int fd) {
  return unpack_programs(TRY(sys::read_fd(fd, "seccomp programs", wire::kLargestPrograms)));
}

Error run_last_step(const LastStep& last_step, const Launch& launch) {
  if (launch.args.empty()) return refusal("exec", launch.path, "no arguments: not even a name");
  if (launch.labels.size() > 9 || (!launch.labels.empty() && launch.procfs < 0)) {
    return refusal("exec", launch.path, "labels without a procfs");
  }
  // From here on to the program's execve this process is none that others of its ids may look into.
  if (prctl(PR_SET_DUMPABLE, 0) != 0) return errno_error("prctl PR_SET_DUMPABLE");
  std::vector<int> crossing;
  for (const int fd : {launch.error_fd, launch.programs_fd, launch.listener_fd, launch.procfs, launch.landlock_fd}) {
    if (fd >= 0) crossing.push_back(fd);
  }
  if (auto marked = mark_all_but(3 + launch.preserve_fds, crossing, launch.procfs); !marked)
    return std::move(marked).error();
  if (auto passed = pass_on(crossing); !passed) return std::move(passed).error();
  return execute(last_step.program.get(), launch);
}

Result<void> load_seccomp(const SeccompProgram& program, int listener_fd, const std::string& message) {
  if (program.listener) return load_with_listener(program, listener_fd, message);
  if (load(program, program.flags) < 0) return errno_error("load seccomp filter");
  return ok();
}

Error read_launch_failure(std::string_view message, const std::string& path) {
  wire::Failure failure;
  if (message.size() != sizeof failure) return refusal("exec", path, "the last step ended without a reason");
  std::memcpy(&failure, message.data(), sizeof failure);
  if (failure.magic != wire::kFailureMagic) return refusal("exec", path, "the last step's message is damaged");
  const auto because = [&](const char* operation, const std::string& object) {
    Error error = os_error(failure.code, operation, object);
    error.exit_status = wire::kCannotExecute;
    return error;
  };
  switch (failure.step) {
    case wire::close_on_exec:
      return because("close fds at exec of", path);
    case wire::directory:
      return because("return to the working directory", {});
    case wire::label:
      return because("write `/proc/thread-self/attr/exec`", {});
    case wire::landlock:
      return because("restrict by Landlock", {});
    case wire::filter:
      return because("load seccomp filter", {});
    case wire::listener:
      return because("send seccomp listener", {});
    case wire::exec: {
      // "exec /run.sh: no such file or directory", in lower case as runc has it: tests of engines compare the bytes.
      Error error = because("exec", path);
      error.reason = std::strerror(failure.code);
      error.reason[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(error.reason[0])));
      if (failure.code == ENOENT || failure.code == ENOTDIR) error.exit_status = wire::kNotFound;
      return error;
    }
    default:
      return because("read the orders of the last step", {});
  }
}

}  // namespace agentrun::sandbox
