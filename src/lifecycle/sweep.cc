// The third killer: any call of agentrun ends what is overdue, should supervisor and systemd both have failed.
#include <unistd.h>

#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "lifecycle/deadline_index.h"
#include "lifecycle/liveness.h"
#include "lifecycle/store_names.h"
#include "lifecycle/supervise.h"
#include "lifecycle/supervisor.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

// A supervisor that lives is killing at this moment; a sweep that came first would only race with it for the record.
constexpr std::int64_t kGraceUs = 2'000'000;
// A sweep is a part of somebody's command: it starts the kill and does not wait for the slow.
constexpr std::int64_t kWaitUs = 100'000;

Result<bool> kill_if_overdue(const Store& store, const std::string& id, const std::string& boot) {
  const auto container = TRY(store.look_up(id));
  if (!container) return false;
  const Record record = TRY(container->record());
  const std::int64_t at_us = overdue_at(record);
  const UniqueFd supervisor = TRY(sys::open_process(record.supervisor));
  const std::int64_t grace_us = supervisor ? kGraceUs : 0;
  if (at_us <= 0 || at_us + grace_us > clock::boottime_us()) return false;
  // Of an earlier boot: nothing of it is alive, and its clock was another.
  if (record.process.boot_id != boot) return false;
  const UniqueFd process = TRY(sys::open_process(record.process));
  const bool ended = !process || TRY(sys::wait_for_end(process.get(), 0));
  if (ended && (!cgroup_is_there(record.cgroup) || !TRY(sandbox::is_populated(record.cgroup)))) return false;
  TRY(kill_overdue(*container, record, process.get(), record.deadline.at_us > 0 ? "deadline" : "never started",
                   record.kill_pending ? 0 : kWaitUs));
  return true;
}

}  // namespace

Result<int> sweep(const Store& store) {
  const std::int64_t now_us = clock::boottime_us();
  const auto entries = TRY(overdue_entries(store.directory(), now_us));
  if (entries.empty()) return 0;
  const std::string boot = TRY(sys::boot_id());
  int killed = 0;
  for (const IndexEntry& entry : entries) {
    const auto result = kill_if_overdue(store, entry.id, boot);
    if (result && *result) {
      ++killed;
    } else if (result && entry.at_us + kGraceUs <= now_us) {
      // Ended, deleted, or moved: the entry has served.
      unindex_deadline(store.directory(), entry.id, entry.at_us);
    }
  }
  remove_leftovers(store.directory());
  return killed;
}

void sweep_root(const std::string& root) {
  const std::string path = root.empty() ? default_root() : root;
  if (access(path.c_str(), F_OK) != 0) return;
  const auto store = Store::open(path);
  if (!store) return;  // the command itself says why
  if (const auto swept = sweep(*store); !swept) log::write(log::Level::warning, "sweep: " + swept.error().message());
}

}  // namespace agentrun::lifecycle
