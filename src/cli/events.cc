#include "lifecycle/events.h"

#include "base/text.h"
#include "cli/commands.h"

namespace agentrun::cli {

Result<int> events_command(const Invocation& call) {
  bool once = false;
  std::int64_t interval = 5'000'000;
  OptionParser parser(
      "events", "ID",
      "Print what happens to a container, one JSON object a line, until it ends: \"stats\" in intervals, "
      "\"oom\" whenever the kernel killed in it for memory.");
  parser.flag("stats", once, "print the stats once and stop")
      .value(
          "interval", "DURATION",
          [&interval](std::string_view value) -> Result<void> {
            interval = TRY(text::parse_duration(value));
            if (interval <= 0) return refusal("", "", "must be more than 0");
            return ok();
          },
          "time between two stats (default: 5s)");
  const auto parsed = TRY(parser.operands(1, 1).parse(call.arguments));
  if (parsed.help) return print(parser.help());

  const auto emit = [](const std::string& line) -> Result<void> {
    TRY(print(line));
    return ok();
  };
  const std::string& id = parsed.operands[0];
  if (once) {
    TRY(lifecycle::stats(call.global, id, emit));
  } else {
    TRY(lifecycle::follow_events(call.global, id, interval, emit));
  }
  return 0;
}

}  // namespace agentrun::cli
