#include "policy/change_log.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace agentrun::policy {
namespace {

// A base64 program in an annotation is megabytes; nobody reads more of it than this.
constexpr std::size_t kTextLimit = 4096;

std::string limited(std::string text) {
  if (text.size() <= kTextLimit) return text;
  return json_text("(" + std::to_string(text.size()) + " bytes, not shown)");
}

}  // namespace

std::string json_text(std::string_view value) {
  std::string result = "\"";
  result.reserve(value.size() + 2);
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      result += escape.data();
    } else {
      result += c;
    }
  }
  result += '"';
  return result;
}

std::string json_text(const std::vector<std::string>& values) {
  std::string result = "[";
  for (const auto& value : values) {
    if (result.size() > 1) result += ',';
    result += json_text(value);
  }
  result += ']';
  return result;
}

std::string json_object(const std::vector<std::pair<std::string_view, std::string>>& members) {
  std::string result = "{";
  for (const auto& [key, text] : members) {
    if (text.empty()) continue;
    if (result.size() > 1) result += ',';
    result += json_text(key);
    result += ':';
    result += text;
  }
  result += '}';
  return result;
}

std::string pointer_key(std::string_view key) {
  std::string result;
  for (const char c : key) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

void ChangeLog::changed(std::string pointer, std::string before, std::string after, std::string_view rule) {
  report_.changes.push_back(
      {std::move(pointer), limited(std::move(before)), limited(std::move(after)), rule_name(rule)});
}

void ChangeLog::note(std::string text) {
  // The same fact is met on several ways (each of two tmpfs mounts, say): one sentence is enough.
  if (std::find(report_.notes.begin(), report_.notes.end(), text) == report_.notes.end()) {
    report_.notes.push_back(std::move(text));
  }
}

std::string ChangeLog::rule_name(std::string_view rule) const { return policy_ + " " + std::string(rule); }

}  // namespace agentrun::policy
