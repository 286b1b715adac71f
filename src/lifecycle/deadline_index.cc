#include "lifecycle/deadline_index.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <string_view>

#include "base/text.h"
#include "sys/file.h"

namespace agentrun::lifecycle {
namespace {

constexpr const char* kDirectory = ".deadlines";
constexpr std::size_t kDigits = 19;  // of the largest 63-bit number

std::string entry_path(const std::string& id, std::int64_t at_us) {
  std::array<char, 32> number{};
  std::snprintf(number.data(), number.size(), "%0*" PRId64, static_cast<int>(kDigits), at_us);
  return std::string(kDirectory) + "/" + number.data() + "-" + id;
}

bool parse_entry(std::string_view name, IndexEntry& entry) {
  if (name.size() < kDigits + 2 || name[kDigits] != '-') return false;
  const auto at = text::parse_unsigned(name.substr(0, kDigits));
  if (!at || *at > static_cast<std::uint64_t>(INT64_MAX)) return false;
  entry.at_us = static_cast<std::int64_t>(*at);
  entry.id = std::string(name.substr(kDigits + 1));
  return true;
}

Result<std::vector<std::string>> list(int root) {
  auto names = sys::list_directory(root, kDirectory);
  if (!names && names.error().code == ENOENT) return std::vector<std::string>();
  return names;
}

}  // namespace

std::int64_t overdue_at(const Record& record) {
  if (record.deadline.at_us > 0) return record.deadline.at_us;
  if (record.started || record.deadline.created_us <= 0 || record.process.pid <= 0) return 0;
  // proc(5): the start time is in clock ticks since boot, suspended time included (Linux 5.5).
  const auto ticks_a_second = static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  const std::uint64_t started_us = record.process.start_time * (1'000'000 / ticks_a_second);
  return static_cast<std::int64_t>(started_us) + record.deadline.created_us;
}

Result<void> index_deadline(int root, const std::string& id, std::int64_t at_us) {
  const std::string path = entry_path(id, at_us);
  for (const bool retry : {false, true}) {
    const auto made = sys::open_at(root, path, O_WRONLY | O_CREAT | O_NOFOLLOW, 0600);
    if (made) return ok();
    if (retry || made.error().code != ENOENT) return made.error();
    const auto directory = sys::make_directory_at(root, kDirectory, 0700);
    if (!directory && directory.error().code != EEXIST) return directory.error();
  }
  return ok();
}

void unindex_deadline(int root, const std::string& id, std::int64_t at_us) {
  if (at_us > 0) unlinkat(root, entry_path(id, at_us).c_str(), 0);
}

void unindex_all(int root, const std::string& id) {
  const auto names = list(root);
  if (!names) return;
  for (const std::string& name : *names) {
    IndexEntry entry;
    if (parse_entry(name, entry) && entry.id == id) unindex_deadline(root, id, entry.at_us);
  }
}

Result<std::vector<IndexEntry>> overdue_entries(int root, std::int64_t now_us) {
  std::vector<IndexEntry> overdue;
  for (const std::string& name : TRY(list(root))) {
    IndexEntry entry;
    if (parse_entry(name, entry) && entry.at_us <= now_us) overdue.push_back(std::move(entry));
  }
  return overdue;
}

}  // namespace agentrun::lifecycle
