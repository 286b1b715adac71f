#include "policy/builtin.h"

#include "policy/policy.h"

namespace agentrun::policy {

Result<Policy> builtin_policy(std::string_view name) {
  const std::string_view json = builtin_text(name);
  if (json.empty()) return refusal("find policy", std::string(name), "no built-in policy of that name");
  return parse_policy(json, name);
}

std::vector<std::string> builtin_names() {
  std::vector<std::string> names;
  for (const auto& text : builtin_texts()) names.emplace_back(text.name);
  return names;
}

std::string_view builtin_text(std::string_view name) {
  for (const auto& text : builtin_texts()) {
    if (text.name == name) return text.json;
  }
  return {};
}

}  // namespace agentrun::policy
