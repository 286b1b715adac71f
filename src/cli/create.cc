#include "lifecycle/create.h"

#include "cli/commands.h"

namespace agentrun::cli {

Result<int> create_command(const Invocation& call) {
  lifecycle::CreateOptions options;
  bool no_pivot = false, no_new_keyring = false;
  OptionParser parser("create", "ID", "Make a container from a bundle. Its program waits for `agentrun start ID`.");
  add_create_options(parser, options, no_pivot, no_new_keyring);
  const auto parsed = TRY(parser.operands(1, 1).parse(call.arguments));
  if (parsed.help) return print(parser.help());

  options.id = parsed.operands[0];
  options.pivot = !no_pivot;
  options.new_keyring = !no_new_keyring;
  TRY(lifecycle::create(call.global, options));
  return 0;
}

}  // namespace agentrun::cli
