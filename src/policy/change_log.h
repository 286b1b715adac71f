// Inside policy/: how the parts of harden() change a field and tell the report, in one step, so that neither is
// forgotten.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/harden.h"

namespace agentrun::policy {

// JSON texts of values, as Change carries them.
std::string json_text(std::string_view value);
inline std::string json_text(const std::string& value) { return json_text(std::string_view(value)); }
inline std::string json_text(const char* value) { return json_text(std::string_view(value)); }
template <std::integral Number>
std::string json_text(Number value) {
  if constexpr (std::is_same_v<Number, bool>) {
    return value ? "true" : "false";
  } else {
    return std::to_string(value);
  }
}
std::string json_text(const std::vector<std::string>& values);
template <typename T>
std::string json_text(const std::optional<T>& value) {
  return value ? json_text(*value) : std::string();
}

// {"key": text, ...} from texts of JSON; members with an empty text are left out.
std::string json_object(const std::vector<std::pair<std::string_view, std::string>>& members);

// A key as a part of a JSON pointer (RFC 6901): ~ is ~0, / is ~1.
std::string pointer_key(std::string_view key);

class ChangeLog {
 public:
  ChangeLog(Report& report, std::string_view policy) : report_(report), policy_(policy) {}

  // `rule` is the pointer of the policy's field that asked for it. A long text is cut: a report is to be read.
  void changed(std::string pointer, std::string before, std::string after, std::string_view rule);

  // Sets `field`, and says so where that is a change. For strings an empty one counts as absent.
  template <typename T, typename V>
  void set(T& field, V&& value, std::string_view pointer, std::string_view rule) {
    if (field == value) return;
    std::string before = text_of(field);
    field = std::forward<V>(value);
    changed(std::string(pointer), std::move(before), text_of(field), rule);
  }

  std::size_t size() const { return report_.changes.size(); }

  void note(std::string text);

  // "strict /limits/memory": for sentences.
  std::string rule_name(std::string_view rule) const;

 private:
  template <typename T>
  static std::string text_of(const T& field) {
    if constexpr (std::is_same_v<T, std::string>) {
      return field.empty() ? std::string() : json_text(field);
    } else {
      return json_text(field);
    }
  }

  Report& report_;
  std::string policy_;
};

}  // namespace agentrun::policy
