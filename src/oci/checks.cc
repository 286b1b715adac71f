#include "oci/checks.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace agentrun::oci {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_alphanumeric(char c) { return is_digit(c) || is_upper(c) || (c >= 'a' && c <= 'z'); }
bool is_space_or_control(char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; }

// A dot-separated list of non-empty [0-9A-Za-z-] words.
bool is_version_tail(std::string_view text) {
  for (const std::string_view word : text::split(text, '.')) {
    if (word.empty() || !std::all_of(word.begin(), word.end(), [](char c) { return is_alphanumeric(c) || c == '-'; })) {
      return false;
    }
  }
  return true;
}

bool is_version_number(std::string_view text) {
  return text::parse_unsigned(text).has_value() && (text.size() == 1 || text[0] != '0');
}

}  // namespace

std::string invalid(std::string_view what, std::string_view value) {
  constexpr std::size_t kLongest = 128;
  std::string reason = "invalid ";
  reason += what;
  reason += " \"";
  reason += value.substr(0, kLongest);
  reason += value.size() > kLongest ? "...\"" : "\"";
  return reason;
}

std::string known::operator()(const std::string& value) const {
  if (std::find(names.begin(), names.end(), value) != names.end()) return {};
  return invalid(what, value);
}

std::string between::operator()(std::int64_t value) const {
  if (value >= minimum && value <= maximum) return {};
  return "expected an integer from " + std::to_string(minimum) + " to " + std::to_string(maximum);
}

std::string not_empty(const std::string& value) { return value.empty() ? "must not be empty" : ""; }

std::string absolute_path(const std::string& value) {
  return value.starts_with('/') ? "" : invalid("absolute path", value);
}

std::string usable_id(std::uint32_t id) {
  return id == 0xffffffff ? "expected an integer from 0 to 4294967294: 4294967295 means no id" : "";
}

std::string env_entry(const std::string& value) {
  const std::size_t equals = value.find('=');
  return equals == std::string::npos || equals == 0 ? "expected KEY=VALUE" : "";
}

std::string capability_name(const std::string& value) {
  const bool fits = !value.empty() && is_upper(value[0]) && std::all_of(value.begin(), value.end(), [](char c) {
    return is_upper(c) || is_digit(c) || c == '_';
  });
  return fits ? "" : invalid("capability", value);
}

int count_list(std::string_view text) {
  constexpr std::uint64_t kIds = 65536;
  int count = 0;
  for (std::string_view entry : text::split(text, ',')) {
    entry = text::trim(entry);
    if (entry.empty()) continue;
    const std::size_t dash = entry.find('-');
    const auto first = text::parse_unsigned(entry.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : text::parse_unsigned(entry.substr(dash + 1));
    if (!first || !last || *first > *last || *last >= kIds) return -1;
    // A list may repeat itself for as long as it likes: what is beyond the number of ids says no more.
    count = static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(count) + *last - *first + 1, kIds));
  }
  return count;
}

std::string cpu_list(const std::string& value) {
  return value.empty() || count_list(value) > 0 ? "" : invalid("CPU list", value);
}

std::string page_size(const std::string& value) {
  const bool fits = value.size() >= 3 && value.size() <= 16 && value[0] != '0' && value.ends_with('B') &&
                    std::string_view("KMG").find(value[value.size() - 2]) != std::string_view::npos &&
                    std::all_of(value.begin(), value.end() - 2, is_digit);
  return fits ? "" : invalid("page size", value);
}

std::string interface_name(const std::string& value) {
  const bool fits = !value.empty() && value.size() <= 15 && value != "." && value != ".." &&
                    value.find_first_of("/:") == std::string::npos && plain_word(value).empty();
  return fits ? "" : invalid("network interface name", value);
}

std::string unified_key(const std::string& value) {
  const bool fits = value.find('/') == std::string::npos && value.find('.') != std::string::npos && value[0] != '.' &&
                    plain_word(value).empty();
  return fits ? "" : invalid("cgroup file name", value);
}

std::string plain_word(const std::string& value) {
  const bool fits = !value.empty() && std::none_of(value.begin(), value.end(), is_space_or_control);
  return fits ? "" : invalid("name", value);
}

std::string file_name(const std::string& value) {
  const bool fits =
      !value.empty() && value != "." && value != ".." && value.size() <= 255 && value.find('/') == std::string::npos;
  return fits ? "" : invalid("name", value);
}

std::string oci_version(const std::string& value) {
  std::string_view rest = value;
  const std::size_t plus = rest.find('+');
  bool fits = plus == std::string_view::npos || is_version_tail(rest.substr(plus + 1));
  rest = rest.substr(0, plus);
  const std::size_t dash = rest.find('-');
  fits = fits && (dash == std::string_view::npos || is_version_tail(rest.substr(dash + 1)));
  const auto numbers = text::split(rest.substr(0, dash), '.');
  fits = fits && numbers.size() == 3 && std::all_of(numbers.begin(), numbers.end(), is_version_number);
  if (!fits) return invalid("version", value);
  return numbers[0] == "1" ? "" : invalid("version (1.x is understood)", value);
}

}  // namespace agentrun::oci
