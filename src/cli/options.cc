#include "cli/options.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/text.h"

namespace agentrun::cli {
namespace {

bool is_help(std::string_view argument) { return argument == "--help" || argument == "-h" || argument == "-help"; }

// Levenshtein's distance, one row at a time.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t d = distance(word.substr(0, 64), candidate);
    if (d < best_distance) {
      best_distance = d;
      best = candidate;
    }
  }
  return best;
}

// Where parsing is, and what it found.
struct OptionParser::Cursor {
  const std::vector<std::string>& arguments;
  std::size_t next = 0;
};

OptionParser::OptionParser(std::string name, std::string operands, std::string summary, Order order)
    : name_(std::move(name)), operands_text_(std::move(operands)), summary_(std::move(summary)), order_(order) {}

OptionParser& OptionParser::add(std::string_view names, std::string argument,
                                std::function<Result<void>(std::string_view)> set, std::string help) {
  Option option;
  const std::size_t comma = names.find(',');
  option.name = names.substr(0, comma);
  if (comma != std::string_view::npos) option.letter = names[comma + 1];
  option.argument = std::move(argument);
  option.help = std::move(help);
  option.set = std::move(set);
  options_.push_back(std::move(option));
  return *this;
}

OptionParser& OptionParser::flag(std::string_view names, bool& target, std::string help) {
  return add(
      names, {},
      [&target](std::string_view value) {
        target = value == "true";
        return ok();
      },
      std::move(help));
}

OptionParser& OptionParser::text(std::string_view names, std::string argument, std::string& target, std::string help) {
  return add(
      names, std::move(argument),
      [&target](std::string_view value) {
        target = value;
        return ok();
      },
      std::move(help));
}

OptionParser& OptionParser::list(std::string_view names, std::string argument, std::vector<std::string>& target,
                                 std::string help) {
  return add(
      names, std::move(argument),
      [&target](std::string_view value) {
        target.emplace_back(value);
        return ok();
      },
      std::move(help));
}

OptionParser& OptionParser::number(std::string_view names, unsigned& target, std::string help) {
  return add(
      names, "N",
      [&target](std::string_view value) -> Result<void> {
        const auto parsed = text::parse_unsigned(value);
        if (!parsed || *parsed > std::numeric_limits<unsigned>::max()) {
          return refusal("", "", "not a number: " + std::string(value));
        }
        target = static_cast<unsigned>(*parsed);
        return ok();
      },
      std::move(help));
}

OptionParser& OptionParser::value(std::string_view names, std::string argument,
                                  std::function<Result<void>(std::string_view)> set, std::string help) {
  return add(names, std::move(argument), std::move(set), std::move(help));
}

OptionParser& OptionParser::ignored(std::string_view names, std::string argument) {
  return add(names, std::move(argument), [](std::string_view) { return ok(); }, {});
}

OptionParser& OptionParser::operands(std::size_t least, std::size_t most) {
  least_ = least;
  most_ = most;
  return *this;
}

const OptionParser::Option* OptionParser::find(std::string_view name) const {
  const auto found = std::find_if(options_.begin(), options_.end(), [&](const Option& o) { return o.name == name; });
  return found == options_.end() ? nullptr : &*found;
}

const OptionParser::Option* OptionParser::find(char letter) const {
  const auto found = std::find_if(options_.begin(), options_.end(),
                                  [&](const Option& o) { return o.letter == letter && letter != 0; });
  return found == options_.end() ? nullptr : &*found;
}

Error OptionParser::unknown(std::string_view shown, std::string_view name) const {
  std::vector<std::string> names{"help"};
  for (const Option& option : options_) {
    if (!option.help.empty()) names.push_back(option.name);
  }
  const std::string near = name.size() > 1 ? nearest(name, names) : std::string();
  return refusal(name_, std::string(shown),
                 "unknown option" + (near.empty() ? near : "; did you mean --" + near + "?"));
}

Result<void> OptionParser::apply(const Option& option, std::string_view shown, std::string_view value) const {
  if (option.argument.empty() && value != "true" && value != "false") {
    return refusal(name_, std::string(shown), "takes no argument");
  }
  Result<void> result = option.set(value);
  if (result.has_error()) {
    Error error = std::move(result).error();
    return refusal(name_, std::string(shown), error.message());
  }
  return ok();
}

// "name", "name=value"; `body` is without its dashes. The value may be the next argument, whatever that looks like.
Result<void> OptionParser::read_long(Cursor& cursor, std::string_view body) const {
  const std::size_t equals = body.find('=');
  const std::string_view name = body.substr(0, equals);
  const std::string shown = "--" + std::string(name);
  const Option* option = find(name);
  if (option == nullptr) return unknown(shown, name);
  if (equals != std::string_view::npos) return apply(*option, shown, body.substr(equals + 1));
  if (option->argument.empty()) return apply(*option, shown, "true");
  if (cursor.next == cursor.arguments.size()) return refusal(name_, shown, "requires an argument");
  return apply(*option, shown, cursor.arguments[cursor.next++]);
}

Result<void> OptionParser::read_letters(Cursor& cursor, std::string_view letters) const {
  while (!letters.empty()) {
    const std::string shown = std::string("-") + letters.front();
    const Option* option = find(letters.front());
    if (option == nullptr) return unknown(shown, letters.substr(0, 1));
    letters.remove_prefix(1);
    if (option->argument.empty()) {
      TRY(apply(*option, shown, "true"));
      continue;
    }
    if (letters.starts_with('=')) letters.remove_prefix(1);
    if (!letters.empty()) return apply(*option, shown, letters);
    if (cursor.next == cursor.arguments.size()) return refusal(name_, shown, "requires an argument");
    return apply(*option, shown, cursor.arguments[cursor.next++]);
  }
  return ok();
}

Result<void> OptionParser::check_operands(const std::vector<std::string>& operands) const {
  if (operands.size() < least_) {
    return refusal(name_, "", "needs " + operands_text_ + "; see agentrun " + name_ + " --help");
  }
  if (operands.size() > most_) return refusal(name_, operands[most_], "one argument too many");
  return ok();
}

Result<OptionParser::Parsed> OptionParser::parse(const std::vector<std::string>& arguments) const {
  Parsed parsed;
  Cursor cursor{arguments};
  while (cursor.next < arguments.size()) {
    const std::string_view argument = arguments[cursor.next];
    if (argument == "--") {
      ++cursor.next;
      break;
    }
    if (argument.size() < 2 || argument.front() != '-') {
      if (order_ == Order::before_operand) break;
      parsed.operands.emplace_back(argument);
      ++cursor.next;
      continue;
    }
    if (is_help(argument)) {
      parsed.help = true;
      return parsed;
    }
    ++cursor.next;
    if (argument.starts_with("--")) {
      TRY(read_long(cursor, argument.substr(2)));
      continue;
    }
    const std::string_view body = argument.substr(1);
    const bool go_style =
        body.size() > 1 && (find(body.substr(0, body.find('='))) != nullptr || find(body.front()) == nullptr);
    if (go_style) {
      TRY(read_long(cursor, body));
    } else {
      TRY(read_letters(cursor, body));
    }
  }
  parsed.consumed = cursor.next;
  parsed.operands.insert(parsed.operands.end(), arguments.begin() + static_cast<std::ptrdiff_t>(cursor.next),
                         arguments.end());
  TRY(check_operands(parsed.operands));
  return parsed;
}

std::string OptionParser::help() const {
  std::string text = "Usage: agentrun " + (name_.empty() ? "[OPTION...]" : name_ + " [OPTION...]");
  if (!operands_text_.empty()) text += ' ' + operands_text_;
  text += "\n\n" + summary_ + "\n\nOptions:\n";
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Option& option : options_) {
    if (option.help.empty()) continue;
    std::string left = option.letter != 0 ? std::string("  -") + option.letter + ", " : std::string("      ");
    left += "--" + option.name;
    if (!option.argument.empty()) left += ' ' + option.argument;
    lines.emplace_back(std::move(left), option.help);
  }
  lines.emplace_back("  -h, --help", "show this");
  std::size_t width = 0;
  for (const auto& [left, right] : lines) width = std::max(width, left.size());
  for (const auto& [left, right] : lines) text += left + std::string(width - left.size() + 2, ' ') + right + '\n';
  return text;
}

}  // namespace agentrun::cli
