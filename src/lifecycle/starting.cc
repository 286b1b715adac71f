#include "lifecycle/starting.h"

#include <csignal>

#include "base/clock.h"
#include "base/trace.h"
#include "lifecycle/audit.h"
#include "lifecycle/audit_events.h"
#include "lifecycle/hooks.h"
#include "lifecycle/making.h"
#include "lifecycle/supervisor.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

Result<void> arm(const Container& container, Record& record) {
  if (record.deadline.length_us == 0) return ok();
  // Once armed it stays where it is: a start that was killed half way must not buy the next one more time.
  const std::int64_t deadline =
      record.deadline.at_us != 0 ? record.deadline.at_us : clock::boottime_us() + record.deadline.length_us;
  record.deadline.at_us = deadline;
  TRY(container.write_record(record));
  record.supervisor = TRY(arm_supervisor(container, record, deadline));
  trace::step("deadline armed");
  return ok();
}

Result<void> run_poststart(const Record& record, const oci::Config& config) {
  if (config.hooks.poststart.empty()) return ok();
  auto ran =
      run_hooks("poststart", config.hooks.poststart, hook_state(record, oci::Status::running, record.process.pid));
  if (ran) return ok();
  const auto process = sys::open_process(record.process);
  if (process && process->valid()) (void)sys::pidfd_send_signal(process->get(), SIGKILL);
  return ran;
}

}  // namespace

Result<void> start_container(const Container& container, Record& record, const oci::Config& config, bool audit,
                             const std::function<Result<void>()>& release) {
  TRY(arm(container, record));
  // Before the program runs: what cannot be recorded does not start.
  if (audit) TRY(append_audit("start", record.id, start_fields(record)));
  TRY(release());
  trace::step("program runs");
  record.started = true;
  TRY(container.write_record(record));
  return run_poststart(record, config);
}

}  // namespace agentrun::lifecycle
