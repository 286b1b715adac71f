// Reading and writing the files of one cgroup directory, with errors that name the file and what is missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace agentrun::sandbox {

// Writes `value` to `directory`/`file`. The error names both; where there is no such file it says which controller
// would have to be there.
Result<void> write_limit(const std::string& directory, std::string_view file, const std::string& value);

bool has_file(const std::string& directory, std::string_view file);

// The number in a file; nothing where the file is missing or says "max". v1 writes "no limit" as a number near 2^63.
std::optional<std::uint64_t> read_number(const std::string& directory, std::string_view file);

// The number after `key` in a file of lines "key number" (memory.events, cpu.stat).
std::optional<std::uint64_t> find_number(std::string_view text, std::string_view key);

}  // namespace agentrun::sandbox
