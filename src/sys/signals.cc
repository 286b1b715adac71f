#include <signal.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/text.h"
#include "sys/process.h"

namespace agentrun::sys {
namespace {

struct Signal {
  const char* name;
  int number;
};

constexpr std::array<Signal, 34> kSignals = {{
    {"SIGHUP", SIGHUP},       {"SIGINT", SIGINT},     {"SIGQUIT", SIGQUIT}, {"SIGILL", SIGILL},
    {"SIGTRAP", SIGTRAP},     {"SIGABRT", SIGABRT},   {"SIGIOT", SIGIOT},   {"SIGBUS", SIGBUS},
    {"SIGFPE", SIGFPE},       {"SIGKILL", SIGKILL},   {"SIGUSR1", SIGUSR1}, {"SIGSEGV", SIGSEGV},
    {"SIGUSR2", SIGUSR2},     {"SIGPIPE", SIGPIPE},   {"SIGALRM", SIGALRM}, {"SIGTERM", SIGTERM},
    {"SIGSTKFLT", SIGSTKFLT}, {"SIGCHLD", SIGCHLD},   {"SIGCLD", SIGCHLD},  {"SIGCONT", SIGCONT},
    {"SIGSTOP", SIGSTOP},     {"SIGTSTP", SIGTSTP},   {"SIGTTIN", SIGTTIN}, {"SIGTTOU", SIGTTOU},
    {"SIGURG", SIGURG},       {"SIGXCPU", SIGXCPU},   {"SIGXFSZ", SIGXFSZ}, {"SIGVTALRM", SIGVTALRM},
    {"SIGPROF", SIGPROF},     {"SIGWINCH", SIGWINCH}, {"SIGIO", SIGIO},     {"SIGPOLL", SIGIO},
    {"SIGPWR", SIGPWR},       {"SIGSYS", SIGSYS},
}};

// The kernel's own numbers: glibc's SIGRTMIN leaves out the two that it keeps for itself, and engines count as it does.
constexpr int kHighest = 64;

std::optional<int> parse_realtime(std::string_view name) {
  const auto relative = [&](std::string_view base, int from, int sign) -> std::optional<int> {
    if (!name.starts_with(base)) return std::nullopt;
    std::string_view rest = name.substr(base.size());
    if (rest.empty()) return from;
    if (rest.front() != (sign > 0 ? '+' : '-')) return std::nullopt;
    const auto offset = text::parse_unsigned(rest.substr(1));
    if (!offset || *offset > 30) return std::nullopt;
    const int number = from + sign * static_cast<int>(*offset);
    if (number < SIGRTMIN || number > SIGRTMAX) return std::nullopt;
    return number;
  };
  if (const auto number = relative("SIGRTMIN", SIGRTMIN, 1)) return number;
  return relative("SIGRTMAX", SIGRTMAX, -1);
}

}  // namespace

std::optional<int> parse_signal(std::string_view text) {
  if (const auto number = text::parse_unsigned(text)) {
    if (*number > kHighest) return std::nullopt;
    return static_cast<int>(*number);
  }
  std::string name;
  for (const char c : text) name += (c >= 'a' && c <= 'z') ? static_cast<char>(c & ~0x20) : c;
  if (!name.starts_with("SIG")) name.insert(0, "SIG");
  const auto found = std::find_if(kSignals.begin(), kSignals.end(), [&](const Signal& s) { return name == s.name; });
  if (found != kSignals.end()) return found->number;
  return parse_realtime(name);
}

const char* signal_name(int signal) {
  const auto found =
      std::find_if(kSignals.begin(), kSignals.end(), [&](const Signal& s) { return signal == s.number; });
  return found != kSignals.end() ? found->name : "SIG?";
}

void reset_signals() {
  for (int signal = 1; signal <= kHighest; ++signal) {
    if (signal != SIGKILL && signal != SIGSTOP) ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace agentrun::sys
