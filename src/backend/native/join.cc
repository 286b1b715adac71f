#include "backend/native/join.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
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
#include "sandbox/identity.h"
#include "sandbox/last_step.h"
#include "sandbox/namespaces.h"
#include "sandbox/rootless.h"
#include "sandbox/terminal.h"
#include "sys/file.h"
#include "sys/mount.h"
#include "sys/process.h"
#include "sys/socket.h"

namespace agentrun::native {
namespace {

using oci::NamespaceType;

constexpr std::array<NamespaceType, 8> kTypes = {NamespaceType::user, NamespaceType::pid,  NamespaceType::network,
                                                 NamespaceType::ipc,  NamespaceType::uts,  NamespaceType::cgroup,
                                                 NamespaceType::time, NamespaceType::mount};

// The name in /proc/PID/ns.
const char* link_name(NamespaceType type) {
  switch (type) {
    case NamespaceType::network:
      return "net";
    case NamespaceType::mount:
      return "mnt";
    default:
      return oci::name_of(type);
  }
}

// Those in which the target is and we are not: setns refuses a user namespace that one is in already.
Result<int> foreign_namespaces(pid_t target) {
  int flags = 0;
  for (const NamespaceType type : kTypes) {
    struct stat ours {};
    struct stat theirs {};
    const std::string name = link_name(type);
    const std::string path = "/proc/" + std::to_string(target) + "/ns/" + name;
    if (stat(("/proc/self/ns/" + name).c_str(), &ours) != 0) {
      if (errno == ENOENT) continue;  // a kernel without that kind
      return errno_error("stat", name + " namespace");
    }
    if (stat(path.c_str(), &theirs) != 0) return errno_error("stat", path);
    if (ours.st_ino != theirs.st_ino || ours.st_dev != theirs.st_dev) flags |= sandbox::clone_flag(type);
  }
  return flags;
}

// The joining process, from its clone to execve.
class Joiner {
 public:
  // `late`: namespaces that the stage has left to us (see clone_member).
  Joiner(JoinRequest& request, const sandbox::LastStep& last_step, UniqueFd socket, bool in_user_namespace, int late)
      : request_(request),
        process_(*request.process),
        last_step_(last_step),
        socket_(std::move(socket)),
        in_user_namespace_(in_user_namespace),
        late_(late) {}

  int socket() const { return socket_.get(); }

  Result<void> run() {
    TRY(tell(socket_.get(), Kind::alive));
    const Incoming go = TRY(expect(socket_.get(), Kind::go));
    const auto host_pid = text::parse_unsigned(go.payload);
    if (!host_pid) return refusal("exec process", "", "unexpected message in its protocol");
    if (late_ != 0 && setns(request_.target_pidfd, late_) != 0) {
      return errno_error("setns", "cgroup namespace of the container");
    }
    // After the cgroup, whose cpuset would undo it.
    const auto& affinity = process_.exec_cpu_affinity;
    if (affinity && !affinity->final.empty()) TRY(sandbox::set_affinity(affinity->final));
    // Ids from outside have no name in here; capabilities over the namespace came with setns.
    if (in_user_namespace_) TRY(sandbox::take_ids_inside(*request_.linux_config));
    if (setsid() < 0) return errno_error("setsid");
    UniqueFd procfs;
    if (wants_procfs(process_)) procfs = TRY(sys::new_mount("proc", {}, 0));
    if (process_.terminal) TRY(open_console());
    TRY(sandbox::enter_directory(process_.cwd));
    BecomeRequest become_request;
    become_request.process = &process_;
    become_request.linux_config = request_.linux_config;
    if (process_.capabilities) {
      become_request.capabilities = TRY(sandbox::resolve_capabilities(*process_.capabilities));
    }
    become_request.last_step = &last_step_;
    become_request.env = program_environment(process_, listen_environment(request_.listen_fds));
    become_request.executable = TRY(sandbox::find_executable(process_.args.front(), become_request.env));
    become_request.programs = request_.programs.get();
    become_request.landlock = request_.landlock;
    become_request.rootfs = request_.rootfs;
    become_request.joins = true;
    become_request.procfs = procfs.get();
    become_request.error_fd = socket_.get();
    become_request.listener_fd = request_.seccomp_listener.get();
    if (request_.seccomp_listener) {
      become_request.listener_message = request_.listener_message(static_cast<pid_t>(*host_pid));
    }
    become_request.preserve_fds = request_.preserve_fds;
    return become(become_request);
  }

 private:
  Result<void> open_console() {
    sandbox::Terminal terminal = TRY(sandbox::open_terminal(process_.console_size));
    TRY(sandbox::give_terminal(terminal, process_.user.uid));
    if (request_.console_socket) {
      TRY(sandbox::send_terminal(request_.console_socket.get(), terminal));
    } else {
      TRY(tell(socket_.get(), Kind::process, terminal.name, {terminal.master.get()}));
    }
    terminal.master.reset();
    return sandbox::take_terminal(terminal);
  }

  JoinRequest& request_;
  const oci::Process& process_;
  const sandbox::LastStep& last_step_;
  UniqueFd socket_;
  bool in_user_namespace_;
  int late_;
};

[[noreturn]] void run_joiner(JoinRequest& request, const sandbox::LastStep& last_step, UniqueFd socket,
                             bool in_user_namespace, int late) {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  log::silence();
  Joiner joiner(request, last_step, std::move(socket), in_user_namespace, late);
  try {
    auto result = joiner.run();
    if (!result) {
      tell_failure(joiner.socket(), result.error());
      _exit(result.error().exit_status);
    }
  } catch (const std::exception& exception) {
    tell_failure(joiner.socket(), refusal("exec process", "", exception.what()));
  }
  _exit(1);
}

// What the stage does before it clones: all namespaces at once, then the container's root, which is not the root of its
// mount namespace where pivot_root was not used.
Result<void> enter(const JoinRequest& request, int flags, const UniqueFd& root) {
  // Before the process is in the container's cgroup it runs on the CPUs of execCPUAffinity.initial.
  const auto& affinity = request.process->exec_cpu_affinity;
  if (affinity && !affinity->initial.empty()) TRY(sandbox::set_affinity(affinity->initial));
  if (request.process->oom_score_adj) {
    // Here, where nobody of the container sees us yet: not being dumpable makes /proc/self the host's root's.
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    TRY(sandbox::set_oom_score_adj(*request.process->oom_score_adj));
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  }
  if (flags != 0 && setns(request.target_pidfd, flags) != 0) return errno_error("setns", "namespaces of the container");
  if (fchdir(root.get()) != 0) return errno_error("chdir", "root of the container");
  if (chroot(".") != 0) return errno_error("chroot", "root of the container");
  return ok();
}

// What the joining process may hold from its birth on: CAP_SYS_PTRACE, where the container has it and no user
// namespace, opens /proc/PID/fd of a process that is not dumpable too, and a directory of the host's among them is the
// host (CVE-2016-9962). Of these only `cgroup` leads to one; see detach_cgroup.
std::vector<int> needed_fds(const JoinRequest& request, const sandbox::LastStep& last_step, int root, int socket) {
  std::vector<int> fds = {request.target_pidfd, last_step.program.get(), root, socket};
  for (const UniqueFd* fd : {&request.cgroup, &request.console_socket, &request.seccomp_listener, &request.programs}) {
    if (fd->valid()) fds.push_back(fd->get());
  }
  for (unsigned fd = 3; fd < 3 + request.preserve_fds; ++fd) fds.push_back(static_cast<int>(fd));
  return fds;
}

// The cgroup by a mount of its own, whose root it is: "fd/.." ends there. Without CAP_SYS_ADMIN there is no such mount,
// and nobody in the container is over us either.
void detach_cgroup(JoinRequest& request) {
  if (!request.cgroup) return;
  if (auto detached = sys::clone_mount(request.cgroup.get(), "", false)) request.cgroup = std::move(*detached);
}

struct Member {
  sys::Cloned process;
  UniqueFd socket;
};

// See clone_child in launch.cc for why a clone into a cgroup can be dead at birth.
Result<Member> clone_member(JoinRequest& request, const sandbox::LastStep& last_step, int flags, const UniqueFd& root) {
  auto [ours, theirs] = TRY(sys::socket_pair(SOCK_SEQPACKET));
  Member member;
  // Where cgroup v2 is mounted with nsdelegate, as systemd does, a cgroup namespace is a border: from inside of the
  // container's the clone would come from a cgroup that is not to be seen there, and that is ENOENT.
  const int late = request.cgroup ? flags & CLONE_NEWCGROUP : 0;
  // Without CLONE_NEW flags of its own: it goes where the stage is.
  member.process =
      TRY(clone_sibling([&] { return enter(request, flags & ~late, root); }, 0, request.cgroup.get(),
                        [&, &our_end = ours, &their_end = theirs] {
                          our_end.reset();
                          run_joiner(request, last_step, std::move(their_end), (flags & CLONE_NEWUSER) != 0, late);
                        },
                        needed_fds(request, last_step, root.get(), theirs.get())));
  member.socket = std::move(ours);
  return member;
}

void end_member(const Member& member) {
  (void)sys::pidfd_send_signal(member.process.pidfd.get(), SIGKILL);
  (void)sys::wait_process(member.process.pid);
}

Result<Member> clone_until_alive(JoinRequest& request, const sandbox::LastStep& last_step, int flags,
                                 const UniqueFd& root) {
  Member member = TRY(clone_member(request, last_step, flags, root));
  auto first = expect(member.socket.get(), Kind::alive);
  if (first) return member;
  end_member(member);
  if (!request.cgroup) return std::move(first).error();
  request.cgroup.reset();
  Member again = TRY(clone_member(request, last_step, flags, root));
  if (auto alive = expect(again.socket.get(), Kind::alive); !alive) {
    end_member(again);
    return std::move(alive).error();
  }
  return again;
}

Result<void> follow(JoinRequest& request, const Member& member, Joined& joined) {
  if (request.place) TRY(request.place(member.process.pid));
  TRY(tell(member.socket.get(), Kind::go, std::to_string(member.process.pid)));
  while (true) {
    const sys::Message message = TRY(sys::receive_message(member.socket.get()));
    if (message.end || message.data.empty()) return ok();
    const auto kind = static_cast<Kind>(message.data.front());
    if (kind == Kind::failed) return decode_failure(message.data.substr(1));
    if (kind != Kind::process || message.fds.size() != 1) {
      return sandbox::read_launch_failure(message.data, request.process->args.front());
    }
    joined.console_master = TRY(sys::duplicate(message.fds.front().get()));
  }
}

}  // namespace

Result<Joined> join(JoinRequest& request) {
  const sandbox::LastStep last_step = TRY(sandbox::prepare_last_step());
  const int flags = TRY(foreign_namespaces(request.target));
  detach_cgroup(request);
  const UniqueFd root = TRY(sys::open("/proc/" + std::to_string(request.target) + "/root", O_PATH | O_DIRECTORY));
  // Only now is it sure that what we looked at under the pid was the container's process: its pidfd says that it lives.
  TRY(sys::pidfd_send_signal(request.target_pidfd, 0));
  const Member member = TRY(clone_until_alive(request, last_step, flags, root));
  trace::step("joined");
  Joined joined;
  if (auto followed = follow(request, member, joined); !followed) {
    end_member(member);
    return std::move(followed).error();
  }
  joined.pid = member.process.pid;
  joined.pidfd = TRY(sys::duplicate(member.process.pidfd.get()));
  return joined;
}

}  // namespace agentrun::native
