// The records of the state store as JSON, and back. A record comes from a directory that only its owner can write to;
// it is checked all the same, field by field: a half-written or foreign file must end in a sentence, never in the wrong
// process being killed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "lifecycle/store.h"

namespace agentrun::lifecycle {

std::string print_record(const Record& record);
Result<Record> parse_record(std::string_view json, std::string_view name);

std::string print_intent(const Intent& intent);
Result<Intent> parse_intent(std::string_view json, std::string_view name);

std::string print_exit_note(const ExitNote& note);
Result<ExitNote> parse_exit_note(std::string_view json, std::string_view name);

}  // namespace agentrun::lifecycle
