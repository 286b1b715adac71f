#include "cli/commands.h"
#include "lifecycle/control.h"
#include "sys/process.h"

namespace agentrun::cli {

Result<int> kill_command(const Invocation& call) {
  bool all = false;
  OptionParser parser(
      "kill", "ID [SIGNAL]",
      "Send a signal to the container's process: a number or a name, with or without SIG (default: TERM).");
  parser.flag("all,a", all, "to every process of the container");
  const auto parsed = TRY(parser.operands(1, 2).parse(call.arguments));
  if (parsed.help) return print(parser.help());

  const std::string name = parsed.operands.size() > 1 ? parsed.operands[1] : "TERM";
  const auto signal = sys::parse_signal(name);
  if (!signal) return refusal("kill", name, "no such signal");
  TRY(lifecycle::kill(call.global, parsed.operands[0], *signal, all));
  return 0;
}

}  // namespace agentrun::cli
