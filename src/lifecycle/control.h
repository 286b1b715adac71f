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

// To the container's process, by pidfd. "container not running" where it has ended and nothing of it is left. SIGKILL
// ends every process of the cgroup, also where the process is gone and others are left (a shared pid namespace). `all`:
// to every process of the cgroup; no error on one that has ended (engines call it so to be sure).
Result<void> kill(const Global& global, const std::string& id, int signal, bool all);

// Without `force`: only of a stopped container ("container X is not stopped"). With it: kills first, also while another
// operation holds the lock, also what a killed `create` left (by its intent), and a container that does not exist is
// success. Removes cgroup, state, supervisor, runs poststop hooks (their failure is a notice). What does not end within
// 10 s is an error, and everything stays: it is not gone.
Result<void> remove(const Global& global, const std::string& id, bool force);

Result<oci::State> state(const Global& global, const std::string& id);
Result<std::vector<oci::State>> list(const Global& global);

// The annotations of `state` and `list` are the config's and ours: org.agentrun.policy, .backend, .report (path of the
// report), .deadline (RFC 3339; before start its length), .exit.reason, .userns
// ("uids 100000-165535, gids 100000-165535": those of the host that only this container has).
Result<void> pause(const Global& global, const std::string& id);
Result<void> resume(const Global& global, const std::string& id);
Result<void> update(const Global& global, const std::string& id, const oci::Resources& resources);
Result<std::vector<pid_t>> processes(const Global& global, const std::string& id);

// report.json of the container, also after it was deleted: the store keeps the last 1,000 or so in <root>/.reports.
Result<policy::Report> report(const Global& global, const std::string& id);

}  // namespace agentrun::lifecycle
