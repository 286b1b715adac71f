// Inside policy/: the files of policies/ as the build embedded them (policies/embed).
#pragma once

#include <span>
#include <string_view>

namespace agentrun::policy {

struct BuiltinText {
  std::string_view name, json;
};

std::span<const BuiltinText> builtin_texts();

}  // namespace agentrun::policy
