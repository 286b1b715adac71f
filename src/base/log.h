// Where errors and notices go. With a log file in JSON the engine parses the whole file with one call, so
// it holds exactly one object: the failure. Nothing is ever written to stderr on success: fd 2 belongs to the
// container's own log from the moment that an engine calls create.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace agentrun::log {

enum class Level { error, warning, info, debug };
enum class Format { text, json };

// The process-wide sink. `file` empty: standard error. The file is created and truncated when something is first
// written to it (an engine keeps the file between calls: a second object in it breaks its parser).
struct Sink {
  std::string file;
  Format format = Format::text;
  Level level = Level::error;
};

Result<void> open(Sink sink);

// The one line of a failed command.
void failure(const Error& error);

// Lines of --log-level warning and finer; dropped where the level is coarser.
void write(Level level, std::string_view message);

// No line is written from here on. For a process that enters a container: the path of the log file would be looked up
// in the container's root, where a symlink of the image decides what is created or cut off.
void silence();

Result<Level> parse_level(std::string_view text);
Result<Format> parse_format(std::string_view text);

}  // namespace agentrun::log
