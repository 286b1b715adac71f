#include "oci/json_reader.h"

#include <boost/json/value.hpp>
#include <cmath>
#include <string>

namespace agentrun::oci {

namespace json = boost::json;

namespace {

std::string range_reason(const std::string& minimum, const std::string& maximum) {
  return "expected an integer from " + minimum + " to " + maximum;
}

// Boost gives an integer beyond 64 bits as a double: say the range there, and the type for 1.5 or 1e3.
bool beyond_64_bits(const json::value& value) {
  return value.is_double() && std::abs(value.get_double()) >= 9223372036854775808.0;
}

}  // namespace

void append_pointer_token(std::string& pointer, std::string_view key) {
  constexpr std::size_t kLongest = 128;  // bytes: a hostile key can be megabytes
  pointer += '/';
  for (const char c : key.substr(0, kLongest)) {
    if (c == '~') {
      pointer += "~0";
    } else if (c == '/') {
      pointer += "~1";
    } else {
      pointer += c;
    }
  }
  if (key.size() > kLongest) pointer += "...";
}

JsonReader::JsonReader(const JsonContext& context, const json::value& root) : context_(context), value_(&root) {}

JsonReader::JsonReader(const JsonReader& parent, const json::value* value, std::string_view key, std::size_t index)
    : context_(parent.context_), parent_(&parent), value_(value), key_(key), index_(index) {}

Result<const json::value*> JsonReader::find(std::string_view key) const {
  const json::object* object = value_->if_object();
  if (object == nullptr) return error("expected an object");
  const auto found = object->find(json::string_view(key.data(), key.size()));
  if (found == object->end()) return nullptr;
  if (context_.unknown_keys == UnknownKeys::refused) {
    asked_.resize(object->size());
    asked_[static_cast<std::size_t>(found - object->begin())] = true;
  }
  return found->value().is_null() ? nullptr : &found->value();
}

bool JsonReader::has(std::string_view key) const {
  const json::object* object = value_->if_object();
  if (object == nullptr) return false;
  const json::value* found = object->if_contains(json::string_view(key.data(), key.size()));
  return found != nullptr && !found->is_null();
}

Result<void> JsonReader::refuse_unknown() const {
  const json::object* object = value_->if_object();
  if (object == nullptr) return ok();
  asked_.resize(object->size());
  for (std::size_t index = 0; index < asked_.size(); ++index) {
    if (!asked_[index]) return member(index).error("unknown key");
  }
  return ok();
}

void JsonReader::append_pointer(std::string& text) const {
  if (parent_ == nullptr) return;
  parent_->append_pointer(text);
  if (parent_->value_->is_array()) {
    append_pointer_token(text, std::to_string(index_));
  } else {
    append_pointer_token(text, key_);
  }
}

Error JsonReader::error(std::string reason) const {
  std::string pointer;
  append_pointer(pointer);
  return refusal(context_.operation, std::move(pointer), std::move(reason));
}

Error JsonReader::error_at(std::string_view key, std::string reason) const {
  return JsonReader(*this, value_, key, 0).error(std::move(reason));
}

Result<bool> JsonReader::boolean() const {
  const bool* value = value_->if_bool();
  if (value == nullptr) return error("expected true or false");
  return *value;
}

Result<std::int64_t> JsonReader::signed_integer(std::int64_t minimum, std::int64_t maximum) const {
  if (const std::int64_t* value = value_->if_int64()) {
    if (*value >= minimum && *value <= maximum) return *value;
  } else if (!value_->is_uint64() && !beyond_64_bits(*value_)) {
    return error("expected an integer");
  }
  return error(range_reason(std::to_string(minimum), std::to_string(maximum)));
}

Result<std::uint64_t> JsonReader::unsigned_integer(std::uint64_t maximum) const {
  if (const std::uint64_t* value = value_->if_uint64()) {
    if (*value <= maximum) return *value;
  } else if (const std::int64_t* small = value_->if_int64()) {
    if (*small >= 0 && static_cast<std::uint64_t>(*small) <= maximum) return static_cast<std::uint64_t>(*small);
  } else if (!beyond_64_bits(*value_)) {
    return error("expected an integer");
  }
  return error(range_reason("0", std::to_string(maximum)));
}

Result<std::string_view> JsonReader::string() const {
  const json::string* value = value_->if_string();
  if (value == nullptr) return error("expected a string");
  const std::string_view text(value->data(), value->size());
  if (text.find('\0') != std::string_view::npos) return error("a string with a NUL character");
  return text;
}

Result<std::size_t> JsonReader::array_size() const {
  const json::array* array = value_->if_array();
  if (array == nullptr) return error("expected an array");
  return array->size();
}

Result<std::size_t> JsonReader::object_size() const {
  const json::object* object = value_->if_object();
  if (object == nullptr) return error("expected an object");
  return object->size();
}

JsonReader JsonReader::element(std::size_t index) const {
  return JsonReader(*this, &value_->get_array()[index], {}, index);
}

JsonReader JsonReader::member(std::size_t index) const {
  const json::object& object = value_->get_object();
  if (context_.unknown_keys == UnknownKeys::refused) {
    asked_.resize(object.size());
    asked_[index] = true;
  }
  const json::key_value_pair& pair = *(object.begin() + static_cast<std::ptrdiff_t>(index));
  return JsonReader(*this, &pair.value(), std::string_view(pair.key().data(), pair.key().size()), 0);
}

Result<void> from_json(const JsonReader& in, bool& out) {
  out = TRY(in.boolean());
  return ok();
}

Result<void> from_json(const JsonReader& in, std::string& out) {
  out = TRY(in.string());
  return ok();
}

}  // namespace agentrun::oci
