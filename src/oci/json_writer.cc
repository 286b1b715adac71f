#include "oci/json_writer.h"

#include <charconv>

namespace agentrun::oci {

namespace {

// Length of the UTF-8 sequence that `text` begins with, 0 where it is none (RFC 3629: no surrogates, no overlong
// forms).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [text](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char first = byte(0);
  std::size_t length = 0;
  unsigned char low = 0x80, high = 0xbf;  // of the second byte
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) {
    length = 2;
  } else if (first >= 0xe0 && first <= 0xef) {
    length = 3;
    if (first == 0xe0) low = 0xa0;
    if (first == 0xed) high = 0x9f;
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4;
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
  }
  if (length == 0 || text.size() < length || byte(1) < low || byte(1) > high) return 0;
  for (std::size_t index = 2; index < length; ++index) {
    if (byte(index) < 0x80 || byte(index) > 0xbf) return 0;
  }
  return length;
}

void append_escape(std::string& text, char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  switch (c) {
    case '"':
      text += "\\\"";
      break;
    case '\\':
      text += "\\\\";
      break;
    case '\n':
      text += "\\n";
      break;
    case '\r':
      text += "\\r";
      break;
    case '\t':
      text += "\\t";
      break;
    default:
      text += "\\u00";
      text += kHex[static_cast<unsigned char>(c) >> 4];
      text += kHex[static_cast<unsigned char>(c) & 15];
  }
}

template <typename T>
void append_number(std::string& text, T value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value);
  text.append(digits, end.ptr);
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      out += "\xef\xbf\xbd";
    } else if (length == 1 && (static_cast<unsigned char>(text[0]) < 0x20 || text[0] == '"' || text[0] == '\\')) {
      append_escape(out, text[0]);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

}  // namespace

void JsonWriter::new_line() {
  if (layout_ == Layout::compact) return;
  text_ += '\n';
  text_.append(2 * depth_, ' ');
}

void JsonWriter::before_value() {
  if (std::exchange(after_key_, false)) return;
  if (!std::exchange(first_, false)) text_ += ',';
  if (depth_ > 0) new_line();
}

void JsonWriter::open(char bracket) {
  before_value();
  text_ += bracket;
  ++depth_;
  first_ = true;
}

void JsonWriter::close(char bracket) {
  --depth_;
  if (!first_) new_line();
  text_ += bracket;
  first_ = false;
}

void JsonWriter::key(std::string_view name) {
  before_value();
  append_quoted(text_, name);
  text_ += layout_ == Layout::compact ? ":" : ": ";
  after_key_ = true;
}

void JsonWriter::string(std::string_view text) {
  before_value();
  append_quoted(text_, text);
}

void JsonWriter::boolean(bool value) {
  before_value();
  text_ += value ? "true" : "false";
}

void JsonWriter::signed_integer(std::int64_t value) {
  before_value();
  append_number(text_, value);
}

void JsonWriter::unsigned_integer(std::uint64_t value) {
  before_value();
  append_number(text_, value);
}

}  // namespace agentrun::oci
