// What stands before the command: `agentrun [GLOBAL OPTIONS] COMMAND ...`.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "lifecycle/options.h"

namespace agentrun::cli {

struct GlobalOptions {
  lifecycle::Global global;
  log::Sink sink;
  std::string trace_file;
  bool version = false;
  bool help = false;
  std::vector<std::string> rest;  // the command and its arguments
};

// On an error `options` holds what was read until then: the error itself belongs into the log that an earlier option
// named.
Result<void> parse_global_options(const std::vector<std::string>& arguments, GlobalOptions& options);

// What `agentrun --help` prints.
std::string global_help();

}  // namespace agentrun::cli
