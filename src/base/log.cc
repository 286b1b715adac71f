#include "base/log.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/clock.h"
#include "base/text.h"

namespace agentrun::log {
namespace {

// What `open` was given, and the file once something was written to it.
struct State {
  Sink sink;
  UniqueFd file;
  bool opened = false;
  bool failed = false;  // the one object of a JSON file is there
  bool silent = false;
};

State& state() {
  static State instance;
  return instance;
}

const char* name_of(Level level) {
  switch (level) {
    case Level::error:
      return "error";
    case Level::warning:
      return "warning";
    case Level::info:
      return "info";
    case Level::debug:
      return "debug";
  }
  return "error";
}

// `message` went through text::printable: it is valid UTF-8 without control characters, so only two characters are left
// that JSON wants escaped.
std::string json_string(std::string_view message) {
  std::string quoted = "\"";
  for (const char byte : message) {
    if (byte == '"' || byte == '\\') quoted += '\\';
    quoted += byte;
  }
  return quoted + '"';
}

std::string json_line(Level level, std::string_view message) {
  return "{\"msg\":" + json_string(message) + ",\"level\":\"" + name_of(level) + "\",\"time\":\"" +
         clock::rfc3339_now() + "\"}\n";
}

std::string text_line(Level level, std::string_view message) {
  return clock::rfc3339_now() + ' ' + name_of(level) + ": " + std::string(message) + '\n';
}

// Nobody is left to tell of a failure of the log itself.
void put(int fd, std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(fd, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    line.remove_prefix(static_cast<std::size_t>(written));
  }
}

// O_NONBLOCK: the file may be a FIFO of an engine that has nobody at its other end, which must not hang the command.
int log_file() {
  State& now = state();
  if (!now.opened) {
    now.opened = true;
    now.file.reset(
        ::open(now.sink.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644));
  }
  return now.file.get();
}

}  // namespace

Result<void> open(Sink sink) {
  constexpr std::string_view kFilePrefix = "file:";
  for (const std::string_view backend : {"journald:", "syslog:"}) {
    if (sink.file.starts_with(backend)) return refusal("--log", sink.file, "only files can be logged to; give a path");
  }
  if (sink.file.starts_with(kFilePrefix)) sink.file.erase(0, kFilePrefix.size());
  if (!sink.file.empty() && sink.file.front() != '/') {
    // The working directory may be another by the time that something fails.
    std::array<char, PATH_MAX> here{};
    if (::getcwd(here.data(), here.size()) == nullptr) return errno_error("getcwd");
    sink.file = std::string(here.data()) + '/' + sink.file;
  }
  state() = State{std::move(sink), UniqueFd(), false, false, false};
  return ok();
}

void failure(const Error& error) {
  State& now = state();
  const std::string message = error.message();
  if (!now.sink.file.empty() && !(now.sink.format == Format::json && now.failed)) {
    const int file = log_file();
    put(file, now.sink.format == Format::json ? json_line(Level::error, message) : text_line(Level::error, message));
  }
  now.failed = true;
  if (now.sink.file.empty() && now.sink.format == Format::json) {
    put(STDERR_FILENO, json_line(Level::error, message));
  } else {
    put(STDERR_FILENO, "agentrun: " + message + '\n');
  }
}

void write(Level level, std::string_view message) {
  const State& now = state();
  if (now.silent || level > now.sink.level) return;
  const std::string printable = text::printable(message);
  if (now.sink.file.empty()) {
    put(STDERR_FILENO, now.sink.format == Format::json ? json_line(level, printable) : text_line(level, printable));
  } else if (now.sink.format == Format::text) {
    put(log_file(), text_line(level, printable));
  }
  // A JSON file is for the failure alone: a second object in it and the engine understands neither.
}

void silence() {
  state().file.reset();
  state().silent = true;
}

Result<Level> parse_level(std::string_view text) {
  const std::string lower = text::to_lower(text);
  if (lower == "error" || lower == "fatal" || lower == "panic") return Level::error;
  if (lower == "warning" || lower == "warn") return Level::warning;
  if (lower == "info") return Level::info;
  if (lower == "debug" || lower == "trace") return Level::debug;
  return refusal("--log-level", std::string(text), "must be error, warning, info or debug");
}

Result<Format> parse_format(std::string_view text) {
  if (text == "text") return Format::text;
  if (text == "json") return Format::json;
  return refusal("--log-format", std::string(text), "must be text or json");
}

}  // namespace agentrun::log
