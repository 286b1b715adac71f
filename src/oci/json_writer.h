// Types to JSON text, member by member, without a tree in between. The counterpart of JsonReader: a type is written by
// a function that has one line a field, found by argument-dependent lookup.
//
//   void to_json(JsonWriter& out, const Root& root) {
//     out.begin_object();
//     out.member("path", root.path);
//     out.member_if_set("readonly", root.readonly);
//     out.end_object();
//   }
//
// The text is valid JSON whatever the strings hold: bytes that are not UTF-8 (a path may have them) become U+FFFD.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace agentrun::oci {

enum class Layout { compact, indented };

class JsonWriter {
 public:
  explicit JsonWriter(Layout layout) : layout_(layout) {}

  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  void key(std::string_view name);

  void string(std::string_view text);
  void boolean(bool value);
  void signed_integer(std::int64_t value);
  void unsigned_integer(std::uint64_t value);

  template <typename T>
  void member(std::string_view name, const T& value);
  // Leaves out what reads back the same from its absence: false, an empty string, vector, map or optional. Not numbers.
  template <typename T>
  void member_if_set(std::string_view name, const T& value);

  // The text; the writer is empty afterwards.
  std::string take() { return std::exchange(text_, {}); }

 private:
  void open(char bracket);
  void close(char bracket);
  void before_value();  // the comma and the line of an element
  void new_line();

  Layout layout_;
  std::string text_;
  std::size_t depth_ = 0;
  bool first_ = true;       // nothing yet in the innermost object or array
  bool after_key_ = false;  // the value belongs to a key that was written
};

inline void to_json(JsonWriter& out, bool value) { out.boolean(value); }
inline void to_json(JsonWriter& out, const std::string& text) { out.string(text); }
inline void to_json(JsonWriter& out, std::string_view text) { out.string(text); }
inline void to_json(JsonWriter& out, const char* text) { out.string(text); }
inline void to_json(JsonWriter& out, char letter) { out.string(std::string_view(&letter, 1)); }

template <std::signed_integral T>
requires(!std::same_as<T, char>) void to_json(JsonWriter& out, T value) { out.signed_integer(value); }

template <std::unsigned_integral T>
requires(!std::same_as<T, bool>) void to_json(JsonWriter& out, T value) { out.unsigned_integer(value); }

template <typename T>
void to_json(JsonWriter& out, const std::optional<T>& value) {
  to_json(out, *value);
}

template <typename T>
void to_json(JsonWriter& out, const std::vector<T>& list) {
  out.begin_array();
  for (const T& element : list) to_json(out, element);
  out.end_array();
}

template <typename T>
void to_json(JsonWriter& out, const std::map<std::string, T>& map) {
  out.begin_object();
  for (const auto& [name, value] : map) out.member(name, value);
  out.end_object();
}

inline bool is_set(bool value) { return value; }
template <typename T>
requires requires(const T& value) { value.empty(); }
bool is_set(const T& value) { return !value.empty(); }
template <typename T>
bool is_set(const std::optional<T>& value) {
  return value.has_value();
}

template <typename T>
void JsonWriter::member(std::string_view name, const T& value) {
  key(name);
  to_json(*this, value);
}

template <typename T>
void JsonWriter::member_if_set(std::string_view name, const T& value) {
  if (is_set(value)) member(name, value);
}

template <typename T>
std::string write_json(const T& value, Layout layout) {
  JsonWriter out(layout);
  to_json(out, value);
  return out.take();
}

}  // namespace agentrun::oci
