#include "lifecycle/foreground.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "sys/file.h"

namespace agentrun::lifecycle {
namespace {

// Our own terminal, raw while the container's is relayed to it.
class RawTerminal {
 public:
  explicit RawTerminal(int fd) : fd_(fd) {
    if (tcgetattr(fd, &before_) != 0) return;
    termios raw = before_;
    cfmakeraw(&raw);
    changed_ = tcsetattr(fd, TCSANOW, &raw) == 0;
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  ~RawTerminal() {
    if (changed_) tcsetattr(fd_, TCSANOW, &before_);
  }

 private:
  int fd_;
  termios before_{};
  bool changed_ = false;
};

void copy_window_size(int from, int to) {
  winsize size{};
  if (ioctl(from, TIOCGWINSZ, &size) == 0) ioctl(to, TIOCSWINSZ, &size);
}

// Both directions between our standard input and output and the master of the container's terminal.
class Relay {
 public:
  explicit Relay(UniqueFd master) : master_(std::move(master)), raw_(STDIN_FILENO) {
    copy_window_size(STDIN_FILENO, master_.get());
  }

  void resized() { copy_window_size(STDIN_FILENO, master_.get()); }
  int master() const { return output_open_ ? master_.get() : -1; }
  int input() const { return input_open_ ? STDIN_FILENO : -1; }

  void from_container() {
    if (!copy(master_.get(), STDOUT_FILENO)) output_open_ = false;
  }

  void to_container() {
    if (copy(STDIN_FILENO, master_.get())) return;
    input_open_ = false;
    // End of our input: the character that says so to a program that reads a terminal.
    constexpr char kEndOfFile = 4;
    (void)!write(master_.get(), &kEndOfFile, 1);
  }

  // What the program wrote before it ended is still in the terminal's buffer.
  void drain() {
    while (output_open_) {
      pollfd entry{master_.get(), POLLIN, 0};
      if (::poll(&entry, 1, 0) <= 0) return;
      from_container();
    }
  }

 private:
  static bool copy(int from, int to) {
    std::array<char, 8192> buffer{};
    const ssize_t count = read(from, buffer.data(), buffer.size());
    if (count < 0) return errno == EINTR || errno == EAGAIN;
    if (count == 0) return false;
    return sys::write_all(to, std::string_view(buffer.data(), static_cast<std::size_t>(count)), "terminal").has_value();
  }

  UniqueFd master_;
  RawTerminal raw_;
  bool output_open_ = true, input_open_ = true;
};

// Everything that a person or an engine may send us on purpose. SIGCHLD and those that the kernel sends for our own
// faults stay ours.
sigset_t handed_on() {
  sigset_t set;
  sigfillset(&set);
  for (const int signal :
       {SIGCHLD, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPIPE, SIGTTIN, SIGTTOU}) {
    sigdelset(&set, signal);
  }
  return set;
}

void hand_on(int signals, int pidfd, std::optional<Relay>& relay) {
  signalfd_siginfo info{};
  while (read(signals, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGWINCH && relay) {
      relay->resized();
    } else {
      (void)sys::pidfd_send_signal(pidfd, signal);
    }
  }
}

Result<sys::ExitStatus> reap(pid_t pid, rusage* usage) {
  sys::ExitStatus result;
  while (wait4(pid, &result.status, 0, usage) < 0) {
    if (errno != EINTR) return errno_error("wait for", "container process");
  }
  return result;
}

}  // namespace

Result<Foreground> Foreground::open() {
  const sigset_t set = handed_on();
  if (sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return errno_error("block signals");
  Foreground foreground;
  foreground.signals_.reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!foreground.signals_) return errno_error("signalfd");
  return foreground;
}

Result<sys::ExitStatus> Foreground::wait(pid_t pid, int pidfd, UniqueFd master, rusage* usage) {
  std::optional<Relay> relay;
  if (master) relay.emplace(std::move(master));
  while (true) {
    std::array<pollfd, 4> entries = {{{pidfd, POLLIN, 0},
                                      {signals_.get(), POLLIN, 0},
                                      {relay ? relay->master() : -1, POLLIN, 0},
                                      {relay ? relay->input() : -1, POLLIN, 0}}};
    if (poll(entries.data(), entries.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return errno_error("poll", "container process");
    }
    if (entries[1].revents != 0) hand_on(signals_.get(), pidfd, relay);
    if (entries[2].revents != 0) relay->from_container();
    if (entries[3].revents != 0) relay->to_container();
    if (entries[0].revents != 0) {
      if (relay) relay->drain();
      return reap(pid, usage);
    }
  }
}

}  // namespace agentrun::lifecycle
