// Reading and writing the files of one cgroup directory, with errors that name the file and what is missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace agentrun::sandbox {

// Writes `value` to `directory`/`file`. The error names both; where there is no such file it says which controller
// would have to be there.
Result<void> write_limit(const std::string& directory, std::string_view file, const std::string& value);

// While one is alive, write_limit notes what each file held before: an update that fails half way takes back what it
// has written. One at a time, in one thread.
class WriteJournal {
 public:
  WriteJournal();
  WriteJournal(const WriteJournal&) = delete;
  WriteJournal& operator=(const WriteJournal&) = delete;
  ~WriteJournal();

  void note(const std::string& path, std::string_view value);
  // The newest first. What cannot be put back is a notice.
  void undo();

 private:
  struct Entry {
    std::string path, before, written;
  };
  std::vector<Entry> entries_;
};

// What to write to get a limit file back to where it was, line by line: files with one value a device take one line at
// a time, and a device that had no line gets its limit lifted. Pure.
std::vector<std::string> lines_to_restore(std::string_view file, std::string_view before, std::string_view written);

bool has_file(const std::string& directory, std::string_view file);

// The number in a file; nothing where the file is missing or says "max". v1 writes "no limit" as a number near 2^63.
std::optional<std::uint64_t> read_number(const std::string& directory, std::string_view file);

// The number after `key` in a file of lines "key number" (memory.events, cpu.stat).
std::optional<std::uint64_t> find_number(std::string_view text, std::string_view key);

}  // namespace agentrun::sandbox
