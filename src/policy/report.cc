#include <algorithm>
#include <array>

#include "base/text.h"
#include "oci/json_reader.h"
#include "policy/change_log.h"
#include "policy/harden.h"

namespace agentrun::policy {
namespace {

constexpr std::int64_t kVersion = 1;
// A report is as large as what it is about; the config is 16 MiB at most, and a list may be in it twice.
constexpr std::size_t kSizeLimit = 64u << 20;

}  // namespace

// before and after are JSON texts in strings: what reads a report again need not write numbers as we do.
static Result<void> from_json(const oci::JsonReader& in, Change& out) {
  TRY(in.require("pointer", out.pointer));
  TRY(in.read("before", out.before));
  TRY(in.read("after", out.after));
  return in.require("rule", out.rule);
}

static Result<void> from_json(const oci::JsonReader& in, Report& out) {
  std::int64_t version = 0;
  TRY(in.require("version", version));
  if (version != kVersion) return in.error_at("version", "expected 1: a later release wrote this report");
  TRY(in.require("policy", out.policy));
  TRY(in.read("changes", out.changes));
  return in.read("notes", out.notes);
}

std::string print_report(const Report& report) {
  std::string changes = "[";
  for (const auto& change : report.changes) {
    if (changes.size() > 1) changes += ',';
    changes += json_object({{"pointer", json_text(change.pointer)},
                            {"before", change.before.empty() ? "" : json_text(change.before)},
                            {"after", change.after.empty() ? "" : json_text(change.after)},
                            {"rule", json_text(change.rule)}});
  }
  changes += ']';
  return json_object({{"version", json_text(kVersion)},
                      {"policy", json_text(report.policy)},
                      {"changes", changes},
                      {"notes", json_text(report.notes)}});
}

Result<Report> parse_report(std::string_view json, std::string_view name) {
  const auto document = TRY(oci::JsonDocument::parse(json, name, kSizeLimit, oci::UnknownKeys::ignored));
  Report report;
  TRY(document.read(report));
  return report;
}

namespace {

using Row = std::array<std::string, 4>;
const Row kHeadings = {"POINTER", "BEFORE", "AFTER", "RULE"};
constexpr std::array<std::size_t, 4> kWidths = {56, 40, 40,
                                                48};  // characters; of a cell that is longer the middle is cut

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Characters, not bytes: what printable() leaves is valid UTF-8.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !continues(c); }));
}

std::size_t offset_of(std::string_view text, std::size_t character) {
  std::size_t offset = 0;
  for (; offset < text.size(); ++offset) {
    if (!continues(text[offset]) && character-- == 0) break;
  }
  return offset;
}

// Both ends of a long text tell more than its beginning: "/linux/sysctl/net.ipv4...", a list's first and last entry.
std::string cell(std::string_view raw, std::size_t most) {
  constexpr std::string_view kCut = "...";
  // A hostile megabyte is not made printable first and cut then.
  std::string text;
  if (raw.size() > 4 * most + 64) {
    text = text::printable(raw.substr(0, 2 * most)) + text::printable(raw.substr(raw.size() - 2 * most));
  } else {
    text = text::printable(raw);
  }
  const std::size_t length = width(text);
  if (length <= most) return text;
  const std::size_t head = (most - kCut.size()) * 2 / 3;
  const std::size_t tail = most - kCut.size() - head;
  return text.substr(0, offset_of(text, head)) + std::string(kCut) + text.substr(offset_of(text, length - tail));
}

// Bytes as people write them; "-" for what is not there.
std::string shown(const std::string& pointer, const std::string& json) {
  if (json.empty()) return "-";
  if (pointer.starts_with("/linux/resources/memory/")) {
    if (const auto bytes = text::parse_signed(json); bytes && *bytes >= 1024) return text::print_size(*bytes);
  }
  return json;
}

}  // namespace

std::string explain_report(const Report& report) {
  std::string result = "policy: " + cell(report.policy, 256) + "\n";
  if (report.changes.empty()) result += "nothing was changed\n";
  std::vector<Row> rows;
  if (!report.changes.empty()) rows.push_back(kHeadings);
  for (const auto& change : report.changes) {
    const Row raw = {change.pointer, shown(change.pointer, change.before), shown(change.pointer, change.after),
                     change.rule};
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = cell(raw[i], kWidths[i]);
  }
  std::array<std::size_t, 4> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      result += row[i];
      if (i + 1 < row.size()) result.append(widths[i] - width(row[i]) + 2, ' ');
    }
    result += '\n';
  }
  for (const auto& note : report.notes) result += "note: " + cell(note, 256) + "\n";
  return result;
}

}  // namespace agentrun::policy
