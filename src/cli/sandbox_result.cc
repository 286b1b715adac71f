#include "cli/sandbox_result.h"

#include <boost/json.hpp>

#include <algorithm>

#include "base/text.h"

namespace agentrun::cli {
namespace {

bool has_namespace(const oci::Config& config, oci::NamespaceType type) {
  return std::any_of(config.linux.namespaces.begin(), config.linux.namespaces.end(),
                     [&](const oci::Namespace& ns) { return ns.type == type && ns.path.empty(); });
}

void add_limits(std::vector<Enforced>& list, const policy::Policy& policy) {
  const policy::Limits& limits = policy.limits;
  if (policy.deadline.container) {
    list.push_back({"time: " + text::print_duration(*policy.deadline.container),
                    "a supervisor outside the sandbox, which kills its cgroup"});
  }
  if (limits.memory) {
    list.push_back({"memory: " + text::print_size(*limits.memory) + (limits.no_swap ? ", no swap" : ""), "cgroup"});
  }
  if (limits.cpus) {
    std::string cpus = std::to_string(*limits.cpus / 1000);
    if (*limits.cpus % 1000 != 0) cpus += '.' + std::to_string(*limits.cpus % 1000 + 1000).substr(1);
    list.push_back({"CPUs: " + cpus, limits.cpu_mask ? "cgroup and affinity mask" : "cgroup"});
  }
  if (limits.pids) list.push_back({"processes and threads: " + std::to_string(*limits.pids), "cgroup"});
  if (limits.fsize) {
    list.push_back({"one file: " + text::print_size(static_cast<std::int64_t>(*limits.fsize)), "rlimit"});
  }
  if (limits.nofile) list.push_back({"open files: " + std::to_string(*limits.nofile), "rlimit"});
}

void add_files(std::vector<Enforced>& list, const policy::Policy& policy, const oci::Config& config, bool landlock) {
  if (config.root.readonly) list.push_back({"files: the root is read-only", "mount namespace and read-only mounts"});
  if (policy.workdir.writable)
    list.push_back({"files: what is written vanishes", "one file system and overlays, limited in size"});
  // Under a root that can be written to, Landlock holds no files.
  if (policy.landlock.files && landlock && (config.root.readonly || policy.rootfs.readonly)) {
    list.push_back({"files: no write but there, to binds that may be written to, /dev and /proc", "Landlock"});
  }
}

}  // namespace

std::vector<Enforced> list_enforced(const policy::Policy& policy, const oci::Config& config,
                                    const Mechanisms& mechanisms) {
  std::vector<Enforced> list;
  if (has_namespace(config, oci::NamespaceType::network))
    list.push_back({"network: none", "a network namespace with lo alone"});
  if (has_namespace(config, oci::NamespaceType::pid)) {
    list.push_back({"processes: only its own are seen", "pid, ipc, uts and cgroup namespaces"});
  }
  add_files(list, policy, config, mechanisms.landlock);
  if (config.process && config.process->user.uid != 0) {
    list.push_back(
        {"user: " + std::to_string(config.process->user.uid) + ", no privileges", "no capabilities, no_new_privs"});
  }
  if (!policy.seccomp.program.empty()) {
    list.push_back({"system calls: " + policy.seccomp.program, "seccomp"});
  }
  if (!policy.apparmor.profile.empty() && mechanisms.apparmor) {
    list.push_back({"profile: " + policy.apparmor.profile, "AppArmor"});
  }
  add_limits(list, policy);
  return list;
}

std::string explain_enforced(const std::vector<Enforced>& enforced) {
  std::size_t width = 0;
  for (const Enforced& item : enforced) width = std::max(width, item.what.size());
  std::string text;
  for (const Enforced& item : enforced) {
    text += "  " + item.what + std::string(width - item.what.size() + 2, ' ') + item.by + '\n';
  }
  return text;
}

std::string print_outcome(const lifecycle::Outcome& outcome, int exit_status, const std::vector<Enforced>& enforced,
                          const lifecycle::Collected* collected) {
  boost::json::array list;
  for (const Enforced& item : enforced) list.push_back({{"what", item.what}, {"by", item.by}});
  boost::json::object object{
      {"exit", exit_status},        {"reason", outcome.reason},           {"wall_us", outcome.wall_us},
      {"cpu_us", outcome.cpu_us},   {"memory_peak", outcome.memory_peak}, {"policy", outcome.policy},
      {"backend", outcome.backend}, {"enforced", std::move(list)}};
  if (collected != nullptr) {
    object["out"] =
        boost::json::object{{"files", collected->files},
                            {"bytes", collected->bytes},
                            {"left_out", collected->left_out},
                            {"examples", boost::json::array(collected->examples.begin(), collected->examples.end())}};
  }
  return boost::json::serialize(object) + '\n';
}

}  // namespace agentrun::cli
