// The parse of a text into a JsonDocument. Boost's own parser keeps the last of two equal keys without a word, so this
// file drives its tokenizer with a handler that also counts.
#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/monotonic_resource.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_stack.hpp>
#include <exception>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "oci/json_reader.h"

namespace agentrun::oci {

namespace json = boost::json;

namespace {

constexpr std::size_t kDepthLimit = 64;
constexpr std::size_t kValueLimit = 1u << 20;

// What both handlers below ignore in the same way.
struct QuietHandler {
  static constexpr std::size_t max_object_size = json::object::max_size();
  static constexpr std::size_t max_array_size = json::array::max_size();
  static constexpr std::size_t max_key_size = json::string::max_size();
  static constexpr std::size_t max_string_size = json::string::max_size();

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }
};

// Builds the value, and counts members as they come.
class Builder : public QuietHandler {
 public:
  Builder(unsigned char* buffer, std::size_t size) : stack_({}, buffer, size) {}

  void reset(json::storage_ptr storage) { stack_.reset(std::move(storage)); }
  json::value release() { return stack_.release(); }
  std::size_t members() const { return members_; }

  bool on_object_begin(json::error_code& code) { return count(code); }
  bool on_array_begin(json::error_code& code) { return count(code); }
  bool on_object_end(std::size_t size, json::error_code&) {
    members_ += size;
    stack_.push_object(size);
    return true;
  }
  bool on_array_end(std::size_t size, json::error_code&) {
    stack_.push_array(size);
    return true;
  }
  bool on_key_part(json::string_view text, std::size_t, json::error_code&) {
    stack_.push_chars(text);
    return true;
  }
  bool on_key(json::string_view text, std::size_t, json::error_code&) {
    stack_.push_key(text);
    return true;
  }
  bool on_string_part(json::string_view text, std::size_t, json::error_code&) {
    stack_.push_chars(text);
    return true;
  }
  bool on_string(json::string_view text, std::size_t, json::error_code& code) {
    stack_.push_string(text);
    return count(code);
  }
  bool on_int64(std::int64_t number, json::string_view, json::error_code& code) {
    stack_.push_int64(number);
    return count(code);
  }
  bool on_uint64(std::uint64_t number, json::string_view, json::error_code& code) {
    stack_.push_uint64(number);
    return count(code);
  }
  bool on_double(double number, json::string_view, json::error_code& code) {
    stack_.push_double(number);
    return count(code);
  }
  bool on_bool(bool value, json::error_code& code) {
    stack_.push_bool(value);
    return count(code);
  }
  bool on_null(json::error_code& code) {
    stack_.push_null();
    return count(code);
  }

 private:
  bool count(json::error_code& code) {
    if (++values_ <= kValueLimit) return true;
    code = json::error::array_too_large;
    return false;
  }

  json::value_stack stack_;
  std::size_t values_ = 0;
  std::size_t members_ = 0;
};

// The slow second look, taken only where the counts differ: stops at the first key that its object has already.
class DuplicateFinder : public QuietHandler {
 public:
  // JSON pointer of the second one.
  std::string pointer() const {
    std::string text;
    for (const Level& level : levels_) {
      append_pointer_token(text, level.array ? std::to_string(level.index) : level.key);
    }
    return text;
  }

  bool on_object_begin(json::error_code&) { return open(false); }
  bool on_array_begin(json::error_code&) { return open(true); }
  bool on_object_end(std::size_t, json::error_code&) { return close(); }
  bool on_array_end(std::size_t, json::error_code&) { return close(); }
  bool on_key_part(json::string_view text, std::size_t, json::error_code&) {
    part_.append(text.data(), text.size());
    return true;
  }
  bool on_key(json::string_view text, std::size_t, json::error_code& code) {
    part_.append(text.data(), text.size());
    Level& level = levels_.back();
    level.key = std::exchange(part_, {});
    if (level.keys.insert(level.key).second) return true;
    code = json::error::object_too_large;
    return false;
  }
  bool on_string_part(json::string_view, std::size_t, json::error_code&) { return true; }
  bool on_string(json::string_view, std::size_t, json::error_code&) { return next(); }
  bool on_int64(std::int64_t, json::string_view, json::error_code&) { return next(); }
  bool on_uint64(std::uint64_t, json::string_view, json::error_code&) { return next(); }
  bool on_double(double, json::string_view, json::error_code&) { return next(); }
  bool on_bool(bool, json::error_code&) { return next(); }
  bool on_null(json::error_code&) { return next(); }

 private:
  struct Level {
    bool array = false;
    std::size_t index = 0;
    std::string key;
    std::set<std::string> keys;
  };
  bool open(bool array) {
    levels_.emplace_back().array = array;
    return true;
  }
  bool close() {
    levels_.pop_back();
    return next();
  }
  bool next() {
    if (!levels_.empty()) ++levels_.back().index;
    return true;
  }

  std::vector<Level> levels_;
  std::string part_;
};

std::size_t count_members(const json::value& value) {
  std::size_t count = 0;
  if (const json::object* object = value.if_object()) {
    count = object->size();
    for (const json::key_value_pair& pair : *object) count += count_members(pair.value());
  } else if (const json::array* array = value.if_array()) {
    for (const json::value& element : *array) count += count_members(element);
  }
  return count;
}

json::parse_options strict_options() {
  json::parse_options options;  // no comments, no trailing commas, no invalid UTF-8
  options.max_depth = kDepthLimit;
  return options;
}

std::string position(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n');
  const std::size_t column = offset - (start == std::string_view::npos ? 0 : start + 1) + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

std::string reason_of(const json::error_code& code) {
  if (code == json::error::incomplete) return "the text ends in the middle of a value";
  if (code == json::error::too_deep) return "nested deeper than " + std::to_string(kDepthLimit) + " levels";
  if (code == json::error::array_too_large) return "more than " + std::to_string(kValueLimit) + " values";
  if (code == json::error::extra_data) return "text after the end of the value";
  return "not JSON: " + code.message();
}

Error find_duplicate(std::string_view text, const std::string& operation) {
  json::basic_parser<DuplicateFinder> parser(strict_options());
  json::error_code code;
  parser.write_some(false, text.data(), text.size(), code);
  return refusal(operation, parser.handler().pointer(), "the same key twice in one object");
}

}  // namespace

struct JsonDocument::Parts {
  Parts(std::string operation, UnknownKeys unknown_keys, std::size_t memory)
      : context{std::move(operation), unknown_keys}, resource(memory) {}

  JsonContext context;
  json::monotonic_resource resource;  // frees all at once: the values' destructors have nothing to do
  json::value root;
};

JsonDocument::JsonDocument(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

JsonReader JsonDocument::root() const { return JsonReader(parts_->context, parts_->root); }

Result<JsonDocument> JsonDocument::parse(std::string_view text, std::string_view name, std::size_t size_limit,
                                         UnknownKeys unknown_keys) {
  std::string operation = "parse " + std::string(name);
  if (text.size() > size_limit) {
    return refusal(std::move(operation), {}, "larger than " + std::to_string(size_limit) + " bytes");
  }
  try {
    auto parts = std::make_unique<Parts>(std::move(operation), unknown_keys, text.size() * 2 + 1024);
    unsigned char buffer[8192];  // of the parser's stack; it moves to the heap where it grows
    json::basic_parser<Builder> parser(strict_options(), buffer, sizeof(buffer));
    parser.handler().reset(&parts->resource);
    json::error_code code;
    const std::size_t parsed = parser.write_some(false, text.data(), text.size(), code);
    if (!code && parsed < text.size()) code = json::error::extra_data;
    if (code) return refusal(parts->context.operation, position(text, parsed), reason_of(code));
    // In place: a value that is assigned would be copied to the storage of the one that it replaces.
    parts->root.~value();
    new (&parts->root) json::value(parser.handler().release());
    if (count_members(parts->root) != parser.handler().members()) return find_duplicate(text, parts->context.operation);
    return JsonDocument(std::move(parts));
  } catch (const std::exception& exception) {  // no memory
    return refusal("parse " + std::string(name), {}, exception.what());
  }
}

}  // namespace agentrun::oci
