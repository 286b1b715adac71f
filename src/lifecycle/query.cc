// state, list, ps, report: what reads and never locks.
#include <pwd.h>

#include <cerrno>

#include "base/clock.h"
#include "base/text.h"
#include "lifecycle/control.h"
#include "lifecycle/liveness.h"
#include "lifecycle/reports.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

void put(oci::Annotations& annotations, const char* name, const std::string& value) {
  if (!value.empty()) annotations[std::string("org.agentrun.") + name] = value;
}

std::string deadline_text(const Deadline& deadline) {
  if (deadline.at_us > 0) return clock::rfc3339(clock::realtime_us() + deadline.at_us - clock::boottime_us());
  return deadline.length_us > 0 ? text::print_duration(deadline.length_us) : std::string();
}

std::string ids_text(const std::optional<policy::PrivateIds>& ids) {
  if (!ids) return {};
  const auto range = [&](std::uint32_t first) {
    return std::to_string(first) + "-" + std::to_string(first + (ids->size - 1));
  };
  return "uids " + range(ids->uid) + ", gids " + range(ids->gid);
}

// A directory without a record: create is at it, or was killed in the middle. What is left is of no process any more,
// so an engine may delete it.
Result<oci::State> state_without_record(const Container& container) {
  oci::State state;
  state.id = container.id();
  state.status = oci::Status::creating;
  if (const auto intent = container.intent()) {
    const UniqueFd creator = TRY(sys::open_process(intent->creator));
    if (!creator || TRY(sys::wait_for_end(creator.get(), 0))) state.status = oci::Status::stopped;
  }
  return state;
}

Result<oci::State> state_of(const Store& store, const Container& container) {
  const auto record = container.record();
  if (!record) {
    if (record.error().code == ENOENT) return state_without_record(container);
    return record.error();
  }
  oci::State state;
  state.id = record->id;
  state.status = TRY(container.status(*record));
  if (state.status != oci::Status::stopped) state.pid = record->process.pid;
  state.bundle = record->bundle;
  state.rootfs = record->rootfs;
  state.created = record->created;
  state.owner = record->owner;
  state.annotations = record->annotations;
  put(state.annotations, "policy", record->policy);
  put(state.annotations, "backend", record->backend);
  put(state.annotations, "report", store.path() + "/" + record->id + "/report.json");
  put(state.annotations, "deadline", deadline_text(record->deadline));
  put(state.annotations, "userns", ids_text(record->private_ids));
  std::string reason = record->exit_reason;
  if (record->kill_pending) reason += " (kill pending)";
  put(state.annotations, "exit.reason", reason);
  return state;
}

}  // namespace

Result<oci::State> state(const Global& global, const std::string& id) {
  const Store store = TRY(Store::open(global.root));
  const Container container = TRY(store.find(id));
  return state_of(store, container);
}

Result<std::vector<oci::State>> list(const Global& global) {
  const Store store = TRY(Store::open(global.root));
  std::vector<oci::State> states;
  for (const std::string& id : TRY(store.ids())) {
    // Gone since the listing, half made, or unreadable: one container must not hide all the others.
    const auto container = store.look_up(id);
    if (!container || !*container) continue;
    auto known = state_of(store, **container);
    if (known) {
      states.push_back(std::move(*known));
    } else if (store.look_up(id)) {
      oci::State unknown;
      unknown.id = id;
      unknown.status = oci::Status::stopped;
      states.push_back(std::move(unknown));
    }
  }
  return states;
}

Result<std::vector<pid_t>> processes(const Global& global, const std::string& id) {
  const Store store = TRY(Store::open(global.root));
  const Container container = TRY(store.find(id));
  const Record record = TRY(container.record());
  if (!has_cgroup(record.cgroup)) {
    return refusal("processes of container", id, "it has no cgroup, so they are not known");
  }
  if (!cgroup_is_there(record.cgroup)) return std::vector<pid_t>();
  return sandbox::cgroup_processes(record.cgroup);
}

Result<policy::Report> report(const Global& global, const std::string& id) {
  const Store store = TRY(Store::open(global.root));
  const auto container = TRY(store.look_up(id));
  if (container) return container->report();
  return kept_report(store, id);
}

}  // namespace agentrun::lifecycle
