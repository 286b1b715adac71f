// What create, run and sandbox share: from a config to a container whose process waits for its start.
#pragma once

#include <memory>
#include <string>

#include "backend/native/launch.h"
#include "base/result.h"
#include "lifecycle/create.h"
#include "lifecycle/options.h"
#include "lifecycle/store.h"
#include "oci/config.h"
#include "policy/harden.h"

namespace agentrun::lifecycle {

// A container that was made, with its lock held. Unless it is kept, its destructor takes all of it away again: process,
// supervisor, cgroup, pid file, directory.
class Making {
 public:
  explicit Making(Container made) : container(std::move(made)) {}
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
  ~Making();

  void keep() { kept_ = true; }

  Container container;
  Record record;
  policy::Effective effective;
  native::Launched launched;
  std::string pid_file;

 private:
  bool kept_ = false;
};

// Reads <bundle>/config.json (or --config).
Result<oci::Config> read_config(const CreateOptions& options);

// `config` as read_config gave it, or of the caller's own making. By value: with a thousand mounts each copy is felt.
Result<std::unique_ptr<Making>> make_container(const Global& global, const CreateOptions& options, oci::Config config);

// The state for hooks and engines.
oci::State hook_state(const Record& record, oci::Status status, pid_t pid);

}  // namespace agentrun::lifecycle
