#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>

#include "backend/native/launch.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/trace.h"
#include "lifecycle/control.h"
#include "lifecycle/create.h"
#include "lifecycle/foreground.h"
#include "lifecycle/making.h"
#include "lifecycle/starting.h"
#include "sandbox/cgroup.h"
#include "sandbox/cgroup_metrics.h"

namespace agentrun::lifecycle {
namespace {

std::int64_t microseconds(const timeval& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000 + time.tv_usec;
}

// How it ended, in one word. The supervisor writes its reason before it kills.
std::string reason_of(const Container& container, const Record& record, const sys::ExitStatus& status) {
  const auto latest = container.record();
  if (latest && !latest->exit_reason.empty()) return latest->exit_reason;
  if (!WIFSIGNALED(status.status)) return "exited";
  const auto kills = sandbox::oom_kills(record.cgroup);
  if (WTERMSIG(status.status) == SIGKILL && kills && *kills > 0) return "oom";
  return "signalled";
}

void add_usage(const Record& record, const rusage& usage, Outcome& outcome) {
  outcome.cpu_us = microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
  outcome.memory_peak = static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
  const auto metrics = sandbox::read_metrics(record.cgroup);
  if (!metrics) return;
  if (metrics->cpu_usage_us) outcome.cpu_us = static_cast<std::int64_t>(*metrics->cpu_usage_us);
  if (metrics->memory_peak) outcome.memory_peak = static_cast<std::int64_t>(*metrics->memory_peak);
}

Result<std::unique_ptr<Making>> make_and_start(const Global& global, const RunOptions& options, oci::Config config) {
  auto making = TRY(make_container(global, options.create, std::move(config)));
  if (options.before_start) TRY(options.before_start(making->launched.pid));
  TRY(start_container(making->container, making->record, making->effective.config, making->effective.audit,
                      [&] { return native::start_now(making->launched); }));
  making->keep();
  // It runs, perhaps for a day: pause, update and delete of others must not wait for its end.
  making->container.unlock();
  return making;
}

Result<Outcome> wait_for(Foreground& foreground, Making& making) {
  Outcome outcome;
  outcome.policy = making.record.policy;
  outcome.backend = making.record.backend;
  outcome.report = making.effective.report;
  const std::int64_t began = clock::boottime_us();
  rusage usage{};
  const auto status = foreground.wait(making.launched.pid, making.launched.pidfd.get(),
                                      std::move(making.launched.console_master), &usage);
  if (!status) return status.error();
  outcome.wall_us = clock::boottime_us() - began;
  outcome.code = status->code();
  outcome.signalled = WIFSIGNALED(status->status);
  outcome.reason = reason_of(making.container, making.record, *status);
  add_usage(making.record, usage, outcome);
  return outcome;
}

Result<Outcome> run_here(const Global& global, const RunOptions& options, oci::Config config) {
  // Processes that the container's own leave behind come to us and end with the container, not to init.
  if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return errno_error("set", "child subreaper");
  Foreground foreground = TRY(Foreground::open());
  auto making = TRY(make_and_start(global, options, std::move(config)));
  auto outcome = wait_for(foreground, *making);
  if (!options.keep) {
    making.reset();
    if (auto removed = remove(global, options.create.id, true); !removed) return std::move(removed).error();
  }
  trace::step("removed");
  return outcome;
}

}  // namespace

Result<Outcome> run_config(const Global& global, const RunOptions& options, const oci::Config& config) {
  return run_here(global, options, config);
}

Result<int> run(const Global& global, const RunOptions& options) {
  oci::Config config = TRY(read_config(options.create));
  if (!config.process) return refusal("run", options.create.id, "the config has no process");
  if (options.detach) {
    if (config.process->terminal && options.create.console_socket.empty()) {
      return refusal("run", options.create.id, "process.terminal with --detach needs --console-socket");
    }
    TRY(make_and_start(global, options, std::move(config)));
    return 0;
  }
  const Outcome outcome = TRY(run_here(global, options, std::move(config)));
  return outcome.code;
}

}  // namespace agentrun::lifecycle
