#include "lifecycle/create.h"

#include <utility>

#include "backend/native/launch.h"
#include "base/trace.h"
#include "lifecycle/making.h"

namespace agentrun::lifecycle {

Result<void> create(const Global& global, const CreateOptions& options) {
  oci::Config config = TRY(read_config(options));
  if (config.process && config.process->terminal && options.console_socket.empty()) {
    return refusal("create", options.id, "process.terminal needs --console-socket: create cannot hold a terminal");
  }
  const auto making = TRY(make_container(global, options, std::move(config)));
  TRY(native::leave_waiting(making->launched));
  making->keep();
  trace::step("created");
  return ok();
}

}  // namespace agentrun::lifecycle
