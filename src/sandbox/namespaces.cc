#include "sandbox/namespaces.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/text.h"
#include "sandbox/rootless.h"
#include "sys/file.h"
#include "sys/process.h"
#include "sys/socket.h"

namespace agentrun::sandbox {
namespace {

using oci::NamespaceType;

// The file of a namespace of ours, for comparing.
const char* own_link(NamespaceType type) {
  switch (type) {
    case NamespaceType::pid:
      return "/proc/self/ns/pid";
    case NamespaceType::network:
      return "/proc/self/ns/net";
    case NamespaceType::mount:
      return "/proc/self/ns/mnt";
    case NamespaceType::ipc:
      return "/proc/self/ns/ipc";
    case NamespaceType::uts:
      return "/proc/self/ns/uts";
    case NamespaceType::user:
      return "/proc/self/ns/user";
    case NamespaceType::cgroup:
      return "/proc/self/ns/cgroup";
    case NamespaceType::time:
      return "/proc/self/ns/time";
  }
  return "";
}

// Opens what the config names and asks the kernel what it is: a path to anything else would make setns fail later with
// no name in its error, and a FIFO would hold us for ever.
Result<UniqueFd> open_namespace(const oci::Namespace& wanted) {
  const std::string operation = std::string("join ") + oci::name_of(wanted.type) + " namespace";
  UniqueFd fd(::open(wanted.path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return errno_error(operation, wanted.path);
  const int type = ioctl(fd.get(), NS_GET_NSTYPE);
  if (type < 0) return refusal(operation, wanted.path, "not a namespace");
  if (type != clone_flag(wanted.type)) return refusal(operation, wanted.path, "a namespace of another type");
  return fd;
}

bool same_file(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

Result<bool> is_own(int fd, NamespaceType type) {
  struct stat own {};
  if (stat(own_link(type), &own) != 0) return errno_error("stat", own_link(type));
  return same_file(TRY(sys::stat_fd(fd, "namespace")), own);
}

std::string print_map(const std::vector<oci::IdMapping>& mappings) {
  std::string text;
  for (const auto& mapping : mappings) {
    text += std::to_string(mapping.container_id) + " " + std::to_string(mapping.host_id) + " " +
            std::to_string(mapping.size) + "\n";
  }
  return text;
}

// A map of exactly the caller's own id: what the kernel lets anybody write.
bool is_own_id(const std::vector<oci::IdMapping>& mappings, std::uint32_t id) {
  return mappings.size() == 1 && mappings[0].size == 1 && mappings[0].host_id == id;
}

// newuidmap(1) or newgidmap(1): set-uid programs that check /etc/subuid and /etc/subgid for the caller.
Result<void> run_map_helper(const char* program, pid_t pid, const std::vector<oci::IdMapping>& mappings) {
  std::vector<std::string> words = {program, std::to_string(pid)};
  for (const auto& mapping : mappings) {
    words.push_back(std::to_string(mapping.container_id));
    words.push_back(std::to_string(mapping.host_id));
    words.push_back(std::to_string(mapping.size));
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t helper = TRY(sys::fork_running([&] {
    execvp(program, argv.data());
    return 127;
  }));
  const int code = TRY(sys::wait_process(helper)).code();
  if (code == 0) return ok();
  if (code == 127) return refusal("write id maps", program, "not installed (package uidmap)");
  return refusal("write id maps", program, "it refused: does the range lie in /etc/subuid and /etc/subgid?");
}

Result<void> write_map(pid_t pid, const char* file, const std::vector<oci::IdMapping>& mappings) {
  return sys::write_file("/proc/" + std::to_string(pid) + "/" + file, print_map(mappings));
}

Result<void> write_as_user(pid_t pid, const oci::Linux& linux_config) {
  if (is_own_id(linux_config.uid_mappings, geteuid())) {
    TRY(write_map(pid, "uid_map", linux_config.uid_mappings));
  } else {
    TRY(run_map_helper("newuidmap", pid, linux_config.uid_mappings));
  }
  if (is_own_id(linux_config.gid_mappings, getegid())) {
    // Without a helper setgroups has to be off before the map is written: a group can take rights away, and an
    // unprivileged user must not be able to leave it (user_namespaces(7)).
    TRY(sys::write_file("/proc/" + std::to_string(pid) + "/setgroups", "deny"));
    return write_map(pid, "gid_map", linux_config.gid_mappings);
  }
  return run_map_helper("newgidmap", pid, linux_config.gid_mappings);
}

}  // namespace

int clone_flag(NamespaceType type) {
  switch (type) {
    case NamespaceType::pid:
      return CLONE_NEWPID;
    case NamespaceType::network:
      return CLONE_NEWNET;
    case NamespaceType::mount:
      return CLONE_NEWNS;
    case NamespaceType::ipc:
      return CLONE_NEWIPC;
    case NamespaceType::uts:
      return CLONE_NEWUTS;
    case NamespaceType::user:
      return CLONE_NEWUSER;
    case NamespaceType::cgroup:
      return CLONE_NEWCGROUP;
    case NamespaceType::time:
      return 0x80;  // CLONE_NEWTIME, Linux 5.6
  }
  return 0;
}

bool NamespacePlan::joins(NamespaceType type) const {
  return std::any_of(join.begin(), join.end(), [&](const JoinedNamespace& joined) { return joined.type == type; });
}

Result<NamespacePlan> plan_namespaces(const oci::Config& config) {
  NamespacePlan plan;
  for (const auto& wanted : config.linux.namespaces) {
    if (wanted.path.empty()) {
      plan.create |= static_cast<std::uint64_t>(clone_flag(wanted.type));
      continue;
    }
    JoinedNamespace joined;
    joined.type = wanted.type;
    joined.path = wanted.path;
    joined.fd = TRY(open_namespace(wanted));
    // Already in it: nothing to join, and setns refuses that for a user namespace.
    if (TRY(is_own(joined.fd.get(), wanted.type))) continue;
    plan.join.push_back(std::move(joined));
  }
  if (!plan.creates(NamespaceType::mount) && !plan.joins(NamespaceType::mount)) {
    return refusal("create", "/linux/namespaces",
                   "a mount namespace is needed: the container's root would be the host's");
  }
  if (plan.creates(NamespaceType::user) && (config.linux.uid_mappings.empty() || config.linux.gid_mappings.empty())) {
    return refusal("create", "/linux/uidMappings", "a new user namespace needs uidMappings and gidMappings");
  }
  if (!plan.creates(NamespaceType::user) && !plan.joins(NamespaceType::user) &&
      !(config.linux.uid_mappings.empty() && config.linux.gid_mappings.empty())) {
    return refusal("create", "/linux/uidMappings", "id mappings without a user namespace");
  }
  if (!config.linux.time_offsets.empty() && !plan.creates(NamespaceType::time)) {
    return refusal("create", "/linux/timeOffsets", "offsets without a new time namespace");
  }
  if (plan.creates(NamespaceType::user)) {
    if (config.process) TRY(check_ids_mapped(*config.process, config.linux));
    // newuidmap(1) writes only for a process whose /proc/PID is its caller's, which leaves it open to ptrace(2) by
    // whoever has the same uid: in a pid namespace that others live in, those could be a container's.
    if (plan.joins(NamespaceType::pid) && !may_write_maps()) {
      return refusal("create", "/linux/namespaces",
                     "an ordinary user cannot make a user namespace and join a pid namespace in one container");
    }
  }
  // The user namespace last to be listed is first to be joined: the others may belong to it.
  std::stable_partition(plan.join.begin(), plan.join.end(),
                        [](const JoinedNamespace& joined) { return joined.type == NamespaceType::user; });
  return plan;
}

Result<void> join_namespaces(const NamespacePlan& plan) {
  for (const auto& joined : plan.join) {
    if (setns(joined.fd.get(), clone_flag(joined.type)) != 0) {
      return errno_error(std::string("join ") + oci::name_of(joined.type) + " namespace", joined.path);
    }
  }
  return ok();
}

Result<void> write_id_maps(pid_t pid, const oci::Linux& linux_config) {
  if (!may_write_maps()) return write_as_user(pid, linux_config);
  TRY(write_map(pid, "uid_map", linux_config.uid_mappings));
  return write_map(pid, "gid_map", linux_config.gid_mappings);
}

std::vector<std::string> joined_from_host(const oci::Config& config) {
  std::vector<std::string> names;
  for (const auto& wanted : config.linux.namespaces) {
    if (wanted.path.empty()) continue;
    struct stat named {};
    struct stat own {};
    if (stat(wanted.path.c_str(), &named) != 0 || stat(own_link(wanted.type), &own) != 0) continue;
    if (same_file(named, own)) names.emplace_back(oci::name_of(wanted.type));
  }
  return names;
}

Result<bool> joins_host_root(const oci::Config& config) {
  const oci::Namespace* user = oci::find_namespace(config, NamespaceType::user);
  if (user == nullptr || user->path.empty()) return false;
  const UniqueFd fd = TRY(open_namespace(*user));
  if (TRY(is_own(fd.get(), NamespaceType::user))) return true;
  auto [ours, theirs] = TRY(sys::socket_pair(SOCK_STREAM));
  const sys::Cloned child = TRY(sys::clone_process(0));
  if (child.pid == 0) {
    const bool joined = setns(fd.get(), CLONE_NEWUSER) == 0;
    const char answer = joined ? 'j' : 'f';
    // Then until we are done with its maps: the end of our socket.
    char end = 0;
    ours.reset();
    static_cast<void>(!write(theirs.get(), &answer, 1));
    static_cast<void>(!read(theirs.get(), &end, 1));
    _exit(0);
  }
  theirs.reset();
  const auto look = [&, socket = ours.get()]() -> Result<bool> {
    char answer = 0;
    if (read(socket, &answer, 1) != 1 || answer != 'j') return refusal("join user namespace", user->path, "refused");
    // Read from here, the maps are those to our own ids.
    for (const char* file : {"/uid_map", "/gid_map"}) {
      const std::string map = TRY(sys::read_file("/proc/" + std::to_string(child.pid) + file));
      for (const std::string_view line : text::split(map, '\n')) {
        const auto words = text::split_words(line);
        if (words.size() == 3 && words[1] == "0") return true;
      }
    }
    return false;
  };
  Result<bool> found = look();
  ours.reset();
  TRY(sys::wait_process(child.pid));
  return found;
}

}  // namespace agentrun::sandbox
