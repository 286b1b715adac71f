#include "cli/commands.h"
#include "lifecycle/create.h"

namespace agentrun::cli {

Result<int> run_command(const Invocation& call) {
  lifecycle::RunOptions options;
  bool no_pivot = false, no_new_keyring = false, no_subreaper = false;
  OptionParser parser("run", "ID",
                      "Create a container, start it, wait for its end, delete it. The exit status is the program's.");
  add_create_options(parser, options.create, no_pivot, no_new_keyring);
  parser.flag("detach,d", options.detach, "do not wait for the end")
      .flag("keep", options.keep, "do not delete the container afterwards")
      .flag("no-subreaper", no_subreaper, "accepted for callers that know runc, without effect");
  const auto parsed = TRY(parser.operands(1, 1).parse(call.arguments));
  if (parsed.help) return print(parser.help());

  options.create.id = parsed.operands[0];
  options.create.pivot = !no_pivot;
  options.create.new_keyring = !no_new_keyring;
  return lifecycle::run(call.global, options);
}

}  // namespace agentrun::cli
