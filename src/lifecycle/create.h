// create, and the first half of run.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lifecycle/options.h"
#include "lifecycle/store.h"
#include "oci/config.h"

namespace agentrun::lifecycle {

struct CreateOptions {
  std::string id;
  std::string bundle;  // default: the working directory
  std::string config;  // --config FILE; empty: <bundle>/config.json
  std::string pid_file, console_socket, pidfd_socket;
  bool pivot = true;
  bool new_keyring = true;
  unsigned preserve_fds = 0;
};

Result<void> create(const Global& global, const CreateOptions& options);

struct RunOptions {
  CreateOptions create;
  bool detach = false;
  bool keep = false;  // do not delete afterwards
  // When its root is built and its program does not run yet; an error ends it. Empty: nothing.
  std::function<Result<void>(pid_t pid)> before_start;
};

// The program's exit code (128 + signal). With detach: 0 once it has started.
Result<int> run(const Global& global, const RunOptions& options);

// What `agentrun sandbox` needs beyond run: a config of its own making, never written to a file that a tenant can
// reach.
struct Outcome {
  int code = 0;  // of the program
  bool signalled = false;
  std::string reason;  // "exited", "signalled", "deadline", "oom", ...
  std::int64_t wall_us = 0, cpu_us = 0, memory_peak = 0;
  std::string policy, backend;
  policy::Report report;
};
Result<Outcome> run_config(const Global& global, const RunOptions& options, const oci::Config& config);

}  // namespace agentrun::lifecycle
