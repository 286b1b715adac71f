#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/text.h"
#include "cli/commands.h"
#include "lifecycle/control.h"
#include "oci/state.h"

namespace agentrun::cli {
namespace {

std::string as_table(const std::vector<oci::State>& states) {
  using Row = std::array<std::string, 6>;
  std::vector<Row> rows{{"ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"}};
  for (const oci::State& state : states) {
    rows.push_back({state.id, std::to_string(state.pid), oci::name_of(state.status), text::printable(state.bundle),
                    state.created, state.owner});
  }
  std::array<std::size_t, 6> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string table;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) table += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    table += row.back() + '\n';
  }
  return table;
}

std::string as_json(const std::vector<oci::State>& states) {
  std::vector<std::string> objects;
  for (const oci::State& state : states) objects.push_back(oci::print_state(state, oci::Layout::compact));
  return '[' + text::join(objects, ",") + "]\n";
}

}  // namespace

Result<int> list_command(const Invocation& call) {
  std::string format = "table";
  bool quiet = false;
  OptionParser parser("list", "", "List the containers of this state root.");
  parser.text("format,f", "table|json", format, "how to print (default: table)").flag("quiet,q", quiet, "only the ids");
  const auto parsed = TRY(parser.operands(0, 0).parse(call.arguments));
  if (parsed.help) return print(parser.help());
  if (format != "table" && format != "json") return refusal("list --format", format, "must be table or json");

  const std::vector<oci::State> states = TRY(lifecycle::list(call.global));
  if (quiet) {
    std::string ids;
    for (const oci::State& state : states) ids += state.id + '\n';
    return print(ids);
  }
  return print(format == "json" ? as_json(states) : as_table(states));
}

}  // namespace agentrun::cli
