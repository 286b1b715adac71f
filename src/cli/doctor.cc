#include <algorithm>
#include <string>

#include "base/text.h"
#include "cli/commands.h"
#include "lifecycle/doctor.h"
#include "oci/json_writer.h"

namespace agentrun::cli {
namespace {

using lifecycle::Finding;
using lifecycle::Health;

const char* name_of(Health health) {
  switch (health) {
    case Health::ok:
      return "ok";
    case Health::limited:
      return "limited";
    case Health::missing:
      break;
  }
  return "missing";
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width > text.size() ? width - text.size() : 0, ' ') + "  ";
}

std::string table(const std::vector<Finding>& findings) {
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.name.size());
  constexpr std::size_t kStateWidth = 7;
  std::string result;
  for (const Finding& finding : findings) {
    const std::string lead = padded(finding.name, width);
    result += lead + padded(name_of(finding.health), kStateWidth) + text::printable(finding.detail) + '\n';
    if (finding.remedy.empty()) continue;
    result += std::string(lead.size() + kStateWidth + 2, ' ') + "-> " + text::printable(finding.remedy) + '\n';
  }
  result += lifecycle::enforces_strict(findings) ? "The policy strict can be enforced here.\n"
                                                 : "The policy strict cannot be enforced here.\n";
  return result;
}

std::string json(const std::vector<Finding>& findings) {
  oci::JsonWriter out(oci::Layout::indented);
  out.begin_object();
  out.member("strict", lifecycle::enforces_strict(findings));
  out.key("mechanisms");
  out.begin_array();
  for (const Finding& finding : findings) {
    out.begin_object();
    out.member("name", finding.name);
    out.member("state", name_of(finding.health));
    out.member("needed", finding.needed);
    out.member("detail", finding.detail);
    out.member_if_set("remedy", finding.remedy);
    out.end_object();
  }
  out.end_array();
  out.end_object();
  return out.take() + '\n';
}

}  // namespace

Result<int> doctor_command(const Invocation& call) {
  bool as_json = false;
  OptionParser parser("doctor", "",
                      "Say what this host can enforce, and how to get what it cannot. Nothing is changed.");
  parser.flag("json", as_json, "as JSON");
  const auto parsed = TRY(parser.operands(0, 0).parse(call.arguments));
  if (parsed.help) return print(parser.help());
  const std::vector<Finding> findings = lifecycle::examine_host(call.global);
  TRY(print(as_json ? json(findings) : table(findings)));
  return lifecycle::enforces_strict(findings) ? 0 : 1;
}

}  // namespace agentrun::cli
