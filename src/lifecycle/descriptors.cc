#include "lifecycle/descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/text.h"

namespace agentrun::lifecycle {
namespace {

Result<unsigned> announced() {
  const char* text = std::getenv("LISTEN_FDS");
  if (text == nullptr || *text == '\0') return 0U;
  const char* pid = std::getenv("LISTEN_PID");
  if (pid != nullptr && text::parse_unsigned(pid) != static_cast<std::uint64_t>(getpid())) return 0U;
  const auto count = text::parse_unsigned(text);
  if (!count || *count > INT_MAX) return refusal("pass on", "LISTEN_FDS=" + std::string(text), "not a number");
  return static_cast<unsigned>(*count);
}

// Everything of our own is close-on-exec, and what came through the caller's execve is not.
bool is_callers(std::uint64_t fd) {
  const int flags = fcntl(static_cast<int>(fd), F_GETFD);
  return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

}  // namespace

Result<Descriptors> passed_descriptors(unsigned preserve_fds) {
  Descriptors passed;
  passed.listen = TRY(announced());
  const std::uint64_t count = std::uint64_t{passed.listen} + preserve_fds;
  for (std::uint64_t fd = 3; fd < 3 + count; ++fd) {
    if (fd <= INT_MAX && is_callers(fd)) continue;
    const std::string option = fd - 3 < passed.listen ? "LISTEN_FDS=" + std::to_string(passed.listen)
                                                      : "--preserve-fds " + std::to_string(preserve_fds);
    return refusal("pass on", option, "descriptor " + std::to_string(fd) + " is not open");
  }
  passed.count = static_cast<unsigned>(count);
  return passed;
}

}  // namespace agentrun::lifecycle
