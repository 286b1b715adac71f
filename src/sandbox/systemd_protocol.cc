#include "sandbox/systemd_protocol.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"

namespace agentrun::sandbox {
namespace {

constexpr std::array kTypes = {"s", "b", "i", "u", "x", "t", "d", "as", "au", "ay", "a(ss)"};

std::string encode(std::string_view value) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string word = "=";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte < 0x7f && c != '%') {
      word += c;
    } else {
      word += '%';
      word += kHex[byte >> 4];
      word += kHex[byte & 15];
    }
  }
  return word;
}

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

std::optional<std::string> decode(std::string_view word) {
  if (!word.starts_with('=')) return std::nullopt;
  std::string value;
  for (std::size_t i = 1; i < word.size(); ++i) {
    if (word[i] != '%') {
      value += word[i];
      continue;
    }
    if (i + 2 >= word.size()) return std::nullopt;
    const auto high = hex_digit(word[i + 1]);
    const auto low = hex_digit(word[i + 2]);
    if (!high || !low) return std::nullopt;
    value += static_cast<char>(*high * 16 + *low);
    i += 2;
  }
  return value;
}

Error not_protocol(std::string_view line) {
  return refusal("speak with agentrun-systemd", std::string(line), "not of the protocol: versions that do not fit?");
}

}  // namespace

std::string print_request(const UnitRequest& request) {
  std::string text = request.verb + " " + encode(request.unit) + "\n";
  for (const UnitProperty& property : request.properties) {
    text += "property " + property.name + " " + property.type;
    for (const std::string& value : property.values) text += " " + encode(value);
    text += "\n";
  }
  return text + "go\n";
}

std::string print_reply(const UnitReply& reply) { return (reply.ok ? "ok " : "error ") + encode(reply.text) + "\n"; }

Result<bool> parse_request_line(std::string_view line, UnitRequest& request) {
  const std::vector<std::string_view> words = text::split(line, ' ');
  if (words.size() == 1 && words[0] == "go" && !request.verb.empty()) return true;
  if (words.size() == 2 && (words[0] == "start" || words[0] == "set" || words[0] == "stop")) {
    const auto unit = decode(words[1]);
    if (!unit) return not_protocol(line);
    request = UnitRequest{std::string(words[0]), *unit, {}};
    return false;
  }
  if (words.size() < 3 || words[0] != "property" || request.verb.empty()) return not_protocol(line);
  UnitProperty property{std::string(words[1]), std::string(words[2]), {}};
  if (std::find(kTypes.begin(), kTypes.end(), property.type) == kTypes.end()) return not_protocol(line);
  for (std::size_t i = 3; i < words.size(); ++i) {
    auto value = decode(words[i]);
    if (!value) return not_protocol(line);
    property.values.push_back(std::move(*value));
  }
  const bool single = property.type.size() == 1;
  if (single && property.values.size() != 1) return not_protocol(line);
  if (property.type == "a(ss)" && property.values.size() % 2 != 0) return not_protocol(line);
  request.properties.push_back(std::move(property));
  return false;
}

Result<UnitReply> parse_reply(std::string_view line) {
  const std::vector<std::string_view> words = text::split(line, ' ');
  if (words.size() != 2 || (words[0] != "ok" && words[0] != "error")) return not_protocol(line);
  auto value = decode(words[1]);
  if (!value) return not_protocol(line);
  return UnitReply{words[0] == "ok", std::move(*value)};
}

}  // namespace agentrun::sandbox
