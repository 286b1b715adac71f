#include <cerrno>
#include <csignal>

#include "lifecycle/audit.h"
#include "lifecycle/control.h"
#include "lifecycle/liveness.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

// The text that containerd, CRI-O and Docker match.
Error not_running(const std::string& id) { return refusal("container not running", "", id); }

bool something_left(const Record& record) {
  if (!cgroup_is_there(record.cgroup)) return false;
  const auto populated = sandbox::is_populated(record.cgroup);
  return populated && *populated;
}

// SIGKILL means the container, not one process of it: with a shared pid namespace the others would live on (runc#4047).
Result<void> kill_all_of_it(const Container& container, const Record& record, int pidfd) {
  if (pidfd < 0 && !something_left(record)) return not_running(record.id);
  const auto before = container.exit_note();
  if (before && !*before) {
    ExitNote note;
    note.reason = "killed";
    static_cast<void>(container.write_exit_note(note));  // a full disk does not save the container
  }
  TRY(kill_everything(record.cgroup, pidfd, 0));
  return ok();
}

Result<void> signal_it(const Record& record, int pidfd, int signal, bool all) {
  if (all && cgroup_is_there(record.cgroup)) return sandbox::signal_cgroup(record.cgroup, signal);
  if (pidfd < 0) return all ? ok() : Result<void>(not_running(record.id));
  auto sent = sys::pidfd_send_signal(pidfd, signal);
  if (!sent && sent.error().code == ESRCH) return all ? ok() : Result<void>(not_running(record.id));
  return sent;
}

}  // namespace

// Without the lock: a start or an exec that hangs must not keep anybody from killing the container.
Result<void> kill(const Global& global, const std::string& id, int signal, bool all) {
  const Store store = TRY(Store::open(global.root));
  const Container container = TRY(store.find(id));
  const auto record = container.record();
  if (!record) return record.error().code == ENOENT ? not_running(id) : record.error();
  UniqueFd process = TRY(sys::open_process(record->process));
  if (process && TRY(sys::wait_for_end(process.get(), 0))) process.reset();
  if (signal == SIGKILL && (process || !all || something_left(*record))) {
    TRY(kill_all_of_it(container, *record, process.get()));
  } else {
    TRY(signal_it(*record, process.get(), signal, all));
  }
  // After the signal: an audit trail that cannot be written fails the command, never the kill.
  if (!record->audit || signal == 0) return ok();
  const std::string fields = std::string("\"signal\":\"") + sys::signal_name(signal) +
                             "\",\"number\":" + std::to_string(signal) + ",\"all\":" + (all ? "true" : "false");
  return append_audit("kill", id, fields);
}

}  // namespace agentrun::lifecycle
