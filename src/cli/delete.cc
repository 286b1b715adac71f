#include "cli/commands.h"
#include "lifecycle/control.h"

namespace agentrun::cli {

Result<int> delete_command(const Invocation& call) {
  bool force = false;
  OptionParser parser("delete", "ID", "Remove a stopped container and everything that it left on the host.");
  parser.flag("force,f", force, "kill it first; a container that does not exist is no error");
  const auto parsed = TRY(parser.operands(1, 1).parse(call.arguments));
  if (parsed.help) return print(parser.help());
  TRY(lifecycle::remove(call.global, parsed.operands[0], force));
  return 0;
}

}  // namespace agentrun::cli
