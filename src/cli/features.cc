#include "oci/features.h"

#include "cli/commands.h"

namespace agentrun::cli {

Result<int> features_command(const Invocation& call) {
  OptionParser parser("features", "", "Print what this runtime can, as the OCI features structure.");
  const auto parsed = TRY(parser.operands(0, 0).parse(call.arguments));
  return print(parsed.help ? parser.help() : oci::print_features() + '\n');
}

}  // namespace agentrun::cli
