#include "sandbox/cgroup_systemd.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/clock.h"
#include "base/text.h"
#include "sandbox/cgroup_control.h"
#include "sandbox/cgroup_tree.h"
#include "sandbox/systemd_unit.h"
#include "sys/file.h"
#include "sys/process.h"
#include "sys/socket.h"

namespace agentrun::sandbox {
namespace {

// The helper gives systemd 30 s; what it then says has to arrive.
constexpr std::int64_t kReplyTimeout = 35'000'000;
constexpr std::size_t kMostReply = 16 * 1024;

std::string& helper_path() {
  static std::string path = AGENTRUN_LIBEXECDIR "/agentrun-systemd";
  return path;
}

std::unique_ptr<SystemdHelper>& prepared() {
  static std::unique_ptr<SystemdHelper> helper;
  return helper;
}

bool is_user_manager() { return !sys::is_host_root(); }

// The uid of the user's manager as the host counts it: in a user namespace (podman unshare) we are 0 and it is not.
uid_t manager_uid() {
  const auto map = sys::read_file("/proc/self/uid_map");
  if (map) {
    const std::vector<std::string_view> words = text::split_words(*map);
    const uid_t own = geteuid();
    for (std::size_t i = 0; i + 2 < words.size(); i += 3) {
      const auto inside = text::parse_unsigned(words[i]);
      const auto outside = text::parse_unsigned(words[i + 1]);
      const auto count = text::parse_unsigned(words[i + 2]);
      if (inside && outside && count && own >= *inside && own - *inside < *count) {
        return static_cast<uid_t>(*outside + (own - *inside));
      }
    }
  }
  return geteuid();
}

// Only what finding the bus needs: the helper does not see the engine's environment.
std::vector<std::string> helper_environment() {
  std::vector<std::string> environment;
  for (const char* name : {"DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS", "XDG_RUNTIME_DIR"}) {
    if (const char* value = secure_getenv(name)) environment.push_back(std::string(name) + "=" + value);
  }
  return environment;
}

Result<pid_t> spawn_helper(int socket) {
  std::vector<std::string> environment = helper_environment();
  std::vector<char*> environment_pointers;
  for (std::string& entry : environment) environment_pointers.push_back(entry.data());
  environment_pointers.push_back(nullptr);
  std::string program = helper_path();
  std::string bus = is_user_manager() ? "user" : "system";
  std::array<char*, 3> arguments = {program.data(), bus.data(), nullptr};

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  // The engine reads stderr as the container's log.
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int code =
      posix_spawn(&pid, program.c_str(), &actions, &attributes, arguments.data(), environment_pointers.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) return os_error(code, "run", program);
  return pid;
}

Result<void> call(SystemdHelper& helper, const UnitRequest& request) {
  TRY(helper.send(request));
  TRY(helper.receive());
  return ok();
}

}  // namespace

Result<std::unique_ptr<SystemdHelper>> SystemdHelper::start() {
  TRY(check_systemd());
  auto [ours, theirs] = TRY(sys::socket_pair(SOCK_STREAM));
  const pid_t pid = TRY(spawn_helper(theirs.get()));
  return std::unique_ptr<SystemdHelper>(new SystemdHelper(std::move(ours), pid));
}

// It holds nothing that could be lost: a job that it has queued goes on in systemd.
SystemdHelper::~SystemdHelper() {
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<void> SystemdHelper::send(const UnitRequest& request) {
  const std::string text = print_request(request);
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t count = ::send(socket_.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error("ask systemd through", helper_path());
    left.remove_prefix(static_cast<std::size_t>(count));
  }
  return ok();
}

Result<std::string> SystemdHelper::receive() {
  const std::int64_t until = clock::monotonic_us() + kReplyTimeout;
  std::string line;
  while (!line.ends_with('\n')) {
    pollfd waited{socket_.get(), POLLIN, 0};
    const int ready = poll(&waited, 1, milliseconds_until(until));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return errno_error("poll", helper_path());
    if (ready == 0) return refusal("wait for systemd through", helper_path(), "no answer in 35 s");
    char buffer[1024];
    const ssize_t count = read(socket_.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_error("read from", helper_path());
    if (count == 0) return refusal("ask systemd through", helper_path(), "it ended without an answer");
    line.append(buffer, static_cast<std::size_t>(count));
    if (line.size() > kMostReply) return refusal("read from", helper_path(), "the answer is too long");
  }
  line.pop_back();
  UnitReply reply = TRY(parse_reply(line));
  if (!reply.ok) return refusal("ask systemd", {}, reply.text);
  return std::move(reply.text);
}

void set_systemd_helper(std::string path) { helper_path() = std::move(path); }

Result<void> check_systemd() {
  // sd_booted(3)
  struct stat status {};
  if (lstat("/run/systemd/system", &status) != 0 || !S_ISDIR(status.st_mode)) {
    return refusal("use the systemd cgroup manager", "/run/systemd/system",
                   "systemd does not run this host; use the cgroupfs manager");
  }
  if (access(helper_path().c_str(), X_OK) != 0) return errno_error("use the systemd cgroup manager by", helper_path());
  return ok();
}

std::string user_manager_path(const CgroupLayout& layout) {
  return manager_prefix(layout.v2 ? layout.v2->own : std::string(), true, manager_uid());
}

Result<CgroupLocation> plan_scope(const CgroupRequest& request, const CgroupLayout& layout) {
  TRY(check_systemd());
  const bool user = is_user_manager();
  const UnitName name = TRY(parse_unit_name(request.cgroups_path, request.id, user));
  const std::string own = layout.v2 ? layout.v2->own : std::string();
  const std::string slices = TRY(expand_slice(name.slice));
  const std::string path = manager_prefix(own, user, user ? manager_uid() : 0) + slices + "/" + name.unit;
  CgroupLocation location;
  location.manager = CgroupManager::systemd;
  location.unit = name.unit;
  location.slice = name.slice;
  if (layout.v2) location.v2 = layout.v2->mount + path;
  if (layout.unified()) return location;
  for (const Hierarchy& place : layout.v1) {
    location.v1[place.name] = place.mount + path;
    for (std::string& parent : missing_parents(place.mount, place.mount + path)) {
      location.parents.push_back(std::move(parent));
    }
  }
  return location;
}

Result<UnitRequest> scope_request(const CgroupLocation& location, const CgroupRequest& request, pid_t pid,
                                  const oci::Resources* resources) {
  const bool v2 = v1_directory(location, "memory").empty();
  UnitRequest start{"start", location.unit, {}};
  start.properties = merge_properties(scope_properties(request.id, location.slice, pid, request.deadline_us),
                                      TRY(annotation_properties(request.annotations)));
  if (resources == nullptr) return start;
  start.properties = merge_properties(std::move(start.properties), TRY(limit_properties(*resources, v2)));
  return start;
}

void prepare_helper() {
  auto helper = SystemdHelper::start();
  if (helper) prepared() = std::move(*helper);
}

Result<std::unique_ptr<SystemdHelper>> take_helper() {
  if (prepared()) return std::move(prepared());
  return SystemdHelper::start();
}

Result<void> set_scope_limits(const CgroupLocation& location, const oci::Resources& resources) {
  const bool v2 = v1_directory(location, "memory").empty();
  UnitRequest request{"set", location.unit, TRY(limit_properties(resources, v2))};
  if (request.properties.empty()) return ok();
  const std::unique_ptr<SystemdHelper> helper = TRY(take_helper());
  return call(*helper, request);
}

Result<void> stop_scope(const CgroupLocation& location) {
  const std::unique_ptr<SystemdHelper> helper = TRY(take_helper());
  return call(*helper, {"stop", location.unit, {}});
}

}  // namespace agentrun::sandbox
