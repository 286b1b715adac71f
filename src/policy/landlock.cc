// What Landlock is to hold of a config: a second line behind mounts and namespaces, and the only one for TCP ports.
//
// The kernel makes each process that restricts itself a domain of its own, and no process may look into one of a domain
// that is not below its own (landlock(7), "Ptrace restrictions"): readlink of /proc/1/exe, a debugger, a profiler. A
// process that joins a container descends from the engine, so it can never be in the domain of the container's first
// process. Tried on Linux 6.18: any domain at all, also one without a rule for files, takes these away from it; while
// one without a domain may do all of that, to whom it pleases. Hence exec has none, unless the policy says so, and the
// report does. What holds an exec are the mounts, as they hold the container: Landlock is what is left if one of them
// is not as it should be. TCP ports have no such first line, so that there exec has its domain in any case. Scopes of
// an exec would forbid to signal the container, and are never set.
#include <algorithm>
#include <string>

#include "base/text.h"
#include "policy/harden_parts.h"

namespace agentrun::policy {
namespace {

// mount(8): the last word counts. "rro" is read-only for all mounts below, too.
bool mounted_readonly(const oci::Mount& mount) {
  bool readonly = false;
  for (const std::string& option : mount.options) {
    if (option == "ro" || option == "rro") readonly = true;
    if (option == "rw" || option == "rrw") readonly = false;
  }
  return readonly;
}

// Absent is the caller's, a path somebody else's.
bool shares(const oci::Config& config, oci::NamespaceType type) {
  const oci::Namespace* found = oci::find_namespace(config, type);
  return found == nullptr || !found->path.empty();
}

void add(std::vector<std::string>& list, const std::string& path) {
  if (std::find(list.begin(), list.end(), path) == list.end()) list.push_back(path);
}

void plan_files(LandlockRules& rules, const oci::Config& config, const std::optional<Writable>& writable) {
  rules.files = true;
  if (writable) {
    for (const auto* list : {&writable->empty, &writable->overlays}) {
      for (const std::string& path : *list) add(rules.places, text::clean_path(path));
    }
  }
  for (const oci::Mount& mount : config.mounts) {
    if (mounted_readonly(mount)) continue;
    add(mount.type == "proc" ? rules.procfs : rules.places, text::clean_path(mount.destination));
  }
  // What the config's own capabilities and device rules allow stays allowed.
  if (!config.process || !config.process->capabilities) return;
  const auto& bounding = config.process->capabilities->bounding;
  rules.device_nodes = std::find(bounding.begin(), bounding.end(), "CAP_MKNOD") != bounding.end();
}

// What of the files this version does not hold, for people.
std::string missing_for_files(int abi) {
  if (abi == 0) return "no Landlock here: what can be written is held by the mounts alone";
  if (abi < kLandlockFiles) {
    return "the Landlock of this kernel would forbid every rename to another directory: what can be written is held by "
           "the mounts alone";
  }
  if (abi < kLandlockTruncate) return "the Landlock of this kernel holds neither truncate(2) nor ioctl(2) of devices";
  if (abi < kLandlockDevices) return "the Landlock of this kernel does not hold ioctl(2) of devices";
  return {};
}

void plan_scopes(LandlockRules& rules, const oci::Config& config, const Context& context) {
  const bool signals = shares(config, oci::NamespaceType::pid);
  const bool sockets = shares(config, oci::NamespaceType::network);
  if (!signals && !sockets) return;
  if (rules.abi < kLandlockScopes) {
    context.log.note("the Landlock of this kernel has no scopes: the container reaches processes of the namespaces " +
                     std::string("that it shares by ") + (signals ? "signal" : "") +
                     (signals && sockets ? " and " : "") + (sockets ? "abstract socket" : ""));
    return;
  }
  rules.signals = signals;
  rules.abstract_sockets = sockets;
}

}  // namespace

Result<std::optional<LandlockRules>> plan_landlock(const oci::Config& config, const std::optional<Writable>& writable,
                                                   const Context& context) {
  const Landlock& policy = context.policy.landlock;
  LandlockRules rules;
  rules.abi = context.facts.landlock_abi;
  if (policy.files && !config.root.readonly) {
    context.log.note("the root is writable, so that Landlock holds no files");
  } else if (policy.files) {
    if (const std::string missing = missing_for_files(rules.abi); !missing.empty()) context.log.note(missing);
    if (rules.abi >= kLandlockFiles) plan_files(rules, config, writable);
  }
  if (policy.scopes) plan_scopes(rules, config, context);
  if (policy.tcp_connect || policy.tcp_bind) {
    if (rules.abi < kLandlockTcp) {
      return refused(context.policy, policy.tcp_connect ? "/landlock/tcp_connect" : "/landlock/tcp_bind",
                     "the kernel has no Landlock that knows of TCP: that needs Linux 6.7");
    }
    rules.tcp_connect = policy.tcp_connect;
    rules.tcp_bind = policy.tcp_bind;
  }
  const bool ports = rules.tcp_connect || rules.tcp_bind;
  if (rules.files && !policy.exec && !ports) {
    context.log.note("Landlock holds the container's own processes; those of an exec are held by the mounts alone (" +
                     context.log.rule_name("/landlock/exec") + ")");
  }
  if (!rules.files && !rules.signals && !rules.abstract_sockets && !ports) return std::optional<LandlockRules>();
  return std::optional(std::move(rules));
}

Result<std::optional<LandlockRules>> landlock_for_exec(const oci::Config& container, const Policy& policy,
                                                       const Facts& facts) {
  const Landlock& wanted = policy.landlock;
  std::optional<LandlockRules> rules;
  if (policy.change_nothing || (!wanted.exec && !wanted.tcp_connect && !wanted.tcp_bind)) return rules;
  Report unread;
  ChangeLog log(unread, policy.name);
  const Context context{policy, facts, log};
  rules = TRY(plan_landlock(container, TRY(plan_writable(container, context)), context));
  if (!rules) return rules;
  rules->signals = rules->abstract_sockets = false;
  if (!rules->files && !rules->tcp_connect && !rules->tcp_bind) rules.reset();
  return rules;
}

}  // namespace agentrun::policy
