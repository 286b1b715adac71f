#include "backend/native/stage.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "backend/native/init.h"
#include "backend/native/protocol.h"
#include "base/text.h"
#include "base/trace.h"
#include "sys/file.h"
#include "sys/socket.h"

namespace agentrun::native {
namespace {

using oci::NamespaceType;

Result<void> write_time_offsets(const oci::Linux& linux_config) {
  std::string text;
  for (const auto& [clock, offset] : linux_config.time_offsets) {
    text += clock + " " + std::to_string(offset.secs) + " " + std::to_string(offset.nanosecs) + "\n";
  }
  if (text.empty()) return ok();
  return sys::write_file("/proc/self/timens_offsets", text);
}

Result<void> prepare_stage(const LaunchRequest& request) {
  TRY(sandbox::join_namespaces(*request.plan));
  if ((request.plan->create & CLONE_NEWTIME) != 0) {
    if (unshare(CLONE_NEWTIME) != 0) return errno_error("unshare", "time namespace");
    TRY(write_time_offsets(request.effective->config.linux));
  }
  return ok();
}

// The pid of a pidfd in our own pid namespace: what the stage calls its sibling is a number of another one.
Result<pid_t> pid_of(int pidfd) {
  const std::string info = TRY(sys::read_file("/proc/self/fdinfo/" + std::to_string(pidfd)));
  for (const std::string_view line : text::split(info, '\n')) {
    if (!line.starts_with("Pid:")) continue;
    const auto pid = text::parse_unsigned(text::trim(line.substr(4)));
    if (pid && *pid != 0) return static_cast<pid_t>(*pid);
  }
  return os_error(ESRCH, "find", "container process");
}

// In the stage. Returns only on failure, and in nobody else's place.
Result<void> run_stage(const std::function<Result<void>()>& prepare, std::uint64_t flags, int cgroup,
                       const std::function<void()>& body, const UniqueFd& report) {
  TRY(prepare());
  // A sibling's exit signal is the stage's own, SIGCHLD: clone3 takes none together with CLONE_PARENT.
  sys::Cloned sibling = TRY(sys::clone_process(flags | CLONE_PARENT, cgroup));
  if (sibling.pid == 0) {
    body();
    _exit(1);
  }
  return tell(report.get(), Kind::process, {}, {sibling.pidfd.get()});
}

Result<void> close_others(std::vector<int> keep, int report) {
  if (keep.empty()) return ok();
  keep.push_back(report);
  return sys::close_all_but(keep);
}

}  // namespace

bool needs_stage(const sandbox::NamespacePlan& plan) {
  // A new user namespace has no rights over namespaces that are there already: they are joined before it is made.
  if (plan.creates(NamespaceType::user) && !plan.join.empty()) return true;
  return plan.joins(NamespaceType::user) || plan.joins(NamespaceType::pid) || plan.joins(NamespaceType::time) ||
         (plan.create & CLONE_NEWTIME) != 0;
}

Result<sys::Cloned> clone_sibling(const std::function<Result<void>()>& prepare, std::uint64_t flags, int cgroup,
                                  const std::function<void()>& body, const std::vector<int>& keep) {
  auto [report, theirs] = TRY(sys::socket_pair(SOCK_SEQPACKET));
  const sys::Cloned stage = TRY(sys::clone_process(0));
  if (stage.pid == 0) {
    report.reset();
    // From the first setns on we may be visible to the container: it must not read our memory nor reach our fds
    // (CVE-2016-9962).
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    auto done = close_others(keep, theirs.get());
    if (done) done = run_stage(prepare, flags, cgroup, body, theirs);
    if (!done) tell_failure(theirs.get(), done.error());
    _exit(0);
  }
  theirs.reset();
  auto incoming = expect(report.get(), Kind::process);
  TRY(sys::wait_process(stage.pid));
  if (!incoming) return std::move(incoming).error();
  if (incoming->fds.size() != 1) return refusal("container process", "", "no pidfd came with it");
  sys::Cloned cloned;
  cloned.pidfd = std::move(incoming->fds.front());
  cloned.pid = TRY(pid_of(cloned.pidfd.get()));
  return cloned;
}

Result<sys::Cloned> clone_by_stage(LaunchRequest& request, const sandbox::LastStep& last_step, UniqueFd& ours,
                                   UniqueFd& theirs) {
  std::uint64_t flags = request.plan->create & ~static_cast<std::uint64_t>(CLONE_NEWTIME);
  if (!request.cgroup) flags &= ~static_cast<std::uint64_t>(CLONE_NEWCGROUP);
  const bool wait = request.plan->creates(NamespaceType::user) || !request.cgroup;
  return clone_sibling([&] { return prepare_stage(request); }, flags, request.cgroup.get(),
                       [&] {
                         trace::enter_child();
                         ours.reset();
                         run_init(request, last_step, std::move(theirs), wait);
                       });
}

}  // namespace agentrun::native
