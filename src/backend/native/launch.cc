#include "backend/native/launch.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "backend/native/become.h"
#include "backend/native/init.h"
#include "backend/native/protocol.h"
#include "backend/native/stage.h"
#include "base/trace.h"
#include "sys/file.h"
#include "sys/process.h"
#include "sys/socket.h"

namespace agentrun::native {
namespace {

using oci::NamespaceType;

// Kills and reaps a process that did not get as far as it should, unless it is let go.
class Killer {
 public:
  Killer(pid_t pid, int pidfd) : pid_(pid), pidfd_(pidfd) {}
  Killer(const Killer&) = delete;
  Killer& operator=(const Killer&) = delete;
  ~Killer() {
    if (pid_ == 0) return;
    (void)sys::pidfd_send_signal(pidfd_, SIGKILL);
    (void)sys::wait_process(pid_);
  }
  void let_go() { pid_ = 0; }

 private:
  pid_t pid_;
  int pidfd_;
};

// New namespaces that the clone itself makes. A cgroup namespace is rooted where the process is when it is made: in the
// container's cgroup only if the clone puts it there.
std::uint64_t clone_flags(const LaunchRequest& request) {
  std::uint64_t flags = request.plan->create & ~static_cast<std::uint64_t>(CLONE_NEWTIME);
  if (!request.cgroup) flags &= ~static_cast<std::uint64_t>(CLONE_NEWCGROUP);
  return flags;
}

struct Child {
  sys::Cloned process;
  UniqueFd socket;
};

// One clone. Linux 6.18 kills a child at birth when the parent's cgroup and the target have seen a different number of
// cgroup.kill: it tells of it by ending without having said that it is alive, and then the process is attached instead.
Result<Child> clone_child(LaunchRequest& request, const sandbox::LastStep& last_step, bool wait_for_parent) {
  auto [ours, theirs] = TRY(sys::socket_pair(SOCK_SEQPACKET));
  Child child;
  if (needs_stage(*request.plan)) {
    child.process = TRY(clone_by_stage(request, last_step, ours, theirs));
  } else {
    child.process = TRY(sys::clone_process(clone_flags(request), request.cgroup.get()));
    if (child.process.pid == 0) {
      trace::enter_child();
      ours.reset();
      run_init(request, last_step, std::move(theirs), wait_for_parent);
    }
  }
  child.socket = std::move(ours);
  return child;
}

bool must_wait(const LaunchRequest& request) { return request.plan->creates(NamespaceType::user) || !request.cgroup; }

Result<Child> clone_until_alive(LaunchRequest& request, const sandbox::LastStep& last_step) {
  Child child = TRY(clone_child(request, last_step, must_wait(request)));
  const auto first = listen_to(child.socket.get());
  if (first && first->kind == Kind::alive) return child;
  Killer killer(child.process.pid, child.process.pidfd.get());
  if (!first) return first.error();
  if (!request.cgroup) return refusal("container process", "", "it ended at once");
  request.cgroup.reset();
  Child again = TRY(clone_child(request, last_step, true));
  Killer second(again.process.pid, again.process.pidfd.get());
  TRY(expect(again.socket.get(), Kind::alive));
  second.let_go();
  return again;
}

Result<void> answer_child(LaunchRequest& request, const Child& child, bool waits) {
  if (request.plan->creates(NamespaceType::user)) {
    TRY(sandbox::write_id_maps(child.process.pid, request.effective->config.linux));
    trace::step("id maps");
  }
  if (request.parent.place) TRY(request.parent.place(child.process.pid));
  trace::step("place in cgroups");
  if (waits) TRY(tell(child.socket.get(), Kind::go));
  return ok();
}

Result<void> serve_until_ready(LaunchRequest& request, const Child& child, Launched& launched) {
  if (request.parent.runtime_hooks) {
    TRY(expect(child.socket.get(), Kind::root_built));
    TRY(request.parent.runtime_hooks(child.process.pid));
    trace::step("createRuntime hooks");
    TRY(tell(child.socket.get(), Kind::go));
  }
  Incoming ready = TRY(expect(child.socket.get(), Kind::ready));
  trace::step("container process ready");
  launched.console = std::move(ready.payload);
  if (!ready.fds.empty()) launched.console_master = std::move(ready.fds.front());
  return ok();
}

// With the filters, where there are any; the number says so, so that one that is lost does not look like none.
Result<void> send_start(const Launched& launched, Kind kind) {
  if (!launched.programs) return tell(launched.socket.get(), kind, "0");
  return tell(launched.socket.get(), kind, "1", {launched.programs.get()});
}

// What the process said of its execve: nothing (its end of the socket closed by close-on-exec) is success.
Result<void> read_verdict(int socket, const std::string& what) {
  const sys::Message message = TRY(sys::receive_message(socket));
  if (message.end || message.data.empty()) return ok();
  if (static_cast<Kind>(message.data.front()) == Kind::failed) return decode_failure(message.data.substr(1));
  return sandbox::read_launch_failure(message.data, what);
}

}  // namespace

Result<Launched> launch(LaunchRequest& request) {
  const sandbox::LastStep last_step = TRY(sandbox::prepare_last_step());
  const bool had_cgroup = request.cgroup.valid();
  // Joining a pid namespace, an engine's own user namespace is what we were executed in, and /proc/PID is ours anyway.
  request.maps_by_user =
      request.plan->creates(NamespaceType::user) && !sys::is_host_root() && !request.plan->joins(NamespaceType::pid);
  Child child = TRY(clone_until_alive(request, last_step));
  trace::step("clone");
  Killer killer(child.process.pid, child.process.pidfd.get());
  // The child waits where it was told to at its clone: by now `cgroup` may be gone (see clone_child).
  TRY(answer_child(request, child, must_wait(request) || (had_cgroup && !request.cgroup)));
  Launched launched;
  if (request.parent.programs) launched.programs = TRY(request.parent.programs());
  trace::step("seccomp programs");
  if (request.parent.meanwhile) TRY(request.parent.meanwhile(child.process.pid));
  trace::step("meanwhile");
  // The child has its own. A thousand take their time to close, which now passes while it builds its root.
  if (request.sources != nullptr) request.sources->fds.clear();
  TRY(serve_until_ready(request, child, launched));
  killer.let_go();
  launched.pid = child.process.pid;
  launched.pidfd = std::move(child.process.pidfd);
  launched.socket = std::move(child.socket);
  return launched;
}

Result<void> leave_waiting(Launched& launched) { return send_start(launched, Kind::wait); }

Result<void> start_now(Launched& launched) {
  TRY(send_start(launched, Kind::start));
  return read_verdict(launched.socket.get(), "process");
}

Result<void> start_waiting(int container_directory) {
  const UniqueFd socket = TRY(sys::connect_at(container_directory, kStartSocket));
  TRY(tell(socket.get(), Kind::start));
  return read_verdict(socket.get(), "process");
}

}  // namespace agentrun::native
