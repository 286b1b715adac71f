// Inside policy/: the values that policies and agentrun.json share, each with its reader (oci/json_reader.h). A bound
// is a text with a unit, or a number where the unit is clear, or "none".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci/json_reader.h"

namespace agentrun::policy {

// What takes a bound away that the policy extended from has.
inline constexpr std::string_view kNone = "none";

struct Size {
  std::optional<std::int64_t>& value;  // bytes
  std::int64_t minimum;
};
Result<void> from_json(const oci::JsonReader& in, Size& out);

struct UnsignedSize {
  std::optional<std::uint64_t>& value;
  std::int64_t minimum;
};
Result<void> from_json(const oci::JsonReader& in, UnsignedSize& out);

struct Count {
  std::optional<std::int64_t>& value;
  std::int64_t maximum;
};
Result<void> from_json(const oci::JsonReader& in, Count& out);

struct Cpus {
  std::optional<std::int64_t>& value;  // milliCPU
};
Result<void> from_json(const oci::JsonReader& in, Cpus& out);

struct Duration {
  std::optional<std::int64_t>& value;  // microseconds
};
Result<void> from_json(const oci::JsonReader& in, Duration& out);

// Why a text will not do; empty: it will.
using Check = std::string (*)(const std::string&);

// An array replaces what was inherited, {"add": [...]} adds to it.
struct List {
  std::vector<std::string>& value;
  Check check;
};
Result<void> from_json(const oci::JsonReader& in, List& out);

bool has_control(std::string_view text);
std::string check_variable(const std::string& name);  // of an environment variable, or a glob of such
std::string check_path(const std::string& path);      // absolute and clean, or a glob of such
std::string check_policy_name(const std::string& name);

}  // namespace agentrun::policy
