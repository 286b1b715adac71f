#include "sandbox/cgroup_file.h"

#include <unistd.h>

#include <cerrno>

#include "base/text.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

std::string path_of_file(const std::string& directory, std::string_view file) {
  std::string path = directory;
  path += '/';
  path += file;
  return path;
}

}  // namespace

Result<void> write_limit(const std::string& directory, std::string_view file, const std::string& value) {
  const std::string path = path_of_file(directory, file);
  auto written = sys::write_file(path, value);
  if (written) return ok();
  Error error = std::move(written).error();
  if (error.code == ENOENT) {
    error.operation = "set";
    error.reason = "no such file: the kernel or this cgroup's parent does not offer it (controller \"" +
                   std::string(file.substr(0, file.find('.'))) + "\")";
  } else {
    error.operation = "write \"" + value + "\" to";
  }
  return error;
}

bool has_file(const std::string& directory, std::string_view file) {
  return access(path_of_file(directory, file).c_str(), F_OK) == 0;
}

std::optional<std::uint64_t> read_number(const std::string& directory, std::string_view file) {
  const auto content = sys::read_file(path_of_file(directory, file));
  if (!content) return std::nullopt;
  return text::parse_unsigned(text::trim(*content));
}

std::optional<std::uint64_t> find_number(std::string_view text, std::string_view key) {
  for (const std::string_view line : text::split(text, '\n')) {
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
      return text::parse_unsigned(text::trim(line.substr(key.size() + 1)));
    }
  }
  return std::nullopt;
}

}  // namespace agentrun::sandbox
