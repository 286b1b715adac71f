#include "backend/native/init.h"

#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <utility>

#include "backend/native/become.h"
#include "backend/native/protocol.h"
#include "backend/native/stage.h"
#include "base/log.h"
#include "base/text.h"
#include "base/trace.h"
#include "sandbox/capabilities.h"
#include "sandbox/executable.h"
#include "sandbox/network.h"
#include "sandbox/rootless.h"
#include "sandbox/sysctl.h"
#include "sandbox/terminal.h"
#include "sys/file.h"
#include "sys/mount.h"
#include "sys/process.h"
#include "sys/socket.h"

namespace agentrun::native {
namespace {

using oci::NamespaceType;

// The container's first process on its way from clone to execve. One object, so that what each step leaves for a later
// one has a name; the steps stand in the order in which they run.
class Init {
 public:
  Init(LaunchRequest& request, const sandbox::LastStep& last_step, UniqueFd socket, bool wait_for_parent)
      : request_(request),
        config_(request.effective->config),
        last_step_(last_step),
        socket_(std::move(socket)),
        wait_for_parent_(wait_for_parent) {}

  Result<void> run() {
    TRY(come_alive());
    TRY(enter_namespaces());
    TRY(build());
    TRY(settle());
    TRY(wait_for_start());
    return execute();
  }

  int error_fd() const { return error_fd_ >= 0 ? error_fd_ : socket_.get(); }

 private:
  Result<void> come_alive();
  Result<void> enter_namespaces();
  Result<void> take_ids_inside();
  Result<void> name_host();
  Result<void> build();
  Result<void> settle();
  Result<void> open_console();
  Result<void> wait_for_start();
  Result<void> accept_start();
  Result<void> execute();
  sandbox::RootRequest root_request() const;

  LaunchRequest& request_;
  const oci::Config& config_;
  const sandbox::LastStep& last_step_;
  UniqueFd socket_;
  bool wait_for_parent_;
  pid_t host_pid_ = 0;  // ours, as the runtime sees it
  UniqueFd procfs_, gate_, place_, programs_;
  sandbox::Terminal terminal_;
  std::string executable_;
  std::vector<std::string> env_;
  sandbox::CapabilitySets capabilities_;
  int error_fd_ = -1;
};

// Our pid in the runtime's pid namespace: its procfs is still the one at /proc.
pid_t read_host_pid() {
  char link[32] = {};
  const ssize_t length = readlink("/proc/self", link, sizeof link - 1);
  if (length <= 0) return 0;
  const auto pid = text::parse_unsigned(std::string_view(link, static_cast<std::size_t>(length)));
  return pid ? static_cast<pid_t>(*pid) : 0;
}

Result<void> Init::come_alive() {
  TRY(tell(socket_.get(), Kind::alive));
  if (wait_for_parent_) TRY(expect(socket_.get(), Kind::go));
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  host_pid_ = read_host_pid();
  return ok();
}

Result<void> Init::take_ids_inside() {
  // Ids that the maps do not have show as the overflow id; the one that we take owns what we are about to make.
  TRY(sandbox::take_ids_inside(config_.linux));
  // Changing ids made us non-dumpable, and then /proc/self belongs to the host's root. Nobody but the caller's own
  // processes can see us here; it is undone before anything hostile runs.
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  return ok();
}

Result<void> Init::name_host() {
  if (request_.plan->creates(NamespaceType::uts) || request_.plan->joins(NamespaceType::uts)) {
    if (!config_.hostname.empty() && sethostname(config_.hostname.data(), config_.hostname.size()) != 0) {
      return errno_error("sethostname", config_.hostname);
    }
    if (!config_.domainname.empty() && setdomainname(config_.domainname.data(), config_.domainname.size()) != 0) {
      return errno_error("setdomainname", config_.domainname);
    }
  } else if (!config_.hostname.empty() || !config_.domainname.empty()) {
    return refusal("set hostname", config_.hostname, "it would be the host's: the config has no uts namespace");
  }
  return ok();
}

Result<void> Init::enter_namespaces() {
  if (!needs_stage(*request_.plan)) TRY(sandbox::join_namespaces(*request_.plan));
  request_.plan->join.clear();
  if (request_.plan->creates(NamespaceType::user)) {
    if (auto place = sys::open(request_.rootfs, O_PATH | O_DIRECTORY)) place_ = std::move(*place);
    TRY(take_ids_inside());
  }
  // Rooted at the container's own cgroup, where we are by now (pitfalls of cgroup_namespaces(7)).
  if (request_.plan->creates(NamespaceType::cgroup) && !request_.cgroup && unshare(CLONE_NEWCGROUP) != 0) {
    return errno_error("unshare", "cgroup namespace");
  }
  if (setsid() < 0 && errno != EPERM) return errno_error("setsid");
  if (request_.new_keyring) {
    // ENOSYS: a kernel without keys, or an outer filter that says so; there is nothing to share then.
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr) < 0 && errno != ENOSYS && errno != EPERM) {
      return errno_error("join", "session keyring");
    }
  }
  TRY(name_host());
  if (request_.plan->creates(NamespaceType::network)) TRY(sandbox::loopback_up());
  trace::step("namespaces");
  return ok();
}

sandbox::RootRequest Init::root_request() const {
  sandbox::RootRequest root;
  root.effective = request_.effective;
  root.sources = request_.sources;
  root.bundle = request_.bundle;
  root.rootfs = request_.rootfs;
  root.rootfs_fd = request_.rootfs_fd.get();
  root.place = place_.get();
  root.new_user_namespace = request_.plan->creates(NamespaceType::user);
  root.pid_namespace = oci::find_namespace(config_, NamespaceType::pid) != nullptr;
  root.pivot = request_.pivot;
  root.cgroups = request_.cgroups;
  return root;
}

Result<void> Init::build() {
  const sandbox::RootRequest root = root_request();
  TRY(sandbox::build_root(root));
  trace::step("mounts");
  if (request_.parent.runtime_hooks) {
    TRY(tell(socket_.get(), Kind::root_built));
    TRY(expect(socket_.get(), Kind::go));
  }
  if (request_.child.container_hooks) TRY(request_.child.container_hooks(host_pid_));
  log::silence();
  TRY(sandbox::enter_root(root));
  place_.reset();
  trace::step("root entered");
  return ok();
}

Result<void> Init::open_console() {
  terminal_ = TRY(sandbox::open_terminal(config_.process->console_size));
  TRY(sandbox::give_terminal(terminal_, config_.process->user.uid));
  TRY(sandbox::bind_console(terminal_));
  if (request_.console_socket) {
    TRY(sandbox::send_terminal(request_.console_socket.get(), terminal_));
    terminal_.master.reset();
    request_.console_socket.reset();
  }
  // Now, not at start: what is at 0 to 2 until here is the engine's, and one that reads it to its end (go-runc, for
  // containerd) would wait for the end of create until a start that comes after it.
  TRY(sandbox::take_terminal(terminal_));
  terminal_.slave.reset();
  return ok();
}

Result<void> Init::settle() {
  const bool sysctls = !config_.linux.sysctl.empty();
  if (sysctls || (config_.process && wants_procfs(*config_.process))) {
    procfs_ = TRY(sys::new_mount("proc", {}, 0));
  }
  if (sysctls) TRY(sandbox::write_sysctls(procfs_.get(), config_.linux.sysctl));
  if (!config_.process) return ok();
  const oci::Process& process = *config_.process;
  if (process.capabilities) capabilities_ = TRY(sandbox::resolve_capabilities(*process.capabilities));
  if (process.terminal) TRY(open_console());
  TRY(sandbox::enter_directory(process.cwd));
  std::vector<std::string> extra = listen_environment(request_.listen_fds);
  extra.insert(extra.end(), request_.extra.begin(), request_.extra.end());
  env_ = program_environment(process, extra);
  // Looked for now: a missing program is the error of create, not of start.
  executable_ = TRY(sandbox::find_executable(process.args.front(), env_));
  trace::step("executable");
  return ok();
}

Result<void> Init::wait_for_start() {
  // Of whatever is open, only this much may be seen by a process that shares our pid namespace while we wait.
  std::vector<int> keep = {socket_.get(), last_step_.program.get()};
  for (unsigned fd = 3; fd < 3 + request_.preserve_fds; ++fd) keep.push_back(static_cast<int>(fd));
  for (const UniqueFd* fd : {&procfs_, &request_.start_listener, &request_.seccomp_listener, &terminal_.master}) {
    if (fd->valid()) keep.push_back(fd->get());
  }
  std::vector<int> master;
  if (terminal_.master) master.push_back(terminal_.master.get());
  TRY(sys::close_all_but(keep));
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  TRY(tell(socket_.get(), Kind::ready, terminal_.name, master));
  terminal_.master.reset();

  Incoming order = TRY(listen_to(socket_.get()));
  if ((order.kind != Kind::start && order.kind != Kind::wait) || order.payload != std::to_string(order.fds.size()) ||
      order.fds.size() > 1) {
    // The runtime is gone: there is nobody left whose container this could be.
    return refusal("wait for", "start", "the runtime ended");
  }
  if (!order.fds.empty()) programs_ = std::move(order.fds.front());
  if (order.kind == Kind::wait) return accept_start();
  return ok();
}

Result<void> Init::accept_start() {
  socket_.reset();
  while (true) {
    gate_.reset(accept4(request_.start_listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!gate_) {
      if (errno == EINTR) continue;
      return errno_error("accept", "start");
    }
    const auto order = listen_to(gate_.get());
    if (order && order->kind == Kind::start) break;
    // A `start` that was killed half way: another may come.
  }
  error_fd_ = gate_.get();
  request_.start_listener.reset();
  return ok();
}

Result<void> Init::execute() {
  if (!config_.process) return refusal("start", "", "the config has no process");
  trace::step("start");
  if (request_.effective->empty_network) TRY(sandbox::ensure_empty_network());
  if (request_.child.start_hooks) TRY(request_.child.start_hooks(host_pid_));
  BecomeRequest become_request;
  become_request.process = &*config_.process;
  become_request.linux_config = &config_.linux;
  become_request.capabilities = capabilities_;
  become_request.last_step = &last_step_;
  become_request.executable = executable_;
  become_request.env = env_;
  become_request.programs = programs_.get();
  if (request_.effective->landlock) become_request.landlock = &*request_.effective->landlock;
  become_request.rootfs = request_.rootfs;
  become_request.procfs = procfs_.get();
  become_request.error_fd = error_fd();
  become_request.listener_fd = request_.seccomp_listener.get();
  if (request_.seccomp_listener) become_request.listener_message = request_.child.listener_message(host_pid_);
  become_request.preserve_fds = request_.preserve_fds;
  return become(become_request);
}

}  // namespace

void run_init(LaunchRequest& request, const sandbox::LastStep& last_step, UniqueFd socket, bool wait_for_parent) {
  // Until execve this is a copy of the runtime: nothing of it may be read, nor traced, by whoever sees this pid.
  // But where an ordinary user writes the id maps: /proc/PID would be root's, and neither we nor newuidmap(1) could. He
  // is the only one who sees it, in a pid namespace of its own; it ends with the `go` that follows the maps.
  prctl(PR_SET_DUMPABLE, request.maps_by_user ? 1 : 0, 0, 0, 0);
  Init init(request, last_step, std::move(socket), wait_for_parent);
  try {
    auto result = init.run();
    if (!result) {
      tell_failure(init.error_fd(), result.error());
      _exit(result.error().exit_status);
    }
  } catch (const std::exception& exception) {
    tell_failure(init.error_fd(), refusal("container process", "", exception.what()));
  }
  _exit(1);
}

}  // namespace agentrun::native
