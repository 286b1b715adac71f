#include "lifecycle/exec.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "backend/native/join.h"
#include "backend/native/seal.h"
#include "base/log.h"
#include "base/text.h"
#include "base/trace.h"
#include "lifecycle/audit.h"
#include "lifecycle/audit_events.h"
#include "lifecycle/descriptors.h"
#include "lifecycle/filters.h"
#include "lifecycle/foreground.h"
#include "lifecycle/handover.h"
#include "lifecycle/making.h"
#include "lifecycle/private_ids.h"
#include "lifecycle/store.h"
#include "oci/parse.h"
#include "policy/harden.h"
#include "sandbox/affinity.h"
#include "sandbox/capabilities.h"
#include "sandbox/cgroup.h"
#include "sandbox/identity.h"
#include "sandbox/labels.h"
#include "sandbox/last_step.h"
#include "sys/file.h"
#include "sys/landlock.h"
#include "sys/process.h"
#include "sys/socket.h"

namespace agentrun::lifecycle {
namespace {

constexpr std::int64_t kKillWait = 5'000'000;  // microseconds

Result<std::uint32_t> parse_numeric_id(std::string_view text, const char* what) {
  const auto id = text::parse_unsigned(text);
  // (uint32_t)-1 is "no change" to setuid and its kin: never an id.
  if (!id || *id >= 0xFFFFFFFFu) return refusal("exec", std::string(what) + " " + std::string(text), "not an id");
  return static_cast<std::uint32_t>(*id);
}

// "uid" or "uid:gid". CVE-2026-30892: text that was no number, taken for 0.
Result<void> apply_user(const std::string& user, oci::User& target) {
  const auto parts = text::split(user, ':');
  if (parts.size() > 2) return refusal("exec", "user " + user, "expected uid[:gid]");
  target.uid = TRY(parse_numeric_id(parts[0], "user"));
  if (parts.size() == 2) target.gid = TRY(parse_numeric_id(parts[1], "group"));
  return ok();
}

// --cap adds to what the process may use, never to what it hands on: inheritable and ambient stay as they are
// (CVE-2022-29162).
void add_capabilities(const std::vector<std::string>& names, oci::Process& process) {
  if (names.empty()) return;
  if (!process.capabilities) process.capabilities.emplace();
  oci::Capabilities& sets = *process.capabilities;
  for (const std::string& name : names) {
    for (auto* set : {&sets.bounding, &sets.effective, &sets.permitted}) {
      if (std::find(set->begin(), set->end(), name) == set->end()) set->push_back(name);
    }
  }
}

Result<oci::Process> process_from_options(const ExecOptions& options, const oci::Process& container) {
  oci::Process process = container;
  process.terminal = options.tty;
  process.console_size.reset();
  process.args = options.args;
  process.env.insert(process.env.end(), options.env.begin(), options.env.end());
  if (!options.cwd.empty()) process.cwd = options.cwd;
  if (!options.user.empty()) TRY(apply_user(options.user, process.user));
  for (const std::string& gid : options.additional_gids) {
    process.user.additional_gids.push_back(TRY(parse_numeric_id(gid, "group")));
  }
  if (!options.apparmor.empty()) process.apparmor_profile = options.apparmor;
  if (!options.process_label.empty()) process.selinux_label = options.process_label;
  add_capabilities(options.capabilities, process);
  process.no_new_privileges = process.no_new_privileges || options.no_new_privileges;
  return process;
}

Result<oci::Process> wanted_process(const ExecOptions& options, const oci::Config& config) {
  if (!options.process_file.empty()) {
    const std::string text = TRY(sys::read_file(options.process_file, oci::kConfigSizeLimit, true));
    oci::Process process = TRY(oci::parse_process(text, options.process_file));
    if (options.tty) process.terminal = true;
    return process;
  }
  if (!config.process) return refusal("exec", options.id, "the container has no process to take defaults from");
  if (options.args.empty()) return refusal("exec", options.id, "no command is given");
  return process_from_options(options, *config.process);
}

Result<void> check_running(const ExecOptions& options, oci::Status status) {
  if (status == oci::Status::running || status == oci::Status::created) return ok();
  if (status == oci::Status::paused) {
    if (options.ignore_paused) return ok();
    return refusal("exec", options.id, "cannot exec in a paused container");
  }
  return refusal("exec", options.id, "cannot exec in a stopped container: container not running");
}

bool holds(const std::vector<std::string>& set, const char* name) {
  return std::find(set.begin(), set.end(), name) != set.end();
}

// Can a process of the container look into ours before its execve? Not being dumpable stops all but CAP_SYS_PTRACE over
// our own user namespace.
bool container_can_trace(const oci::Config& config) {
  if (oci::find_namespace(config, oci::NamespaceType::user) != nullptr) return false;
  if (!config.process || !config.process->capabilities) return false;
  const oci::Capabilities& sets = *config.process->capabilities;
  return holds(sets.bounding, "CAP_SYS_PTRACE") || holds(sets.permitted, "CAP_SYS_PTRACE");
}

// One exec, from what is stored of the container to a process that runs in it.
class Executor {
 public:
  Executor(const Store& store, const Container& container, const ExecOptions& options)
      : store_(store), container_(container), options_(options) {}

  Result<void> prepare() {
    record_ = TRY(container_.record());
    TRY(check_running(options_, TRY(container_.status(record_))));
    config_ = TRY(container_.config());
    if (container_can_trace(config_)) TRY(native::run_from_read_only_clone());
    policy_ = TRY(policy::parse_policy(TRY(container_.policy_json()), record_.policy));
    const Descriptors passed = TRY(passed_descriptors(options_.preserve_fds));
    request_.preserve_fds = passed.count;
    request_.listen_fds = passed.listen;
    policy::Report report;
    process_ = TRY(policy::harden_exec(TRY(wanted_process(options_, config_)), config_, policy_, report));
    TRY(sandbox::check_labels(process_));
    // Its notices are written here, where the log file is.
    if (process_.capabilities) TRY(sandbox::resolve_capabilities(*process_.capabilities));
    // The container's own, with the additions as they are now: they only deny, so that it is never less.
    filters_ = TRY(plan_filters(config_.linux, policy_.seccomp.program));
    target_ = TRY(sys::open_process(record_.process));
    if (!target_) return refusal("exec", options_.id, "container not running");
    if (!options_.console_socket.empty()) {
      if (!process_.terminal) {
        return refusal("open", "console socket " + options_.console_socket, "the process has no terminal");
      }
      request_.console_socket = TRY(sys::connect_stream(options_.console_socket));
    } else if (process_.terminal && options_.detach) {
      return refusal("exec", options_.id, "a terminal with --detach needs --console-socket");
    }
    return ok();
  }

  Result<native::Joined> run() {
    TRY(prepare_cgroup());
    request_.process = &process_;
    request_.linux_config = &config_.linux;
    request_.target = record_.process.pid;
    request_.target_pidfd = target_.get();
    policy::Facts facts;
    facts.landlock_abi = sys::landlock_abi();
    landlock_ = TRY(policy::landlock_for_exec(config_, policy_, facts));
    if (landlock_) request_.landlock = &*landlock_;
    request_.rootfs = record_.rootfs;
    request_.programs = TRY(sandbox::seal_programs(TRY(filters_for(store_, config_.linux, filters_))));
    TRY(connect_agent());
    request_.place = [this](pid_t pid) { return place(pid); };
    auto joined = native::join(request_);
    if (!joined) {
      remove_own_cgroup();
      return joined;
    }
    auto handed = hand_over(options_.pid_file, options_.pidfd_socket, joined->pid, joined->pidfd.get());
    if (!handed) {
      (void)sys::pidfd_send_signal(joined->pidfd.get(), SIGKILL);
      (void)sys::wait_process(joined->pid);
      remove_own_cgroup();
      return std::move(handed).error();
    }
    return joined;
  }

  void remove_own_cgroup() {
    if (!own_cgroup_) return;
    (void)sandbox::kill_cgroup(cgroup_, kKillWait);
    if (auto removed = sandbox::remove_cgroup(cgroup_); !removed) {
      log::write(log::Level::warning, removed.error().message());
    }
  }

 private:
  Result<void> connect_agent() {
    const oci::State state = hook_state(record_, oci::Status::running, record_.process.pid);
    request_.seccomp_listener = TRY(connect_listener(config_.linux, state));
    request_.listener_message = [this, state](pid_t pid) { return listener_message(config_.linux, state, pid); };
    return ok();
  }

  // Its own child of the container's cgroup where that can be, so that it can be killed alone.
  Result<void> prepare_cgroup() {
    cgroup_ = record_.cgroup;
    if (record_.cgroup.v2.empty() || !record_.cgroup.v1.empty()) {
      if (!options_.cgroup.empty()) {
        return refusal("exec", "--cgroup " + options_.cgroup, "needs a host with cgroup v2 alone");
      }
      return ok();
    }
    const std::string name = options_.cgroup.empty() ? "exec-" + std::to_string(getpid()) : options_.cgroup;
    cgroup_ = TRY(sandbox::child_cgroup(record_.cgroup, name));
    own_cgroup_ = options_.cgroup.empty() && cgroup_.v2 != record_.cgroup.v2;
    if (own_cgroup_) TRY(sandbox::create_cgroup(cgroup_, cgroup_request(), nullptr));
    request_.cgroup = TRY(sandbox::clone_target(cgroup_));
    return ok();
  }

  sandbox::CgroupRequest cgroup_request() const {
    sandbox::CgroupRequest request;
    request.id = options_.id;
    request.manager = record_.cgroup.manager;
    return request;
  }

  Result<void> place(pid_t pid) {
    if (oci::find_namespace(config_, oci::NamespaceType::user) != nullptr) {
      sandbox::raise_hard_limits(pid, process_.rlimits);
    }
    if (record_.private_ids) TRY(give_streams(*record_.private_ids, process_.user));
    TRY(sandbox::join_cgroup(cgroup_, pid, request_.cgroup.valid()));
    if (policy_.limits.cpu_mask) TRY(sandbox::copy_affinity(record_.process.pid, pid));
    if (policy_.audit.enable) TRY(append_audit("exec", options_.id, exec_fields(record_, process_, pid)));
    return ok();
  }

  const Store& store_;
  const Container& container_;
  const ExecOptions& options_;
  Record record_;
  oci::Config config_;
  policy::Policy policy_;
  oci::Process process_;
  std::optional<policy::LandlockRules> landlock_;
  FilterPlan filters_;
  UniqueFd target_;
  native::JoinRequest request_;
  sandbox::CgroupLocation cgroup_;
  bool own_cgroup_ = false;
};

}  // namespace

Result<int> exec(const Global& global, const ExecOptions& options) {
  TRY(check_id(options.id));
  const Store store = TRY(Store::open(global.root));
  const Container container = TRY(store.find(options.id));
  Executor executor(store, container, options);
  TRY(executor.prepare());
  if (options.detach) {
    TRY(executor.run());
    return 0;
  }
  Foreground foreground = TRY(Foreground::open());
  native::Joined joined = TRY(executor.run());
  auto status = foreground.wait(joined.pid, joined.pidfd.get(), std::move(joined.console_master), nullptr);
  executor.remove_own_cgroup();
  if (!status) return std::move(status).error();
  return status->code();
}

}  // namespace agentrun::lifecycle
