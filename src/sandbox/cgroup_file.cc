#include "sandbox/cgroup_file.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/log.h"
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

WriteJournal* journal = nullptr;

// The word before the first space: "8:0" of "8:0 rbps=1".
std::string_view key_of(std::string_view line) { return line.substr(0, line.find(' ')); }

// "8:0", or the name of an RDMA device: what has a line of its own in the file.
bool is_by_device(std::string_view file) {
  return file == "io.max" || file == "rdma.max" || file.find("_device") != std::string_view::npos;
}

// The line that takes a device's limit away.
std::string lifted(std::string_view file, std::string_view device) {
  const std::string name(device);
  if (file == "io.max") return name + " rbps=max wbps=max riops=max wiops=max";
  if (file == "rdma.max") return name + " hca_handle=max hca_object=max";
  return name + " 0";
}

}  // namespace

std::vector<std::string> lines_to_restore(std::string_view file, std::string_view before, std::string_view written) {
  std::vector<std::string> lines;
  if (file == "memory.oom_control") {  // reads as "oom_kill_disable 0", and more
    const auto disabled = find_number(before, "oom_kill_disable");
    if (disabled) lines.push_back(std::to_string(*disabled));
    return lines;
  }
  if (!is_by_device(file) && file != "io.weight" && file != "net_prio.ifpriomap") {
    return {std::string(text::trim(before)) + "\n"};
  }
  const std::string_view key = key_of(text::trim(written));
  bool found = false;
  for (const std::string_view line : text::split(before, '\n')) {
    if (text::trim(line).empty() || key_of(line) != key) continue;
    lines.emplace_back(text::trim(line));
    found = true;
  }
  if (!found && is_by_device(file)) lines.push_back(lifted(file, key));
  return lines;
}

WriteJournal::WriteJournal() { journal = this; }
WriteJournal::~WriteJournal() { journal = nullptr; }

void WriteJournal::note(const std::string& path, std::string_view value) {
  if (auto before = sys::read_file(path)) entries_.push_back({path, std::move(*before), std::string(value)});
}

void WriteJournal::undo() {
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    const std::string file = entry->path.substr(entry->path.rfind('/') + 1);
    for (const std::string& line : lines_to_restore(file, entry->before, entry->written)) {
      const auto written = sys::write_file(entry->path, line);
      if (!written) log::write(log::Level::warning, "put back " + entry->path + ": " + written.error().message());
    }
  }
  entries_.clear();
}

Result<void> write_limit(const std::string& directory, std::string_view file, const std::string& value) {
  const std::string path = path_of_file(directory, file);
  if (journal != nullptr) journal->note(path, value);
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
