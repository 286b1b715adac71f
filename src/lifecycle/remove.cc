#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/log.h"
#include "lifecycle/control.h"
#include "lifecycle/hooks.h"
#include "lifecycle/liveness.h"
#include "lifecycle/private_ids.h"
#include "lifecycle/reports.h"
#include "lifecycle/supervisor.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

constexpr std::int64_t kKillWaitUs = 10'000'000;

// What there is to end and to remove, from the record, or from the intent where create never came to write one.
struct Remains {
  std::optional<Record> record;
  sandbox::CgroupLocation cgroup;
  sys::ProcessId creator;  // pid 0: unknown, or not of interest
  std::optional<policy::PrivateIds> private_ids;
};

// `force`: a record that cannot be read is no reason to keep what it describes; the intent names the cgroup too.
Result<Remains> remains_of(const Container& container, bool force) {
  Remains remains;
  auto record = container.record();
  if (record) {
    remains.cgroup = record->cgroup;
    remains.private_ids = record->private_ids;
    remains.record = std::move(*record);
    return remains;
  }
  if (record.error().code != ENOENT && !force) return record.error();
  if (const auto intent = container.intent()) {
    remains.cgroup = intent->cgroup;
    remains.creator = intent->creator;
    remains.private_ids = intent->private_ids;
  } else if (intent.error().code != ENOENT && !force) {
    return intent.error();
  }
  return remains;
}

Result<UniqueFd> process_of(const Remains& remains) {
  if (!remains.record) return UniqueFd();
  UniqueFd process = TRY(sys::open_process(remains.record->process));
  if (process && TRY(sys::wait_for_end(process.get(), 0))) process.reset();
  return process;
}

// An intent has no inode until the cgroup was made. Its name alone could by now mean the cgroup of a container that was
// created later with the same cgroupsPath: that one is not touched.
bool cgroup_of_another(const Store& store, const Remains& remains, const std::string& id) {
  if (remains.cgroup.inode != 0 || !has_cgroup(remains.cgroup)) return false;
  const auto ids = store.ids();
  if (!ids) return true;
  return std::any_of(ids->begin(), ids->end(), [&](const std::string& other) {
    if (other == id) return false;
    const auto container = store.look_up(other);
    if (!container || !*container) return false;
    const auto record = (*container)->record();
    return record && record->cgroup.v2 == remains.cgroup.v2 && record->cgroup.v1 == remains.cgroup.v1;
  });
}

// Before the lock: another operation may hold it for as long as the container lives (a hook that waits for it, say).
void kill_at_once(const Container& container) {
  const auto remains = remains_of(container, true);
  if (!remains || !remains->record) return;
  const auto process = process_of(*remains);
  if (!process) return;
  if (*process) {
    ExitNote note;
    note.reason = "killed";
    if (const auto before = container.exit_note(); before && !*before) {
      static_cast<void>(container.write_exit_note(note));
    }
  }
  static_cast<void>(kill_everything(remains->cgroup, process->get(), 0));
}

Result<void> check_creator_is_dead(const Remains& remains, const std::string& id) {
  const UniqueFd creator = TRY(sys::open_process(remains.creator));
  if (!creator || TRY(sys::wait_for_end(creator.get(), 0))) return ok();
  return refusal("container " + id + " is not stopped", "",
                 "process " + std::to_string(remains.creator.pid) + " is creating it");
}

Result<void> check_stopped(const Container& container, const Remains& remains) {
  if (!remains.record) return ok();
  const oci::Status status = TRY(container.status(*remains.record));
  if (status == oci::Status::stopped) return ok();
  return refusal("container " + container.id() + " is not stopped", "", oci::name_of(status));
}

// Ends every process, also those that a shared pid namespace let outlive the container's own.
Result<void> end_all(const Remains& remains, const std::string& id) {
  const UniqueFd process = TRY(process_of(remains));
  if (TRY(kill_everything(remains.cgroup, process.get(), kKillWaitUs))) return ok();
  return refusal("container " + id, "", "kill pending: a process in uninterruptible sleep does not end");
}

void run_poststop(const Container& container, const Record& record) {
  const auto config = container.config();
  if (!config) return log::write(log::Level::warning, config.error().message());
  oci::State state;
  state.id = record.id;
  state.status = oci::Status::stopped;
  state.bundle = record.bundle;
  state.annotations = record.annotations;
  if (const auto ran = run_hooks("poststop", config->hooks.poststop, state); !ran) {
    log::write(log::Level::warning, ran.error().message());
  }
}

// The lock is held.
Result<void> take_apart(const Store& store, Container& container, bool force) {
  const Remains remains = TRY(remains_of(container, force));
  TRY(check_creator_is_dead(remains, container.id()));
  if (!force) TRY(check_stopped(container, remains));
  if (!cgroup_of_another(store, remains, container.id())) {
    TRY(end_all(remains, container.id()));
    // A cgroup that is gone may have left parents, or a unit, that are ours all the same; one that is another's is not.
    if (has_cgroup(remains.cgroup) && cgroup_is_ours_or_gone(remains.cgroup)) {
      TRY(sandbox::remove_cgroup(remains.cgroup));
    }
  }
  if (remains.record) {
    end_supervisor(container, *remains.record);
    run_poststop(container, *remains.record);
  }
  if (const auto kept = keep_report(container); !kept) log::write(log::Level::warning, kept.error().message());
  TRY(container.remove());
  // Last: while the container says that it has the ids, nobody else does.
  if (remains.private_ids) TRY(release_private_ids(*remains.private_ids, store.path(), container.id()));
  return ok();
}

}  // namespace

Result<void> remove(const Global& global, const std::string& id, bool force) {
  const Store store = TRY(Store::open(global.root));
  if (!force) {
    Container container = TRY(store.lock(id));
    return take_apart(store, container, false);
  }
  const auto found = TRY(store.look_up(id));
  if (!found) return ok();
  kill_at_once(*found);
  auto locked = TRY(store.lock_if_there(id));
  if (!locked) return ok();  // another delete was faster
  return take_apart(store, *locked, true);
}

}  // namespace agentrun::lifecycle
