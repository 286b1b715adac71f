#include "cli/commands.h"
#include "lifecycle/control.h"

namespace agentrun::cli {

Result<int> pause_command(const Invocation& call) {
  OptionParser parser("pause", "ID", "Freeze every process of a container.");
  const auto parsed = TRY(parser.operands(1, 1).parse(call.arguments));
  if (parsed.help) return print(parser.help());
  TRY(lifecycle::pause(call.global, parsed.operands[0]));
  return 0;
}

}  // namespace agentrun::cli
