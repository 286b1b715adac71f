// Hostile JSON to types. A JsonReader is one value of a document together with the way to it, so that every error names
// the JSON pointer; a type is read by a function that has one line a field:
//
//   Result<void> from_json(const JsonReader& in, Root& root) {
//     TRY(in.require("path", root.path, not_empty("a path")));
//     TRY(in.read("readonly", root.readonly));
//     return ok();
//   }
//
// `from_json` overloads are found by argument-dependent lookup: declare them in the namespace of the type (not in an
// unnamed one) before their first use. Optionals, vectors and maps by name of a type that has one need nothing more.
//
// Rules that hold for every document: the value null is an absent key (as Go's encoding/json has it, which wrote the
// text); a key twice in one object is an error (which of the two counts differs between parsers, so a check made by
// another program could have seen the other one); strings have no NUL (the kernel would read less than was checked);
// integers are exact, and a number with a fraction or an exponent is none.
#pragma once

#include <algorithm>
#include <boost/json/fwd.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"

namespace agentrun::oci {

// Of an object that is read into a type. `refused`: an error for each key that no from_json asked for.
enum class UnknownKeys { ignored, refused };

struct JsonContext {
  std::string operation;  // "parse config.json"
  UnknownKeys unknown_keys = UnknownKeys::ignored;
};

// "/" and a key, with RFC 6901's escapes; a very long key is cut.
void append_pointer_token(std::string& pointer, std::string_view key);

class JsonReader {
 public:
  JsonReader(const JsonContext& context, const boost::json::value& root);
  // A reader points to the one that it came from, which lives on the caller's stack: readers do not move.
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  // The member `key` of this object. Absent or null: `out` stays as it is. A check is a function from the value to the
  // reason why it will not do (empty: it will); for an optional or a vector it is asked about what is inside.
  template <typename T>
  Result<void> read(std::string_view key, T& out) const;
  template <typename T, typename Check>
  Result<void> read(std::string_view key, T& out, const Check& check) const;

  // The same; absent or null is the error "missing".
  template <typename T>
  Result<void> require(std::string_view key, T& out) const;
  template <typename T, typename Check>
  Result<void> require(std::string_view key, T& out, const Check& check) const;

  // A map whose names have to pass a check; the error points to the member.
  template <typename T, typename Check>
  Result<void> read_map(std::string_view key, std::map<std::string, T>& out, const Check& check_name) const;

  bool has(std::string_view key) const;  // there and not null; false where this is no object

  // An error at this value, or at its member `key`.
  Error error(std::string reason) const;
  Error error_at(std::string_view key, std::string reason) const;

  // The value itself, by type.
  Result<bool> boolean() const;
  Result<std::int64_t> signed_integer(std::int64_t minimum, std::int64_t maximum) const;
  Result<std::uint64_t> unsigned_integer(std::uint64_t maximum) const;
  Result<std::string_view> string() const;  // valid as long as the document
  Result<std::size_t> array_size() const;
  Result<std::size_t> object_size() const;
  JsonReader element(std::size_t index) const;    // of an array, index < array_size()
  JsonReader member(std::size_t index) const;     // of an object, in the order of the text, index < object_size()
  std::string_view name() const { return key_; }  // of a member

  // Errors for keys that nobody asked for, where the document refuses them. Callers of `read` need not call it.
  Result<void> finish() const { return context_.unknown_keys == UnknownKeys::ignored ? ok() : refuse_unknown(); }

 private:
  JsonReader(const JsonReader& parent, const boost::json::value* value, std::string_view key, std::size_t index);

  // nullptr: absent or null; an error where this is no object.
  Result<const boost::json::value*> find(std::string_view key) const;
  // Calls `parse` on the member `key`; false where it is absent or null.
  template <typename Parse>
  Result<bool> visit(std::string_view key, const Parse& parse) const;
  Result<void> refuse_unknown() const;
  void append_pointer(std::string& text) const;

  const JsonContext& context_;
  const JsonReader* parent_ = nullptr;
  const boost::json::value* value_ = nullptr;
  std::string_view key_;
  std::size_t index_ = 0;
  mutable std::vector<bool> asked_;  // by member; only where unknown keys are refused
};

// A parsed text; readers and the string_views that they give point into it.
class JsonDocument {
 public:
  // `name` stands for the file in errors. `size_limit` in bytes; nesting is bounded at 64 levels and the number of
  // values at a million, so that memory is bounded by a small multiple of `size_limit`.
  static Result<JsonDocument> parse(std::string_view text, std::string_view name, std::size_t size_limit,
                                    UnknownKeys unknown_keys);
  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();

  JsonReader root() const;

  template <typename T>
  Result<void> read(T& out) const;

 private:
  struct Parts;
  explicit JsonDocument(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// --- values ---

Result<void> from_json(const JsonReader& in, bool& out);
Result<void> from_json(const JsonReader& in, std::string& out);

template <typename T>
requires(std::is_integral_v<T> && !std::is_same_v<T, bool> &&
         !std::is_same_v<T, char>) Result<void> from_json(const JsonReader& in, T& out) {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_signed_v<T>) {
    out = static_cast<T>(TRY(in.signed_integer(Limits::min(), Limits::max())));
  } else {
    out = static_cast<T>(TRY(in.unsigned_integer(Limits::max())));
  }
  return ok();
}

template <typename T>
Result<void> from_json(const JsonReader& in, std::optional<T>& out) {
  return from_json(in, out.emplace());
}

template <typename T>
Result<void> from_json(const JsonReader& in, std::vector<T>& out) {
  const std::size_t size = TRY(in.array_size());
  out.clear();
  out.reserve(std::min<std::size_t>(size, 1024));  // not all: the elements have not been looked at yet
  for (std::size_t index = 0; index < size; ++index) {
    const JsonReader element = in.element(index);
    TRY(from_json(element, out.emplace_back()));
    TRY(element.finish());
  }
  return ok();
}

template <typename T>
Result<void> from_json(const JsonReader& in, std::map<std::string, T>& out) {
  const std::size_t size = TRY(in.object_size());
  out.clear();
  for (std::size_t index = 0; index < size; ++index) {
    const JsonReader member = in.member(index);
    if (member.name().find('\0') != std::string_view::npos) return member.error("a name with a NUL character");
    TRY(from_json(member, out[std::string(member.name())]));
    TRY(member.finish());
  }
  return ok();
}

// --- values with a check ---

template <typename T, typename Check>
Result<void> from_json_checked(const JsonReader& in, T& out, const Check& check) {
  TRY(from_json(in, out));
  std::string reason = check(out);
  if (!reason.empty()) return in.error(std::move(reason));
  return ok();
}

template <typename T, typename Check>
Result<void> from_json_checked(const JsonReader& in, std::optional<T>& out, const Check& check) {
  return from_json_checked(in, out.emplace(), check);
}

template <typename T, typename Check>
Result<void> from_json_checked(const JsonReader& in, std::vector<T>& out, const Check& check) {
  const std::size_t size = TRY(in.array_size());
  out.clear();
  out.reserve(std::min<std::size_t>(size, 1024));
  for (std::size_t index = 0; index < size; ++index) {
    const JsonReader element = in.element(index);
    TRY(from_json_checked(element, out.emplace_back(), check));
    TRY(element.finish());
  }
  return ok();
}

// --- members ---

template <typename Parse>
Result<bool> JsonReader::visit(std::string_view key, const Parse& parse) const {
  const boost::json::value* found = TRY(find(key));
  if (found == nullptr) return false;
  const JsonReader child(*this, found, key, 0);
  TRY(parse(child));
  TRY(child.finish());
  return true;
}

template <typename T>
Result<void> JsonReader::read(std::string_view key, T& out) const {
  TRY(visit(key, [&out](const JsonReader& child) { return from_json(child, out); }));
  return ok();
}

template <typename T, typename Check>
Result<void> JsonReader::read(std::string_view key, T& out, const Check& check) const {
  TRY(visit(key, [&](const JsonReader& child) { return from_json_checked(child, out, check); }));
  return ok();
}

template <typename T>
Result<void> JsonReader::require(std::string_view key, T& out) const {
  const bool found = TRY(visit(key, [&out](const JsonReader& child) { return from_json(child, out); }));
  return found ? ok() : Result<void>(error_at(key, "missing"));
}

template <typename T, typename Check>
Result<void> JsonReader::require(std::string_view key, T& out, const Check& check) const {
  const bool found = TRY(visit(key, [&](const JsonReader& child) { return from_json_checked(child, out, check); }));
  return found ? ok() : Result<void>(error_at(key, "missing"));
}

template <typename T, typename Check>
Result<void> JsonReader::read_map(std::string_view key, std::map<std::string, T>& out, const Check& check_name) const {
  TRY(read(key, out));
  for (const auto& [name, value] : out) {
    std::string reason = check_name(name);
    if (reason.empty()) continue;
    const boost::json::value* found = TRY(find(key));
    return JsonReader(*this, found, key, 0).error_at(name, std::move(reason));
  }
  return ok();
}

template <typename T>
Result<void> JsonDocument::read(T& out) const {
  const JsonReader reader = root();
  TRY(from_json(reader, out));
  return reader.finish();
}

}  // namespace agentrun::oci
