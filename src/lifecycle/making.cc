#include "lifecycle/making.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "backend/native/seal.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/trace.h"
#include "lifecycle/audit.h"
#include "lifecycle/audit_events.h"
#include "lifecycle/cpu_table.h"
#include "lifecycle/descriptors.h"
#include "lifecycle/filters.h"
#include "lifecycle/guard.h"
#include "lifecycle/handover.h"
#include "lifecycle/hooks.h"
#include "lifecycle/host_settings.h"
#include "lifecycle/notify.h"
#include "lifecycle/owner.h"
#include "lifecycle/private_ids.h"
#include "lifecycle/resolve.h"
#include "lifecycle/supervisor.h"
#include "lifecycle/trusted_file.h"
#include "oci/parse.h"
#include "sandbox/capabilities.h"
#include "sandbox/cgroup.h"
#include "sandbox/disk_store.h"
#include "sandbox/identity.h"
#include "sandbox/labels.h"
#include "sandbox/last_step.h"
#include "sandbox/namespaces.h"
#include "sandbox/net_devices.h"
#include "sandbox/private_root.h"
#include "sandbox/rootless.h"
#include "sandbox/sysctl.h"
#include "sys/file.h"
#include "sys/process.h"
#include "sys/socket.h"

namespace agentrun::lifecycle {
namespace {

constexpr std::int64_t kKillWait = 5'000'000;  // microseconds

Result<std::string> absolute(const std::string& path) {
  char resolved[PATH_MAX];
  if (realpath(path.empty() ? "." : path.c_str(), resolved) == nullptr) return errno_error("open", path);
  return std::string(resolved);
}

std::string rootfs_path(const oci::Config& config, const std::string& bundle) {
  return config.root.path.starts_with('/') ? config.root.path : bundle + "/" + config.root.path;
}

// Everything about a container before any of it is made: whatever is refused is refused here, with nothing to undo.
struct Plan {
  std::string bundle;
  policy::Settings settings;
  policy::Policy policy;
  policy::Effective effective;
  sandbox::BindSources sources;
  sandbox::NamespacePlan namespaces;
  sandbox::CgroupRequest cgroup;
  std::optional<Reservation> ids;
  Descriptors descriptors;
  FilterPlan filters;
  UniqueFd rootfs, console_socket, seccomp_listener, notify;
  std::string rootfs_path;
};

Result<policy::Effective> harden_or_record(const std::string& id, const oci::Config& config, const Plan& plan,
                                           const policy::Facts& facts) {
  auto effective = policy::harden(config, plan.policy, facts);
  if (!effective && plan.policy.audit.enable) {
    TRY(append_audit("denial", id, denial_fields(plan.policy.name, plan.bundle, effective.error())));
  }
  return effective;
}

Record new_record(const CreateOptions& options, const Plan& plan);

// What would otherwise fail in the container's process, at start, or not be done at all.
Result<void> check_possible(const oci::Config& config, const sandbox::NamespacePlan& namespaces) {
  if (config.linux.intel_rdt) return refusal("/linux/intelRdt", "", "resctrl is not supported");
  if (config.process) {
    TRY(sandbox::check_labels(*config.process));
    // Its notices are written here, where the log file is.
    if (config.process->capabilities) TRY(sandbox::resolve_capabilities(*config.process->capabilities));
  }
  if (config.linux.net_devices.empty()) return ok();
  if (!namespaces.creates(oci::NamespaceType::network) && !namespaces.joins(oci::NamespaceType::network)) {
    return refusal("/linux/netDevices", "", "the config has no network namespace of its own to move them to");
  }
  return sandbox::check_net_devices(config.linux.net_devices);
}

// Whom the container's process will speak to. Before there is a container whose lock we hold: an agent that does not
// accept keeps nobody from anything.
Result<void> connect_services(const CreateOptions& options, Plan& plan) {
  const oci::State state = hook_state(new_record(options, plan), oci::Status::created, getpid());
  plan.seccomp_listener = TRY(connect_listener(plan.effective.config.linux, state));
  if (plan.policy.env.filter) {
    // A way out of the container, to the host's service manager: not under a policy that closes them.
    if (std::getenv("NOTIFY_SOCKET") != nullptr) {
      log::write(log::Level::warning, "NOTIFY_SOCKET is not handed on: policy " + plan.policy.name);
    }
    return ok();
  }
  plan.notify = TRY(connect_notify_socket());
  return ok();
}

Result<void> add_filters(Plan& plan) {
  plan.filters = TRY(plan_filters(plan.effective.config.linux, plan.effective.seccomp_program));
  for (const SeccompAddition& addition : plan.filters.additions) {
    plan.effective.report.notes.push_back("seccomp addition " + addition.file +
                                          (addition.cve.empty() ? "" : " (" + addition.cve + ")") + " denies " +
                                          text::join(addition.syscalls, ", "));
  }
  return ok();
}

// Every process in the container ends with it, whoever started it. A shorter time for exec alone has no killer of its
// own yet, and a limit that is not enforced must not be promised.
Result<void> check_exec_deadline(const policy::Effective& effective) {
  if (!effective.exec_deadline) return ok();
  if (effective.deadline && *effective.exec_deadline >= *effective.deadline) return ok();
  return refusal("policy " + effective.policy, "/deadline/exec",
                 "a deadline of exec that is shorter than the container's is not enforced by this version");
}

// Where there is no range, harden refuses with the reason.
void reserve_ids(const Store& store, const std::string& id, const oci::Config& config, Plan& plan,
                 policy::Facts& facts) {
  if (!policy::wants_private_ids(config, plan.policy, facts)) return;
  const auto ids = reserve_private_ids(store, id);
  if (ids) {
    plan.ids.emplace(*ids, store.path(), id);
    facts.private_ids = *ids;
  } else {
    facts.no_private_ids = ids.error().message();
  }
}

// Once the root is known.
Result<void> map_ids(Plan& plan) {
  if (!plan.effective.private_ids) return ok();
  const auto unmapped = TRY(
      sandbox::map_private_ids(plan.sources, plan.effective.config, plan.rootfs.get(), plan.rootfs_path, plan.bundle));
  for (const auto& [index, reason] : unmapped) policy::withdraw_idmap(plan.effective, index, reason);
  trace::step("ids mapped");
  return ok();
}

// What is left of the hooks runs as the caller, on the host: its directories are named by path, so nobody else may be
// able to put another program there.
Result<void> check_hooks(const Plan& plan) {
  if (!plan.policy.hooks.refuse_config) return ok();
  const oci::Hooks& hooks = plan.effective.config.hooks;
  for (const auto* list : {&hooks.prestart, &hooks.create_runtime, &hooks.create_container, &hooks.start_container,
                           &hooks.poststart, &hooks.poststop}) {
    for (const oci::Hook& hook : *list) TRY(check_trusted_program("hook", hook.path));
  }
  return ok();
}

Result<Plan> make_plan(const Store& store, const Global& global, const CreateOptions& options, oci::Config config) {
  Plan plan;
  plan.descriptors = TRY(passed_descriptors(options.preserve_fds));
  const std::vector<std::string> rootless = sandbox::add_user_namespace(config);
  plan.bundle = TRY(absolute(options.bundle));
  plan.settings = TRY(load_settings(global));
  plan.policy = TRY(resolve_policy(global, plan.settings, config.annotations));
  plan.sources = TRY(sandbox::open_bind_sources(config, plan.bundle));
  policy::Facts facts = TRY(gather_facts(global, config, plan.bundle, plan.sources, plan.policy));
  reserve_ids(store, options.id, config, plan, facts);
  plan.effective = TRY(harden_or_record(options.id, config, plan, facts));
  std::copy(rootless.begin(), rootless.end(), std::back_inserter(plan.effective.report.notes));
  if (is_pod_sandbox(global, plan.settings, config.annotations)) {
    plan.effective.report.notes.push_back("no deadline: the pause container of a pod (agentrun.json, /roots)");
  }
  trace::step("policy");
  TRY(check_hooks(plan));
  TRY(check_exec_deadline(plan.effective));
  TRY(add_filters(plan));
  plan.namespaces = TRY(sandbox::plan_namespaces(plan.effective.config));
  // A pid namespace that others live in: they see our process before its execve.
  const oci::Namespace* pid = oci::find_namespace(plan.effective.config, oci::NamespaceType::pid);
  if (pid != nullptr && !pid->path.empty()) TRY(native::run_from_read_only_clone());
  TRY(sandbox::check_sysctls(plan.effective.config));
  plan.rootfs = TRY(sys::open(rootfs_path(plan.effective.config, plan.bundle), O_PATH | O_DIRECTORY));
  plan.rootfs_path = TRY(sys::path_of(plan.rootfs.get()));
  TRY(map_ids(plan));
  if (!options.console_socket.empty()) {
    if (!config.process || !config.process->terminal) {
      return refusal("open", "console socket " + options.console_socket, "process.terminal is not set");
    }
    plan.console_socket = TRY(sys::connect_stream(options.console_socket));
  }
  TRY(check_possible(plan.effective.config, plan.namespaces));
  TRY(connect_services(options, plan));
  plan.cgroup.id = options.id;
  plan.cgroup.manager = global.cgroup_manager;
  plan.cgroup.cgroups_path = plan.effective.config.linux.cgroups_path;
  plan.cgroup.annotations = plan.effective.config.annotations;
  plan.cgroup.deadline_us = plan.effective.deadline;
  TRY(place_below_guard(plan.settings.guard, plan.cgroup, plan.effective.report.notes));
  trace::step("plan");
  return plan;
}

Record new_record(const CreateOptions& options, const Plan& plan) {
  Record record;
  record.id = options.id;
  record.bundle = plan.bundle;
  record.rootfs = plan.rootfs_path;
  record.created = clock::rfc3339_now();
  record.owner = sys::is_host_root() ? "root" : std::to_string(caller_uid());
  record.annotations = plan.effective.config.annotations;
  record.policy = plan.effective.policy;
  record.audit = plan.effective.audit;
  record.private_ids = plan.effective.private_ids;
  record.deadline.length_us = plan.effective.deadline.value_or(0);
  record.deadline.created_us = plan.effective.created_deadline.value_or(0);
  return record;
}

// What the container's root is on the host; where it maps no 0 (a sandbox of one user), whom it does map.
std::uint32_t host_root(const std::vector<oci::IdMapping>& mappings) {
  for (const oci::IdMapping& mapping : mappings) {
    if (mapping.container_id == 0) return mapping.host_id;
  }
  return mappings.empty() ? 0 : mappings.front().host_id;
}

// Makes what was planned. Intent first, then cgroup and process.
class Maker {
 public:
  Maker(const Store& store, const CreateOptions& options, Plan& plan, Making& making)
      : store_(store), options_(options), plan_(plan), making_(making) {}

  Result<void> make() {
    making_.record = new_record(options_, plan_);
    TRY(plan_cgroup());
    if (plan_.notify) TRY(give_notify_socket());
    native::LaunchRequest request = TRY(launch_request());
    making_.launched = TRY(native::launch(request));
    TRY(write_state());
    making_.effective = std::move(plan_.effective);
    return ok();
  }

 private:
  Result<void> plan_cgroup() {
    if (guarded()) TRY(sandbox::set_guard(plan_.cgroup.manager, cgroup_guard(plan_.settings.guard)));
    making_.record.cgroup = TRY(sandbox::plan_cgroup(plan_.cgroup));
    Intent intent;
    intent.id = options_.id;
    intent.creator = {getpid(), TRY(sys::start_time(getpid())), TRY(sys::boot_id())};
    intent.cgroup = making_.record.cgroup;
    intent.private_ids = making_.record.private_ids;
    TRY(making_.container.write_intent(intent));
    trace::step("intent");
    TRY(sandbox::create_cgroup(making_.record.cgroup, plan_.cgroup, resources()));
    // Now with its inode: by the name alone a delete could mean a later cgroup of that path.
    intent.cgroup = making_.record.cgroup;
    TRY(making_.container.write_intent(intent));
    trace::step("cgroup");
    return ok();
  }

  bool guarded() const {
    const policy::Guard& guard = plan_.settings.guard;
    return guard_holds(guard) && (guard.memory || guard.pids);
  }

  Result<void> give_notify_socket() {
    notify_ = TRY(bind_notify_socket(making_.container));
    oci::Mount mount;
    mount.destination = kNotifyDirectory;
    mount.type = "bind";
    mount.source = store_.path() + "/" + options_.id + "/notify";
    mount.options = {"bind", "ro", "nosuid", "nodev", "noexec"};
    plan_.effective.config.mounts.push_back(std::move(mount));
    return sandbox::open_last_source(plan_.sources, plan_.effective.config);
  }

  const oci::Resources* resources() const {
    const auto& given = plan_.effective.config.linux.resources;
    return given ? &*given : nullptr;
  }

  Result<native::LaunchRequest> launch_request() {
    native::LaunchRequest request;
    request.effective = &plan_.effective;
    request.id = options_.id;
    request.bundle = plan_.bundle;
    request.rootfs = plan_.rootfs_path;
    request.sources = &plan_.sources;
    request.plan = &plan_.namespaces;
    request.cgroups = TRY(sandbox::cgroup_view(making_.record.cgroup));
    request.cgroups.namespaced = plan_.namespaces.creates(oci::NamespaceType::cgroup);
    request.rootfs_fd = std::move(plan_.rootfs);
    request.cgroup = TRY(sandbox::clone_target(making_.record.cgroup));
    cloned_into_ = request.cgroup.valid();
    request.start_listener = TRY(sys::listen_at(making_.container.directory(), native::kStartSocket));
    request.console_socket = std::move(plan_.console_socket);
    request.pivot = options_.pivot;
    request.new_keyring = options_.new_keyring;
    request.seccomp_listener = std::move(plan_.seccomp_listener);
    request.preserve_fds = plan_.descriptors.count;
    request.listen_fds = plan_.descriptors.listen;
    if (notify_) request.extra.push_back(std::string("NOTIFY_SOCKET=") + kNotifySocket);
    TRY(make_disk());
    set_parent_work(request);
    set_child_work(request);
    return request;
  }

  // Here and not in the child: only the host's root attaches a loop device and mounts what is on it.
  Result<void> make_disk() {
    const auto& writable = plan_.effective.writable;
    if (!writable || !writable->disk) return ok();
    const oci::Config& config = plan_.effective.config;
    const oci::Namespace* user = oci::find_namespace(config, oci::NamespaceType::user);
    if (user != nullptr && !user->path.empty()) {
      return refusal("policy " + plan_.effective.policy, "/workdir/backing",
                     "a disk cannot be given to a user namespace that is joined by path");
    }
    sandbox::DiskStoreRequest request{writable->directory, writable->size, writable->inodes,
                                      host_root(config.linux.uid_mappings), host_root(config.linux.gid_mappings)};
    plan_.sources.store = TRY(sandbox::new_disk_store(request));
    trace::step("disk");
    return ok();
  }

  void set_parent_work(native::LaunchRequest& request) {
    request.parent.place = [this, &request](pid_t pid) -> Result<void> {
      const oci::Config& config = plan_.effective.config;
      if (config.process && oci::find_namespace(config, oci::NamespaceType::user) != nullptr) {
        sandbox::raise_hard_limits(pid, config.process->rlimits);
      }
      TRY(sandbox::attach_process(making_.record.cgroup, plan_.cgroup, pid, cloned_into_ && request.cgroup,
                                  resources()));
      if (guarded()) TRY(sandbox::check_guard(making_.record.cgroup, cgroup_guard(plan_.settings.guard)));
      if (plan_.effective.cpu_mask_width) TRY(narrow_affinity(store_, pid, *plan_.effective.cpu_mask_width));
      TRY(set_oom_score(pid));
      if (making_.record.private_ids && config.process) {
        TRY(give_streams(*making_.record.private_ids, config.process->user));
      }
      return move_net_devices(pid);
    };
    request.parent.programs = [this]() -> Result<UniqueFd> {
      return sandbox::seal_programs(TRY(filters_for(store_, plan_.effective.config.linux, plan_.filters)));
    };
    request.parent.meanwhile = [this](pid_t pid) { return meanwhile(pid); };
    const oci::Hooks& hooks = plan_.effective.config.hooks;
    if (!hooks.prestart.empty() || !hooks.create_runtime.empty()) {
      request.parent.runtime_hooks = [this, &hooks](pid_t pid) -> Result<void> {
        const oci::State state = hook_state(making_.record, oci::Status::creating, pid);
        TRY(run_hooks("prestart", hooks.prestart, state));
        return run_hooks("createRuntime", hooks.create_runtime, state);
      };
    }
  }

  void set_child_work(native::LaunchRequest& request) {
    request.child.listener_message = [this](pid_t pid) {
      return listener_message(plan_.effective.config.linux, hook_state(making_.record, oci::Status::created, pid), pid);
    };
    const oci::Hooks& hooks = plan_.effective.config.hooks;
    if (!hooks.create_container.empty()) {
      request.child.container_hooks = [this, &hooks](pid_t pid) {
        return run_hooks("createContainer", hooks.create_container,
                         hook_state(making_.record, oci::Status::creating, pid));
      };
    }
    if (!hooks.start_container.empty()) {
      request.child.start_hooks = [this, &hooks](pid_t pid) {
        return run_hooks("startContainer", hooks.start_container,
                         hook_state(making_.record, oci::Status::created, pid));
      };
    }
  }

  Result<void> move_net_devices(pid_t pid) const {
    const auto& devices = plan_.effective.config.linux.net_devices;
    if (devices.empty()) return ok();
    for (const auto& joined : plan_.namespaces.join) {
      if (joined.type == oci::NamespaceType::network) return sandbox::move_net_devices(devices, joined.fd.get());
    }
    const UniqueFd network = TRY(sys::open("/proc/" + std::to_string(pid) + "/ns/net", O_RDONLY));
    return sandbox::move_net_devices(devices, network.get());
  }

  Result<void> set_oom_score(pid_t pid) const {
    const auto& process = plan_.effective.config.process;
    if (!process || !process->oom_score_adj) return ok();
    return sandbox::set_oom_score_adj(*process->oom_score_adj, pid);
  }

  // While the child builds its root.
  Result<void> meanwhile(pid_t pid) {
    Record& record = making_.record;
    record.process = {pid, TRY(sys::start_time(pid)), TRY(sys::boot_id())};
    record.deadline.boot_id = record.process.boot_id;
    TRY(making_.container.write_effective(plan_.effective, policy::print_policy(plan_.policy)));
    trace::step("config written");
    if (record.deadline.length_us > 0 || record.deadline.created_us > 0 || record.audit) {
      record.supervisor = TRY(fork_supervisor(making_.container, record));
      trace::step("supervisor");
    }
    if (notify_) TRY(fork_notifier(record.process, notify_, plan_.notify));
    return ok();
  }

  Result<void> write_state() {
    Record& record = making_.record;
    record.console = making_.launched.console;
    TRY(making_.container.write_record(record));
    trace::step("state written");
    if (plan_.effective.audit) TRY(append_audit("create", record.id, create_fields(record, plan_.effective)));
    making_.pid_file = options_.pid_file;
    return hand_over(options_.pid_file, options_.pidfd_socket, record.process.pid, making_.launched.pidfd.get());
  }

  const Store& store_;
  const CreateOptions& options_;
  Plan& plan_;
  Making& making_;
  UniqueFd notify_;
  bool cloned_into_ = false;
};

void report_left(const char* what, const Result<void>& result) {
  if (!result) log::write(log::Level::warning, std::string("undo ") + what + ": " + result.error().message());
}

}  // namespace

Making::~Making() {
  if (kept_) return;
  if (launched.pidfd) {
    (void)sys::pidfd_send_signal(launched.pidfd.get(), SIGKILL);
    (void)sys::wait_process(launched.pid);
  }
  if (record.supervisor.pid != 0) end_supervisor(record.supervisor);
  // A scope that systemd has not given us may be another's, of the same name; one that comes yet has no process then.
  const bool no_scope = record.cgroup.manager == sandbox::CgroupManager::systemd && record.cgroup.inode == 0;
  if (!no_scope && (!record.cgroup.v2.empty() || !record.cgroup.v1.empty())) {
    (void)sandbox::kill_cgroup(record.cgroup, kKillWait);
    report_left("cgroup", sandbox::remove_cgroup(record.cgroup));
  }
  if (!pid_file.empty()) unlink(pid_file.c_str());
  report_left("state", container.remove());
  if (!record.private_ids) return;
  const auto root = sys::path_of(container.root());
  if (root) report_left("ids", release_private_ids(*record.private_ids, *root, record.id));
}

oci::State hook_state(const Record& record, oci::Status status, pid_t pid) {
  oci::State state;
  state.id = record.id;
  state.status = status;
  state.pid = pid;
  state.bundle = record.bundle;
  state.annotations = record.annotations;
  return state;
}

Result<oci::Config> read_config(const CreateOptions& options) {
  const std::string bundle = options.bundle.empty() ? "." : options.bundle;
  const std::string path = options.config.empty() ? bundle + "/config.json" : options.config;
  const std::string text = TRY(sys::read_file(path, oci::kConfigSizeLimit, true));
  trace::step("config read");
  oci::Config config = TRY(oci::parse_config(text, path));
  trace::step("config parsed");
  return config;
}

Result<std::unique_ptr<Making>> make_container(const Global& global, const CreateOptions& options, oci::Config config) {
  TRY(check_id(options.id));
  const Store store = TRY(Store::open(global.root));
  Plan plan = TRY(make_plan(store, global, options, std::move(config)));
  UniqueFd room = TRY(enter_guard(plan.settings.guard));
  auto making = std::make_unique<Making>(TRY(store.create(options.id)));
  room.reset();  // it is counted from now on
  trace::step("state directory");
  TRY(Maker(store, options, plan, *making).make());
  if (plan.ids && making->record.private_ids) plan.ids->keep();
  return making;
}

}  // namespace agentrun::lifecycle
