#include "cli/commands.h"
#include "lifecycle/control.h"

namespace agentrun::cli {

Result<int> resume_command(const Invocation& call) {
  OptionParser parser("resume", "ID", "Thaw a frozen container.");
  const auto parsed = TRY(parser.operands(1, 1).parse(call.arguments));
  if (parsed.help) return print(parser.help());
  TRY(lifecycle::resume(call.global, parsed.operands[0]));
  return 0;
}

}  // namespace agentrun::cli
