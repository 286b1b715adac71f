#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "cli/commands.h"
#include "lifecycle/control.h"
#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::cli {
namespace {

constexpr std::size_t kColumns = 8;
using Row = std::array<std::string, kColumns>;

std::string clock_text(const char* format, std::int64_t seconds) {
  const time_t when = static_cast<time_t>(seconds);
  tm local{};
  localtime_r(&when, &local);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), format, &local);
  return text.data();
}

// proc(5): tty_nr is major and minor of the terminal.
std::string terminal_name(std::uint64_t number) {
  if (number == 0) return "?";
  const unsigned major_number = (number >> 8) & 0xfff;
  const unsigned minor_number = static_cast<unsigned>((number & 0xff) | ((number >> 12) & 0xfff00));
  if (major_number >= 136 && major_number <= 143)
    return "pts/" + std::to_string((major_number - 136) * 256 + minor_number);
  return std::to_string(major_number) + ":" + std::to_string(minor_number);
}

std::string command_line(const std::string& directory, std::string_view name) {
  auto text = sys::read_file(directory + "/cmdline", 1u << 20);
  if (text.has_error() || text->empty()) return '[' + text::printable(name) + ']';
  std::string line = *text;
  while (!line.empty() && line.back() == '\0') line.pop_back();
  std::replace(line.begin(), line.end(), '\0', ' ');
  return text::printable(line);
}

// The columns of `ps -ef`; nothing where the process has just ended.
std::optional<Row> describe(pid_t pid) {
  const std::string directory = "/proc/" + std::to_string(pid);
  const auto stat = sys::read_file(directory + "/stat");
  const auto owner = sys::open(directory, O_PATH | O_DIRECTORY);
  if (stat.has_error() || owner.has_error()) return std::nullopt;
  const auto attributes = sys::stat_fd(owner->get(), directory);
  // The name is in parentheses and may hold anything, parentheses too: fields are counted from the last one.
  const std::size_t open = stat->find('('), close = stat->rfind(')');
  if (attributes.has_error() || open == std::string::npos || close == std::string::npos) return std::nullopt;
  const auto fields = text::split_words(std::string_view(*stat).substr(close + 1));
  if (fields.size() < 20) return std::nullopt;
  const auto field = [&](std::size_t number) {  // as proc(5) counts them, from 3 on
    return text::parse_unsigned(fields[number - 3]).value_or(0);
  };
  const std::int64_t ticks = std::max(sysconf(_SC_CLK_TCK), 1L);
  const std::int64_t used = static_cast<std::int64_t>(field(14) + field(15)) / ticks;
  const std::int64_t age = clock::boottime_us() / 1'000'000 - static_cast<std::int64_t>(field(22)) / ticks;
  std::array<char, 32> time{};
  std::snprintf(time.data(), time.size(), "%02lld:%02d:%02d", static_cast<long long>(used / 3600),
                static_cast<int>(used / 60 % 60), static_cast<int>(used % 60));
  return Row{std::to_string(attributes->st_uid),
             std::to_string(pid),
             std::to_string(field(4)),
             std::to_string(std::min<std::int64_t>(99, used * 100 / std::max<std::int64_t>(age, 1))),
             clock_text("%H:%M", clock::realtime_us() / 1'000'000 - age),
             terminal_name(field(7)),
             time.data(),
             command_line(directory, std::string_view(*stat).substr(open + 1, close - open - 1))};
}

std::string as_table(const std::vector<pid_t>& pids) {
  std::vector<Row> rows{{"UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD"}};
  for (const pid_t pid : pids) {
    if (auto row = describe(pid)) rows.push_back(std::move(*row));
  }
  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string table;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i + 1 < kColumns; ++i) table += row[i] + std::string(widths[i] - row[i].size() + 1, ' ');
    table += row.back() + '\n';
  }
  return table;
}

// What ps(1) of the host prints with `options`: its whole output.
Result<std::string> run_ps(std::vector<std::string> options) {
  std::vector<char*> arguments;
  options.insert(options.begin(), "ps");
  for (std::string& option : options) arguments.push_back(option.data());
  arguments.push_back(nullptr);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error("pipe");
  UniqueFd out(ends[0]), in(ends[1]);
  const pid_t child = TRY(sys::fork_running([&] {
    if (dup2(in.get(), STDOUT_FILENO) < 0) return 1;
    execvp("ps", arguments.data());
    return 127;
  }));
  in.reset();
  auto text = sys::read_fd(out.get(), "output of ps", 64u << 20);
  const int code = TRY(sys::wait_process(child)).code();
  if (code == 127) return refusal("run", "ps", "not installed (package procps)");
  if (code != 0) return refusal("run", "ps", "it refuses these options");
  return text;
}

// The lines of ps(1) whose column PID names one of `pids`, and the heading.
Result<std::string> chosen_lines(const std::string& output, const std::vector<pid_t>& pids) {
  const auto lines = text::split(output, '\n');
  const auto titles = text::split_words(lines[0]);
  const auto column = std::find(titles.begin(), titles.end(), "PID");
  if (column == titles.end()) return refusal("run", "ps", "its output with these options has no column PID");
  const auto position = static_cast<std::size_t>(column - titles.begin());
  std::string chosen = std::string(lines[0]) + '\n';
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto words = text::split_words(lines[i]);
    const auto pid = words.size() > position ? text::parse_signed(words[position]) : std::nullopt;
    if (pid && std::find(pids.begin(), pids.end(), *pid) != pids.end()) chosen += text::printable(lines[i]) + '\n';
  }
  return chosen;
}

// `ps ID --format json` is understood as well as `ps --format json ID`; whatever else follows the id is for ps(1).
void take_format(std::vector<std::string>& options, std::string& format) {
  constexpr std::string_view kLong = "--format";
  if (options.size() == 2 && options[0] == kLong) {
    format = options[1];
    options.clear();
  } else if (options.size() == 1 && options[0].starts_with("--format=")) {
    format = options[0].substr(kLong.size() + 1);
    options.clear();
  }
}

}  // namespace

Result<int> ps_command(const Invocation& call) {
  std::string format = "table";
  OptionParser parser("ps", "ID [OPTION-OF-PS...]",
                      "List the processes of a container, with their pids on the host. Options after the id are "
                      "those of ps(1), which is run then.",
                      Order::before_operand);
  parser.text("format,f", "table|json", format, "how to print; json is an array of pids (default: table)");
  const auto parsed = TRY(parser.operands(1).parse(call.arguments));
  if (parsed.help) return print(parser.help());
  std::vector<std::string> options(parsed.operands.begin() + 1, parsed.operands.end());
  take_format(options, format);
  if (format != "table" && format != "json") return refusal("ps --format", format, "must be table or json");
  if (format == "json" && !options.empty()) {
    return refusal("ps", options[0], "options of ps(1) have no meaning for --format json");
  }

  const std::vector<pid_t> pids = TRY(lifecycle::processes(call.global, parsed.operands[0]));
  if (!options.empty()) return print(TRY(chosen_lines(TRY(run_ps(std::move(options))), pids)));
  if (format == "table") return print(as_table(pids));
  std::vector<std::string> numbers;
  for (const pid_t pid : pids) numbers.push_back(std::to_string(pid));
  return print('[' + text::join(numbers, ",") + "]\n");
}

}  // namespace agentrun::cli
