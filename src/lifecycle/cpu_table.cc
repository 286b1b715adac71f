#include "lifecycle/cpu_table.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "lifecycle/lock.h"
#include "sandbox/affinity.h"
#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

constexpr const char* kTable = ".cpus";
constexpr std::int64_t kLockWait = 2'000'000;  // microseconds; the lock is held for less than one of a thousand
constexpr std::size_t kMostBytes = 1u << 20;

struct Table {
  std::map<unsigned, unsigned> uses;
  std::optional<unsigned> last;
  std::string lines;  // those of living processes
};

std::optional<unsigned> parse_cpu(std::string_view word) {
  const auto number = text::parse_unsigned(word);
  if (!number || *number > 0xffff) return std::nullopt;
  return static_cast<unsigned>(*number);
}

// Cheap first: most that are gone are known by their number alone.
bool lives(pid_t pid, std::uint64_t start_time) {
  if (kill(pid, 0) != 0 && errno == ESRCH) return false;
  const auto now = sys::start_time(pid);
  return now && *now == start_time;
}

// A line that a crash cut short counts for nothing.
void read_line(std::string_view line, Table& table) {
  const auto words = text::split_words(line);
  if (words.size() == 2 && words[0] == "last") table.last = parse_cpu(words[1]);
  if (words.size() != 3) return;
  const auto pid = text::parse_unsigned(words[0]);
  const auto start_time = text::parse_unsigned(words[1]);
  if (!pid || !start_time || *pid == 0 || *pid > 0x7fffffff) return;
  std::vector<unsigned> cpus;
  for (const std::string_view word : text::split(words[2], ',')) {
    const auto cpu = parse_cpu(word);
    if (!cpu) return;
    cpus.push_back(*cpu);
  }
  if (!lives(static_cast<pid_t>(*pid), *start_time)) return;
  for (const unsigned cpu : cpus) ++table.uses[cpu];
  table.lines += std::string(line) + "\n";
}

Table read_table(int file) {
  Table table;
  const auto all = sys::read_fd(file, kTable, kMostBytes);
  if (!all) return table;
  for (const std::string_view line : text::split(*all, '\n')) read_line(line, table);
  return table;
}

Result<void> write_table(int file, const std::string& text) {
  if (ftruncate(file, 0) != 0 || lseek(file, 0, SEEK_SET) != 0) return errno_error("write", kTable);
  return sys::write_all(file, text, kTable);
}

Result<UniqueFd> open_locked(int directory) {
  UniqueFd file = TRY(sys::open_at(directory, kTable, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600));
  TRY(take_lock(file.get(), kTable, kLockWait));
  return file;
}

std::string join(const std::vector<unsigned>& cpus) {
  std::vector<std::string> words;
  for (const unsigned cpu : cpus) words.push_back(std::to_string(cpu));
  return text::join(words, ",");
}

}  // namespace

Result<void> narrow_affinity_in(int directory, pid_t pid, std::int64_t width) {
  const std::vector<unsigned> allowed = TRY(sandbox::cpus_of(pid));
  if (width < 1 || static_cast<std::uint64_t>(width) >= allowed.size()) return ok();
  const auto file = open_locked(directory);
  if (!file)
    log::write(log::Level::warning, "CPUs are chosen without regard to other containers: " + file.error().message());
  const Table table = file ? read_table(file->get()) : Table{};
  // Where there is no table yet, or none to be had, begin somewhere.
  const unsigned last = table.last.value_or(allowed[static_cast<std::size_t>(pid) % allowed.size()]);
  const std::vector<unsigned> chosen = sandbox::least_used(allowed, static_cast<std::size_t>(width), table.uses, last);
  TRY(sandbox::set_cpus_of(pid, chosen));
  if (!file) return ok();
  const std::string line = std::to_string(pid) + " " + std::to_string(TRY(sys::start_time(pid))) + " " + join(chosen);
  const auto written =
      write_table(file->get(), "last " + std::to_string(chosen.back()) + "\n" + table.lines + line + "\n");
  if (!written) log::write(log::Level::warning, "CPUs of this container are not counted: " + written.error().message());
  return ok();
}

Result<void> narrow_affinity(const Store& store, pid_t pid, std::int64_t width) {
  // A default root of another user would hand him our choice of CPUs.
  const auto home = sys::open(default_root(), O_RDONLY | O_DIRECTORY);
  if (home) {
    const struct stat status = TRY(sys::stat_fd(home->get(), default_root()));
    if (status.st_uid == geteuid() && (status.st_mode & 022) == 0) return narrow_affinity_in(home->get(), pid, width);
  }
  return narrow_affinity_in(store.directory(), pid, width);
}

}  // namespace agentrun::lifecycle
