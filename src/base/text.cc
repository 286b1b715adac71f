#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <limits>

namespace agentrun::text {
namespace {

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  if (text.empty()) return std::nullopt;
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 10);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

struct Unit {
  std::string_view name;
  std::int64_t microseconds;
};

// Largest first: the order in which they may stand.
constexpr std::array<Unit, 6> kUnits = {{
    {"d", 86'400'000'000},
    {"h", 3'600'000'000},
    {"m", 60'000'000},
    {"s", 1'000'000},
    {"ms", 1'000},
    {"us", 1},
}};

Error bad(const char* what, std::string_view text, const char* reason) {
  return refusal(what, "\"" + std::string(text.substr(0, 64)) + "\"", reason);
}

// The value of "12.345" times 10^digits; nothing where it is no such number or has more digits after the point.
std::optional<std::int64_t> parse_fixed(std::string_view text, int digits) {
  const auto point = text.find('.');
  const auto whole = parse_unsigned(text.substr(0, point));
  if (!whole) return std::nullopt;
  std::uint64_t fraction = 0;
  if (point != std::string_view::npos) {
    const std::string_view part = text.substr(point + 1);
    if (part.empty() || part.size() > static_cast<std::size_t>(digits)) return std::nullopt;
    const auto parsed = parse_unsigned(part);
    if (!parsed) return std::nullopt;
    fraction = *parsed;
    for (std::size_t i = part.size(); i < static_cast<std::size_t>(digits); ++i) fraction *= 10;
  }
  std::int64_t value = 0;
  std::int64_t scale = 1;
  for (int i = 0; i < digits; ++i) scale *= 10;
  if (*whole > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  if (__builtin_mul_overflow(static_cast<std::int64_t>(*whole), scale, &value)) return std::nullopt;
  if (__builtin_add_overflow(value, static_cast<std::int64_t>(fraction), &value)) return std::nullopt;
  return value;
}

// Length of the valid UTF-8 sequence at the start of `text`, 0 where there is none (RFC 3629).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 && first <= 0xF4  ? 4
                             : first >= 0xE0                 ? 3
                             : first >= 0xC2 && first < 0xE0 ? 2
                                                             : 0;
  if (length == 0 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

}  // namespace

std::optional<std::uint64_t> parse_unsigned(std::string_view text) { return parse_number<std::uint64_t>(text); }

std::optional<std::int64_t> parse_signed(std::string_view text) {
  if (text == "-0") return std::nullopt;
  return parse_number<std::int64_t>(text);
}

Result<std::int64_t> parse_duration(std::string_view text) {
  constexpr const char* kWhat = "parse duration";
  constexpr const char* kForm = "expected a form like 90s, 10m or 1h30m";
  std::int64_t total = 0;
  std::size_t next_unit = 0;
  std::string_view rest = text;
  if (rest.empty()) return bad(kWhat, text, kForm);
  while (!rest.empty()) {
    const auto number_end = std::find_if_not(rest.begin(), rest.end(), is_digit);
    const auto number = parse_unsigned(rest.substr(0, static_cast<std::size_t>(number_end - rest.begin())));
    if (!number) return bad(kWhat, text, kForm);
    rest.remove_prefix(static_cast<std::size_t>(number_end - rest.begin()));
    const auto unit_end = std::find_if(rest.begin(), rest.end(), is_digit);
    const std::string_view name = rest.substr(0, static_cast<std::size_t>(unit_end - rest.begin()));
    rest.remove_prefix(name.size());
    const auto unit = std::find_if(kUnits.begin() + static_cast<std::ptrdiff_t>(next_unit), kUnits.end(),
                                   [&](const Unit& u) { return u.name == name; });
    if (unit == kUnits.end()) return bad(kWhat, text, kForm);
    next_unit = static_cast<std::size_t>(unit - kUnits.begin()) + 1;
    std::int64_t part = 0;
    if (*number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
        __builtin_mul_overflow(static_cast<std::int64_t>(*number), unit->microseconds, &part) ||
        __builtin_add_overflow(total, part, &total)) {
      return bad(kWhat, text, "out of range");
    }
  }
  return total;
}

std::string print_duration(std::int64_t microseconds) {
  if (microseconds <= 0) return "0s";
  std::string result;
  for (const Unit& unit : kUnits) {
    if (microseconds < unit.microseconds) continue;
    result += std::to_string(microseconds / unit.microseconds);
    result += unit.name;
    microseconds %= unit.microseconds;
  }
  return result;
}

Result<std::int64_t> parse_size(std::string_view text) {
  constexpr const char* kWhat = "parse size";
  constexpr const char* kForm = "expected a form like 512M or 2G";
  std::string_view number = text;
  if (number.ends_with("iB")) {
    number.remove_suffix(2);
  } else if (number.ends_with('B') || number.ends_with('b')) {
    number.remove_suffix(1);
  }
  std::int64_t unit = 1;
  if (!number.empty() && !is_digit(number.back())) {
    constexpr std::string_view kLetters = "kmgt";
    const auto letter = kLetters.find(static_cast<char>(number.back() | 0x20));
    if (letter == std::string_view::npos) return bad(kWhat, text, kForm);
    for (std::size_t i = 0; i <= letter; ++i) unit *= 1024;
    number.remove_suffix(1);
  }
  const auto thousandths = parse_fixed(number, 3);
  if (!thousandths || (unit == 1 && number.find('.') != std::string_view::npos)) return bad(kWhat, text, kForm);
  std::int64_t whole = 0;
  if (__builtin_mul_overflow(*thousandths / 1000, unit, &whole) ||
      __builtin_add_overflow(whole, (*thousandths % 1000) * unit / 1000, &whole)) {
    return bad(kWhat, text, "out of range");
  }
  return whole;
}

std::string print_size(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kNames = {"", "K", "M", "G", "T"};
  std::size_t name = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && name + 1 < kNames.size()) {
    bytes /= 1024;
    ++name;
  }
  return std::to_string(bytes) + kNames[name];
}

Result<std::int64_t> parse_cpus(std::string_view text) {
  const auto value = parse_fixed(text, 3);
  if (!value) return bad("parse CPUs", text, "expected a form like 2 or 1.5");
  return *value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> split_words(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r";
  std::vector<std::string_view> words;
  while (true) {
    const auto begin = text.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const auto end = text.find_first_of(kSpace);
    words.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return words;
    text.remove_prefix(end);
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string result;
  for (const auto& part : parts) {
    if (!result.empty() || &part != &parts.front()) result += separator;
    result += part;
  }
  return result;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r";
  const auto begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string to_lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  }
  return result;
}

bool glob_match(std::string_view pattern, std::string_view text) {
  // One place to come back to is enough: a later star makes all earlier ones final.
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  const auto escape = [&](char c) {
    std::array<char, 8> hex{};
    std::snprintf(hex.data(), hex.size(), "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    result += hex.data();
  };
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text.front());
    // C0, DEL and C1 (as U+0080 to U+009F): all of them can drive a terminal.
    const bool control =
        first < 0x20 || first == 0x7F || (length == 2 && first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0);
    if (length == 0 || (control && length == 1)) {
      escape(text.front());
      text.remove_prefix(1);
    } else if (control) {
      escape(text[0]);
      escape(text[1]);
      text.remove_prefix(2);
    } else {
      result += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return result;
}

std::string clean_path(std::string_view path) {
  std::vector<std::string_view> parts;
  for (const std::string_view part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
      continue;
    }
    parts.push_back(part);
  }
  std::string result;
  for (const std::string_view part : parts) {
    result += '/';
    result += part;
  }
  return result.empty() ? "/" : result;
}

bool path_within(std::string_view path, std::string_view parent) {
  if (parent == "/") return path.starts_with('/');
  return path == parent || (path.size() > parent.size() && path.starts_with(parent) && path[parent.size()] == '/');
}

}  // namespace agentrun::text
