#include "sandbox/cgroup_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>

#include "base/clock.h"
#include "base/text.h"
#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::sandbox {
namespace {

constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// A container has at most pids.max processes, but a limit of -1 is allowed.
constexpr std::size_t kMostBytes = 64u << 20;

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

// Names of the child cgroups, at most `most`. kernfs counts them in the link number, which saves the common look.
Result<std::vector<std::string>> children_of(int directory, std::size_t most) {
  struct stat status {};
  std::vector<std::string> names;
  if (fstat(directory, &status) == 0 && status.st_nlink == 2) return names;
  UniqueFd copy(openat(directory, ".", kDirectoryFlags));
  if (!copy) {
    if (errno == ENOENT || errno == ENODEV) return names;
    return errno_error("open", "cgroup directory");
  }
  const std::unique_ptr<DIR, CloseDirectory> entries(fdopendir(copy.get()));
  if (!entries) return errno_error("list", "cgroup directory");
  copy.release();
  while (names.size() < most) {
    const dirent* entry = readdir(entries.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

bool is_gone(int code) { return code == ENOENT || code == ENODEV; }

// Into `pids`, unsorted, with what is in it already.
Result<void> read_processes(int directory, std::vector<pid_t>& pids) {
  const auto content = sys::read_file_at(directory, "cgroup.procs", kMostBytes);
  if (!content) {
    // EOPNOTSUPP: threaded; its processes are in the list of the domain above.
    if (is_gone(content.error().code) || content.error().code == EOPNOTSUPP) return ok();
    return content.error();
  }
  for (const std::string_view word : text::split_words(*content)) {
    const auto pid = text::parse_unsigned(word);
    if (pid && *pid > 0 && *pid <= static_cast<std::uint64_t>(std::numeric_limits<pid_t>::max())) {
      pids.push_back(static_cast<pid_t>(*pid));
    }
  }
  return ok();
}

}  // namespace

Result<void> for_each_cgroup(int top, const std::function<Result<void>(int)>& visit) {
  TRY(visit(top));
  std::vector<std::string> waiting = TRY(children_of(top, std::numeric_limits<std::size_t>::max()));
  while (!waiting.empty()) {
    const std::string path = std::move(waiting.back());
    waiting.pop_back();
    const UniqueFd directory(openat(top, path.c_str(), kDirectoryFlags));
    if (!directory) {
      if (is_gone(errno)) continue;
      return errno_error("open cgroup", path);
    }
    TRY(visit(directory.get()));
    for (const std::string& name : TRY(children_of(directory.get(), std::numeric_limits<std::size_t>::max()))) {
      waiting.push_back(path + "/" + name);
    }
  }
  return ok();
}

Result<std::vector<pid_t>> processes_below(int top) {
  std::vector<pid_t> pids;
  TRY(for_each_cgroup(top, [&](int directory) { return read_processes(directory, pids); }));
  std::sort(pids.begin(), pids.end());
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  return pids;
}

Result<std::vector<UniqueFd>> signal_below(int top, int signal) {
  struct Target {
    pid_t pid;
    UniqueFd pidfd;
  };
  std::vector<Target> targets;
  for (const pid_t pid : TRY(processes_below(top))) {
    auto pidfd = sys::pidfd_open(pid);
    if (pidfd) targets.push_back({pid, std::move(*pidfd)});
  }
  std::vector<UniqueFd> hit;
  if (targets.empty()) return hit;
  const std::vector<pid_t> still = TRY(processes_below(top));
  for (Target& target : targets) {
    if (!std::binary_search(still.begin(), still.end(), target.pid)) continue;
    auto sent = sys::pidfd_send_signal(target.pidfd.get(), signal);
    if (!sent && sent.error().code != ESRCH) return sent.error();
    if (sent) hit.push_back(std::move(target.pidfd));
  }
  return hit;
}

Result<void> remove_below(int top) {
  UniqueFd here(openat(top, ".", kDirectoryFlags));
  if (!here) return is_gone(errno) ? ok() : Result<void>(errno_error("open", "cgroup directory"));
  std::vector<std::string> names;  // from `top` down to `here`
  while (true) {
    std::vector<std::string> child = TRY(children_of(here.get(), 1));
    if (!child.empty()) {
      UniqueFd next(openat(here.get(), child[0].c_str(), kDirectoryFlags));
      if (!next && !is_gone(errno)) return errno_error("open cgroup", child[0]);
      if (!next) continue;
      here = std::move(next);
      names.push_back(std::move(child[0]));
      continue;
    }
    if (names.empty()) return ok();
    // By "..", not by a path from the top: a container may nest deeper than PATH_MAX. v2 cannot rename a cgroup.
    UniqueFd parent(openat(here.get(), "..", kDirectoryFlags));
    if (!parent) return errno_error("open the parent of cgroup", names.back());
    if (unlinkat(parent.get(), names.back().c_str(), AT_REMOVEDIR) != 0 && !is_gone(errno)) {
      return errno_error("rmdir cgroup", names.back());
    }
    here = std::move(parent);
    names.pop_back();
  }
}

int milliseconds_until(std::int64_t until_us) {
  const std::int64_t left = until_us - clock::monotonic_us();
  if (left <= 0) return 0;
  return static_cast<int>(std::min<std::int64_t>((left + 999) / 1000, std::numeric_limits<int>::max()));
}

void wait_for_all(const std::vector<UniqueFd>& pidfds, std::int64_t until_us) {
  for (const UniqueFd& pidfd : pidfds) {
    pollfd waited{pidfd.get(), POLLIN, 0};
    while (poll(&waited, 1, milliseconds_until(until_us)) < 0 && errno == EINTR) {
    }
  }
}

Result<bool> wait_for_event(int directory, std::string_view key, char value, std::int64_t until_us) {
  const UniqueFd events(openat(directory, "cgroup.events", O_RDONLY | O_CLOEXEC));
  if (!events) {
    if (is_gone(errno)) return key == "populated" && value == '0';
    return errno_error("open", "cgroup.events");
  }
  while (true) {
    // Reading is what arms the next notification: one that comes between read and poll is not lost.
    char buffer[256];
    const ssize_t length = pread(events.get(), buffer, sizeof buffer, 0);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) {
      if (is_gone(errno)) return key == "populated" && value == '0';
      return errno_error("read", "cgroup.events");
    }
    for (const std::string_view line : text::split({buffer, static_cast<std::size_t>(length)}, '\n')) {
      if (line.size() == key.size() + 2 && line.starts_with(key) && line.back() == value) return true;
    }
    const int timeout = milliseconds_until(until_us);
    if (timeout == 0) return false;
    pollfd waited{events.get(), POLLPRI, 0};
    if (poll(&waited, 1, timeout) < 0 && errno != EINTR) return errno_error("poll", "cgroup.events");
  }
}

}  // namespace agentrun::sandbox
