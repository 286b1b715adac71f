#include "policy/values.h"

#include <algorithm>
#include <limits>

#include "base/text.h"

namespace agentrun::policy {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

// The two ways to write a bound are told apart by type, so the error of the text is the one to show for a text.
template <typename Parse>
Result<std::optional<std::int64_t>> read_bound(const oci::JsonReader& in, std::int64_t minimum, const Parse& parse,
                                               std::int64_t per_unit) {
  std::int64_t value = 0;
  if (const auto text = in.string(); text.has_value()) {
    if (*text == kNone) return std::optional<std::int64_t>();
    const auto parsed = parse(*text);
    if (parsed.has_error()) return in.error(parsed.error().reason + ", or \"none\"");
    value = *parsed;
  } else {
    if (per_unit == 0) return in.error("expected a text like \"10m\", or \"none\"");
    value = TRY(in.signed_integer(0, kLargest / per_unit)) * per_unit;
  }
  if (value < minimum) return in.error("too small");
  return std::optional<std::int64_t>(value);
}

}  // namespace

Result<void> from_json(const oci::JsonReader& in, Size& out) {
  out.value = TRY(read_bound(in, out.minimum, text::parse_size, 1));
  return ok();
}

Result<void> from_json(const oci::JsonReader& in, UnsignedSize& out) {
  const auto size = TRY(read_bound(in, out.minimum, text::parse_size, 1));
  out.value = size ? std::optional(static_cast<std::uint64_t>(*size)) : std::nullopt;
  return ok();
}

Result<void> from_json(const oci::JsonReader& in, Count& out) {
  const auto parse = [](std::string_view text) -> Result<std::int64_t> {
    return refusal("parse number", std::string(text), "expected a number");
  };
  out.value = TRY(read_bound(in, 1, parse, 1));
  if (out.value && *out.value > out.maximum) return in.error("too large");
  return ok();
}

Result<void> from_json(const oci::JsonReader& in, Cpus& out) {
  // At least a hundredth: below the kernel's smallest quota (1 ms of 100 ms) nothing can be set.
  out.value = TRY(read_bound(in, 10, text::parse_cpus, 1000));
  constexpr std::int64_t kMost = 1'000'000 * 1000LL;
  if (out.value && *out.value > kMost) return in.error("too large");
  return ok();
}

Result<void> from_json(const oci::JsonReader& in, Duration& out) {
  out.value = TRY(read_bound(in, 1, text::parse_duration, 0));
  // A deadline is added to a clock: ten years leave room.
  constexpr std::int64_t kMost = 10LL * 365 * 86'400 * 1'000'000;
  if (out.value && *out.value > kMost) return in.error("more than ten years: say \"none\"");
  return ok();
}

Result<void> from_json(const oci::JsonReader& in, List& out) {
  if (in.array_size().has_value()) return oci::from_json_checked(in, out.value, out.check);
  if (in.object_size().has_error()) return in.error("expected an array, or {\"add\": an array}");
  std::vector<std::string> more;
  TRY(in.require("add", more, out.check));
  for (auto& entry : more) {
    if (std::find(out.value.begin(), out.value.end(), entry) == out.value.end()) out.value.push_back(std::move(entry));
  }
  return ok();
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

std::string check_variable(const std::string& name) {
  if (name.empty()) return "expected a name";
  if (name.find('=') != std::string::npos || has_control(name))
    return "a name of a variable has no '=' or control character";
  return {};
}

std::string check_path(const std::string& path) {
  if (path.empty() || path.front() != '/') return "expected an absolute path";
  if (has_control(path)) return "a path with a control character";
  if (path != text::clean_path(path)) return "expected a path without \".\", \"..\", \"//\" and a final \"/\"";
  return {};
}

// A name becomes that of a file: no "/", nothing hidden, and no option of a command line.
std::string check_policy_name(const std::string& name) {
  constexpr std::size_t kMost = 64;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  if (name.empty() || name.size() > kMost || name.front() == '.' || name.front() == '-' ||
      !std::all_of(name.begin(), name.end(), plain)) {
    return "expected a name of a policy: letters, digits and the characters _ - .";
  }
  return {};
}

}  // namespace agentrun::policy
