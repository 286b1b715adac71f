#include "lifecycle/start.h"

#include "cli/commands.h"

namespace agentrun::cli {

Result<int> start_command(const Invocation& call) {
  OptionParser parser("start", "ID", "Let the program of a created container run, and arm its deadline.");
  const auto parsed = TRY(parser.operands(1, 1).parse(call.arguments));
  if (parsed.help) return print(parser.help());
  TRY(lifecycle::start(call.global, parsed.operands[0]));
  return 0;
}

}  // namespace agentrun::cli
