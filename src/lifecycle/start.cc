#include "lifecycle/start.h"

#include <cerrno>

#include "backend/native/launch.h"
#include "lifecycle/starting.h"
#include "lifecycle/store.h"

namespace agentrun::lifecycle {
namespace {

Result<void> check_created(const std::string& id, oci::Status status) {
  switch (status) {
    case oci::Status::created:
      return ok();
    case oci::Status::running:
    case oci::Status::paused:
      return refusal("start", id, "cannot start an already running container");
    case oci::Status::stopped:
      return refusal("start", id, "cannot start a container that has stopped");
    case oci::Status::creating:
      break;
  }
  return refusal("start", id, "cannot start a container that is being created");
}

}  // namespace

Result<void> start(const Global& global, const std::string& id) {
  const Store store = TRY(Store::open(global.root));
  const Container container = TRY(store.lock(id));
  Record record = TRY(container.record());
  TRY(check_created(id, TRY(container.status(record))));
  const oci::Config config = TRY(container.config());
  if (!config.process) return refusal("start", id, "the config has no process");
  const bool audit = record.audit;
  return start_container(container, record, config, audit, [&]() -> Result<void> {
    auto started = native::start_waiting(container.directory());
    if (!started && started.error().code == ECONNREFUSED) {
      // Nobody waits there any more: an earlier start got as far as execve and was killed before it wrote so.
      return refusal("start", id, "cannot start an already running container");
    }
    return started;
  });
}

}  // namespace agentrun::lifecycle
