#include "oci/state.h"

#include "cli/commands.h"
#include "lifecycle/control.h"

namespace agentrun::cli {

Result<int> state_command(const Invocation& call) {
  OptionParser parser("state", "ID", "Print the state of a container as JSON.");
  const auto parsed = TRY(parser.operands(1, 1).parse(call.arguments));
  if (parsed.help) return print(parser.help());
  const oci::State state = TRY(lifecycle::state(call.global, parsed.operands[0]));
  return print(oci::print_state(state, oci::Layout::indented) + '\n');
}

}  // namespace agentrun::cli
