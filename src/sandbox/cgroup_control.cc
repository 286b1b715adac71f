#include "sandbox/cgroup_control.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "base/text.h"
#include "sandbox/cgroup_systemd.h"
#include "sandbox/cgroup_tree.h"
#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::sandbox {
namespace {

constexpr std::int64_t kFreezeTimeout = 10'000'000;
constexpr std::int64_t kRemoveTimeout = 10'000'000;

void pause_ms(int milliseconds) { poll(nullptr, 0, milliseconds); }

// ---- freezer

Result<void> freeze_v2(int directory, const std::string& name) {
  TRY(sys::write_file_at(directory, "cgroup.freeze", "1"));
  if (TRY(wait_for_event(directory, "frozen", '1', clock::monotonic_us() + kFreezeTimeout))) return ok();
  (void)sys::write_file_at(directory, "cgroup.freeze", "0");
  return refusal("freeze", name, "a process in it did not stop within 10 s");
}

// v1's freezer has no event, and a state that may stay FREEZING while a process forks or sleeps in the kernel; writing
// FROZEN again makes it look once more. True when it is frozen.
Result<bool> freeze_v1(int directory, std::int64_t until_us) {
  for (int wait = 1;; wait = std::min(wait * 2, 16)) {
    TRY(sys::write_file_at(directory, "freezer.state", "FROZEN"));
    const std::string state = TRY(sys::read_file_at(directory, "freezer.state"));
    if (text::trim(state) == "FROZEN") return true;
    if (milliseconds_until(until_us) == 0) return false;
    pause_ms(wait);
  }
}

Result<void> thaw_v1(int directory) {
  return for_each_cgroup(directory, [](int each) {
    auto written = sys::write_file_at(each, "freezer.state", "THAWED");
    return !written && (written.error().code == ENOENT || written.error().code == ENODEV) ? ok() : written;
  });
}

// The freezer's directory where v1 has one and it is there.
UniqueFd open_v1_freezer(const CgroupLocation& location) {
  const std::string path = v1_directory(location, "freezer");
  return UniqueFd(path.empty() ? -1 : ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

bool is_frozen_v1(int directory) {
  const auto state = sys::read_file_at(directory, "freezer.state");
  return state && text::trim(*state) != "THAWED";
}

// ---- kill

// Any v1 directory tells who is in it; the freezer's is the one where they can be held still.
UniqueFd open_v1_any(const CgroupLocation& location) {
  UniqueFd freezer = open_v1_freezer(location);
  if (freezer) return freezer;
  for (const auto& [controllers, path] : location.v1) {
    UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory) return directory;
  }
  return {};
}

// Freeze, SIGKILL to each, thaw, until nobody is left: what forks while we read the list is frozen before it can fork
// again. Without a freezer the loop still ends, unless it is outrun: then time does, and the answer is false.
Result<bool> kill_v1(const CgroupLocation& location, std::int64_t until_us) {
  const UniqueFd freezer = open_v1_freezer(location);
  const UniqueFd directory = open_v1_any(location);
  if (!directory) return true;
  while (true) {
    if (freezer) {
      auto frozen = freeze_v1(freezer.get(), std::min(until_us, clock::monotonic_us() + 100'000));
      if (!frozen && frozen.error().code != ENOENT && frozen.error().code != ENODEV) return frozen.error();
    }
    const auto hit = signal_below(directory.get(), SIGKILL);
    if (freezer) TRY(thaw_v1(freezer.get()));
    if (!hit) return hit.error();
    if (hit->empty() && TRY(processes_below(directory.get())).empty()) return true;
    if (milliseconds_until(until_us) == 0) return false;
    wait_for_all(*hit, until_us);
    if (hit->empty()) pause_ms(1);
  }
}

Result<bool> kill_v2(const CgroupLocation& location, int directory, std::int64_t until_us) {
  auto written = sys::write_file_at(directory, "cgroup.kill", "1");
  if (!written) {
    // The last process has just gone, and somebody removed the cgroup.
    if (written.error().code == ENODEV) return true;
    Error error = std::move(written).error();
    error.object = location.v2 + "/cgroup.kill";
    return error;
  }
  // On a hybrid host v1's freezer may hold them (somebody else wrote to it): a frozen task does not die there.
  if (const UniqueFd freezer = open_v1_freezer(location)) TRY(thaw_v1(freezer.get()));
  return wait_for_event(directory, "populated", '0', until_us);
}

// ---- removal

Result<void> wait_until_empty(const CgroupLocation& location, int directory, std::int64_t until_us) {
  bool empty = false;
  if (!location.v2.empty()) {
    empty = TRY(wait_for_event(directory, "populated", '0', until_us));
  } else {
    while (true) {
      std::vector<UniqueFd> pidfds;
      const std::vector<pid_t> pids = TRY(processes_below(directory));
      for (const pid_t pid : pids) {
        if (auto pidfd = sys::pidfd_open(pid)) pidfds.push_back(std::move(*pidfd));
      }
      empty = pids.empty();
      if (empty || milliseconds_until(until_us) == 0) break;
      wait_for_all(pidfds, until_us);
      if (pidfds.empty()) pause_ms(1);
    }
  }
  if (empty) return ok();
  return os_error(EBUSY, "remove the cgroup, which still has processes:", main_directory(location));
}

// rmdir, below first. The kernel may still count a process that has just ended: EBUSY is tried again for a while.
Result<void> remove_directory(const std::string& path, std::int64_t until_us) {
  for (int wait = 1;; wait = std::min(wait * 2, 16)) {
    const UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory && errno == ENOENT) return ok();
    if (!directory) return errno_error("open", path);
    auto below = remove_below(directory.get());
    if (below && (rmdir(path.c_str()) == 0 || errno == ENOENT)) return ok();
    Error error = below ? errno_error("rmdir", path) : std::move(below).error();
    if (error.code != EBUSY || milliseconds_until(until_us) == 0) {
      error.object = path;
      return error;
    }
    pause_ms(wait);
  }
}

}  // namespace

std::string v1_directory(const CgroupLocation& location, std::string_view controller) {
  for (const auto& [controllers, directory] : location.v1) {
    const std::vector<std::string_view> parts = text::split(controllers, ',');
    if (std::find(parts.begin(), parts.end(), controller) != parts.end()) return directory;
  }
  return {};
}

std::string main_directory(const CgroupLocation& location) {
  if (!location.v2.empty()) return location.v2;
  return location.v1.empty() ? std::string() : location.v1.begin()->second;
}

Result<UniqueFd> open_cgroup(const CgroupLocation& location) {
  const std::string path = main_directory(location);
  if (path.empty()) return UniqueFd();
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory && (errno == ENOENT || errno == ENODEV)) return UniqueFd();
  if (!directory) return errno_error("open", path);
  const struct stat status = TRY(sys::stat_fd(directory.get(), path));
  if (location.inode != 0 && status.st_ino != location.inode) return UniqueFd();
  return directory;
}

Result<void> freeze_cgroup(const CgroupLocation& location) {
  const UniqueFd directory = TRY(open_cgroup(location));
  if (!directory) return refusal("freeze", main_directory(location), "the cgroup is not there");
  if (!location.v2.empty()) return freeze_v2(directory.get(), location.v2);
  const UniqueFd freezer = open_v1_freezer(location);
  if (!freezer) return refusal("freeze", main_directory(location), "the v1 controller freezer is not mounted");
  if (TRY(freeze_v1(freezer.get(), clock::monotonic_us() + kFreezeTimeout))) return ok();
  TRY(thaw_v1(freezer.get()));
  return refusal("freeze", v1_directory(location, "freezer"), "a process in it did not stop within 10 s");
}

Result<void> thaw_cgroup(const CgroupLocation& location) {
  const UniqueFd directory = TRY(open_cgroup(location));
  if (!directory) return refusal("thaw", main_directory(location), "the cgroup is not there");
  if (const UniqueFd freezer = open_v1_freezer(location)) TRY(thaw_v1(freezer.get()));
  if (location.v2.empty()) return ok();
  TRY(sys::write_file_at(directory.get(), "cgroup.freeze", "0"));
  if (TRY(wait_for_event(directory.get(), "frozen", '0', clock::monotonic_us() + kFreezeTimeout))) return ok();
  return refusal("thaw", location.v2, "a cgroup above it is frozen");
}

Result<bool> is_frozen(const CgroupLocation& location) {
  const UniqueFd directory = TRY(open_cgroup(location));
  if (!directory) return false;
  if (const UniqueFd freezer = open_v1_freezer(location); freezer && is_frozen_v1(freezer.get())) return true;
  if (location.v2.empty()) return false;
  const auto state = sys::read_file_at(directory.get(), "cgroup.freeze");
  return state && text::trim(*state) == "1";
}

Result<bool> kill_cgroup(const CgroupLocation& location, std::int64_t timeout_us) {
  const std::int64_t until = clock::monotonic_us() + timeout_us;
  const UniqueFd directory = TRY(open_cgroup(location));
  if (!directory) return true;
  if (!location.v2.empty() && !TRY(kill_v2(location, directory.get(), until))) return false;
  // v1 alone; on a hybrid host, one that a create which died half way had put into v1 only.
  return kill_v1(location, until);
}

Result<void> signal_cgroup(const CgroupLocation& location, int signal) {
  const UniqueFd directory = TRY(open_cgroup(location));
  if (!directory) return ok();
  TRY(signal_below(directory.get(), signal));
  return ok();
}

Result<bool> is_populated(const CgroupLocation& location) {
  const UniqueFd directory = TRY(open_cgroup(location));
  if (!directory) return false;
  if (!location.v2.empty()) return !TRY(wait_for_event(directory.get(), "populated", '0', 0));
  return !TRY(processes_below(directory.get())).empty();
}

Result<std::vector<pid_t>> cgroup_processes(const CgroupLocation& location) {
  const UniqueFd directory = TRY(open_cgroup(location));
  if (!directory) return std::vector<pid_t>();
  return processes_below(directory.get());
}

Result<void> remove_cgroup(const CgroupLocation& location) {
  if (location.manager == CgroupManager::disabled) return ok();
  const std::int64_t until = clock::monotonic_us() + kRemoveTimeout;
  const std::string main = main_directory(location);
  const UniqueFd directory = TRY(open_cgroup(location));
  // A later cgroup of that name is somebody else's: its v1 directories too, since create makes the main one first and
  // removal takes it last.
  const bool is_another = !directory && access(main.c_str(), F_OK) == 0;
  if (directory) TRY(wait_until_empty(location, directory.get(), until));
  if (directory && location.manager == CgroupManager::systemd) TRY(stop_scope(location));
  if (!is_another) {
    for (const auto& [controllers, path] : location.v1) {
      if (path != main) TRY(remove_directory(path, until));
    }
    if (!main.empty()) TRY(remove_directory(main, until));
  }
  // Not empty, or not ours any more: it stays.
  for (auto parent = location.parents.rbegin(); parent != location.parents.rend(); ++parent)
    (void)rmdir(parent->c_str());
  return ok();
}

Result<UniqueFd> watch_populated(const CgroupLocation& location) {
  const UniqueFd directory = TRY(open_cgroup(location));
  if (!directory || location.v2.empty()) return UniqueFd();
  UniqueFd events = TRY(sys::open_at(directory.get(), "cgroup.events", O_RDONLY));
  // An fd that has never been read is always ready.
  TRY(sys::read_fd(events.get(), location.v2 + "/cgroup.events"));
  return events;
}

}  // namespace agentrun::sandbox
