#include "cli/commands.h"
#include "lifecycle/control.h"

namespace agentrun::cli {

Result<int> report_command(const Invocation& call) {
  bool json = false;
  OptionParser parser("report", "ID", "Print what the policy changed for a container, also after its end.");
  parser.flag("json", json, "as JSON");
  const auto parsed = TRY(parser.operands(1, 1).parse(call.arguments));
  if (parsed.help) return print(parser.help());
  const policy::Report report = TRY(lifecycle::report(call.global, parsed.operands[0]));
  return print(json ? policy::print_report(report) + '\n' : policy::explain_report(report));
}

}  // namespace agentrun::cli
