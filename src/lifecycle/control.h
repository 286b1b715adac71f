// Everything that acts on a container which is there: kill, delete, pause, resume, update, state, list, ps, events.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "lifecycle/options.h"
#include "lifecycle/store.h"
#include "oci/config.h"
#include "oci/state.h"

namespace agentrun::lifecycle {

// "container not running" where it has ended; `all`: every process of the cgroup.
Result<void> kill(const Global& global, const std::string& id, int signal, bool all);

// Without `force`: only of a stopped container ("container X is not stopped"). With it: kills first, also what a killed
// `create` left (by its intent), and a container that does not exist is success. Removes cgroup, state, supervisor,
// runs poststop hooks (their failure is a notice).
Result<void> remove(const Global& global, const std::string& id, bool force);

Result<oci::State> state(const Global& global, const std::string& id);
Result<std::vector<oci::State>> list(const Global& global);

Result<void> pause(const Global& global, const std::string& id);
Result<void> resume(const Global& global, const std::string& id);
Result<void> update(const Global& global, const std::string& id, const oci::Resources& resources);
Result<std::vector<pid_t>> processes(const Global& global, const std::string& id);

// report.json of the container, also after it ended and was deleted: the store keeps the last reports (root:
// /var/lib/agentrun/reports).
Result<policy::Report> report(const Global& global, const std::string& id);

}  // namespace agentrun::lifecycle
