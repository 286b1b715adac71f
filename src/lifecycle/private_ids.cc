#include "lifecycle/private_ids.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "lifecycle/lock.h"
#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

using policy::PrivateIds;
using sandbox::IdRange;

constexpr const char* kDirectory = ".ranges";
constexpr const char* kLock = "lock";
constexpr const char* kOwner = "agentrun";
constexpr const char* kUidFile = "/etc/subuid";
constexpr const char* kGidFile = "/etc/subgid";
constexpr std::int64_t kLockWaitUs = 60'000'000;
constexpr std::size_t kDatabaseLimit = 4u << 20;
constexpr std::uint32_t kSize = 65536;
constexpr std::uint32_t kFirstOfHost = 65536;  // below: users, system users, and what distributions set aside
constexpr uid_t kNobodysUid = static_cast<uid_t>(-1);

bool meet(std::uint64_t a, std::uint64_t a_size, std::uint64_t b, std::uint64_t b_size) {
  return a < b + b_size && b < a + a_size;
}

// `part`: the uid or the gid of a range that is taken.
std::optional<std::uint32_t> first_free(const std::vector<IdRange>& ranges, const std::vector<PrivateIds>& taken,
                                        std::uint32_t PrivateIds::*part) {
  for (const IdRange& range : ranges) {
    const std::uint64_t end = std::uint64_t{range.start} + range.count;
    for (std::uint64_t start = std::max(range.start, kFirstOfHost); start + kSize <= end; start += kSize) {
      const bool free = std::none_of(taken.begin(), taken.end(), [&](const PrivateIds& other) {
        return meet(start, kSize, other.*part, other.size);
      });
      if (free) return static_cast<std::uint32_t>(start);
    }
  }
  return std::nullopt;
}

std::string name_of(const PrivateIds& ids) {
  return std::to_string(ids.uid) + "-" + std::to_string(ids.gid) + "-" + std::to_string(ids.size);
}

std::optional<PrivateIds> parse_name(std::string_view name) {
  const auto parts = text::split(name, '-');
  if (parts.size() != 3) return std::nullopt;
  std::array<std::uint32_t, 3> numbers{};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto number = text::parse_unsigned(parts[i]);
    if (!number || *number == 0 || *number > 0xFFFFFFFFu) return std::nullopt;
    numbers[i] = static_cast<std::uint32_t>(*number);
  }
  return PrivateIds{numbers[0], numbers[1], numbers[2]};
}

struct Holder {
  sys::ProcessId creator;
  std::string id, root;
};

std::optional<Holder> read_holder(int directory, const std::string& name) {
  std::string text(8192, '\0');
  const ssize_t length = readlinkat(directory, name.c_str(), text.data(), text.size());
  if (length <= 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(length));
  std::vector<std::string> words;
  std::size_t at = 0;
  for (int i = 0; i < 5; ++i) {
    const std::size_t space = text.find(' ', at);
    if (space == std::string::npos) return std::nullopt;
    words.push_back(text.substr(at, space - at));
    at = space + 1;
  }
  const auto pid = text::parse_unsigned(words[1]), start_time = text::parse_unsigned(words[2]);
  if (words[0] != "1" || !pid || *pid > INT32_MAX || !start_time) return std::nullopt;
  return Holder{{static_cast<pid_t>(*pid), *start_time, words[3]}, words[4], text.substr(at)};
}

Result<std::vector<IdRange>> own_ranges(const char* file) {
  const auto text = sys::read_file(file, kDatabaseLimit);
  if (!text && text.error().code != ENOENT) return text.error();
  auto ranges = text ? sandbox::subordinate_ranges(*text, kOwner, kNobodysUid) : std::vector<IdRange>();
  if (!ranges.empty()) {
    const std::string other = shared_with(*text);
    if (!other.empty()) return refusal("user.userns auto", file, "the ids of agentrun are also those of " + other);
    return ranges;
  }
  const auto uids = sys::read_file(kUidFile, kDatabaseLimit), gids = sys::read_file(kGidFile, kDatabaseLimit);
  return refusal("user.userns auto", file,
                 "it has no ids for agentrun: add the line \"" + line_to_add(uids ? *uids : "", gids ? *gids : "") +
                     "\" to " + kUidFile + " and " + kGidFile);
}

struct Ranges {
  std::vector<IdRange> uids, gids;
};

Result<Ranges> read_ranges() { return Ranges{TRY(own_ranges(kUidFile)), TRY(own_ranges(kGidFile))}; }

// The directory, and the lock on it for as long as the object lives.
struct Area {
  UniqueFd directory, lock;
};

Result<Area> open_area() {
  const Store home = TRY(Store::open(default_root()));
  const auto made = sys::make_directory_at(home.directory(), kDirectory, 0700);
  if (!made && made.error().code != EEXIST) return made.error();
  Area area;
  area.directory = TRY(sys::open_at(home.directory(), kDirectory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  area.lock = TRY(sys::open_at(area.directory.get(), kLock, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  TRY(take_lock(area.lock.get(), "id ranges", kLockWaitUs));
  return area;
}

Result<std::vector<PrivateIds>> taken_ranges(int directory) {
  std::vector<PrivateIds> taken;
  for (const std::string& name : TRY(sys::list_directory(directory, "."))) {
    if (const auto ids = parse_name(name)) taken.push_back(*ids);
  }
  return taken;
}

// The container's own word. An error, or what cannot be read, is "yes": a range too few is better than one twice.
bool container_has(const Holder& holder, const PrivateIds& ids) {
  if (access(holder.root.c_str(), F_OK) != 0) return errno != ENOENT;
  const auto store = Store::open(holder.root);
  if (!store) return true;
  const auto container = store->look_up(holder.id);
  if (!container) return true;
  if (!*container) return false;
  const auto record = (*container)->record();
  if (record) return record->private_ids == ids;
  if (record.error().code != ENOENT) return true;
  const auto intent = (*container)->intent();
  if (intent) return intent->private_ids == ids;
  return intent.error().code != ENOENT;
}

// One process, from its /proc/PID/status. A zombie that nobody has waited for does nothing any more, unless it is the
// first thread of a program whose others run on.
bool status_has(std::string_view status, const PrivateIds& ids) {
  bool zombie = false, alone = false, found = false;
  for (const std::string_view line : text::split(status, '\n')) {
    const auto words = text::split_words(line);
    if (words.size() < 2) continue;
    zombie = zombie || (words[0] == "State:" && words[1] == "Z");
    alone = alone || (words[0] == "Threads:" && words[1] == "1");
    const bool uids = words[0] == "Uid:";
    if (!uids && words[0] != "Gid:") continue;
    const std::uint64_t first = uids ? ids.uid : ids.gid;
    found = found || std::any_of(words.begin() + 1, words.end(), [&](std::string_view word) {
              const auto id = text::parse_unsigned(word);
              return id && *id >= first && *id - first < ids.size;
            });
  }
  return found && !(zombie && alone);
}

// Whatever the records say: a root that is not mounted here may have a container that runs.
bool process_has(const PrivateIds& ids) {
  const auto names = sys::list_directory(AT_FDCWD, "/proc");
  if (!names) return true;
  return std::any_of(names->begin(), names->end(), [&](const std::string& name) {
    if (!text::parse_unsigned(name)) return false;
    const auto status = sys::read_file("/proc/" + name + "/status", 1u << 16);
    return status && status_has(*status, ids);
  });
}

bool is_stale(int directory, const PrivateIds& ids) {
  const auto holder = read_holder(directory, name_of(ids));
  if (!holder) return false;  // of a later release
  const auto creator = sys::open_process(holder->creator);
  if (!creator) return false;
  if (*creator) {
    const auto ended = sys::wait_for_end(creator->get(), 0);
    if (!ended || !*ended) return false;
  }
  return !container_has(*holder, ids) && !process_has(ids);
}

// The lock is held.
Result<void> take_back_stale(int directory) {
  for (const PrivateIds& ids : TRY(taken_ranges(directory))) {
    if (!is_stale(directory, ids)) continue;
    if (unlinkat(directory, name_of(ids).c_str(), 0) != 0 && errno != ENOENT) {
      return errno_error("remove", std::string(kDirectory) + "/" + name_of(ids));
    }
  }
  return ok();
}

Error exhausted(std::size_t taken) {
  return refusal("user.userns auto", "",
                 "no range of " + std::to_string(kSize) + " ids is free, " + std::to_string(taken) +
                     " are taken: give agentrun more in " + kUidFile + " and " + kGidFile);
}

Result<PrivateIds> choose(int directory, const Ranges& ranges) {
  auto taken = TRY(taken_ranges(directory));
  auto chosen = choose_private_ids(ranges.uids, ranges.gids, taken);
  if (chosen) return *chosen;
  TRY(take_back_stale(directory));
  taken = TRY(taken_ranges(directory));
  chosen = choose_private_ids(ranges.uids, ranges.gids, taken);
  if (chosen) return *chosen;
  return exhausted(taken.size());
}

}  // namespace

std::optional<PrivateIds> choose_private_ids(const std::vector<IdRange>& uids, const std::vector<IdRange>& gids,
                                             const std::vector<PrivateIds>& taken) {
  const auto uid = first_free(uids, taken, &PrivateIds::uid), gid = first_free(gids, taken, &PrivateIds::gid);
  if (!uid || !gid) return std::nullopt;
  return PrivateIds{*uid, *gid, kSize};
}

std::string shared_with(std::string_view text) {
  const auto own = sandbox::subordinate_ranges(text, kOwner, kNobodysUid);
  for (const std::string_view line : text::split(text, '\n')) {
    const std::string name(text::trim(line.substr(0, line.find(':'))));
    if (name.empty() || name == kOwner) continue;
    for (const IdRange& other : sandbox::subordinate_ranges(line, name, kNobodysUid)) {
      for (const IdRange& range : own) {
        if (meet(range.start, range.count, other.start, other.count)) return name;
      }
    }
  }
  return {};
}

std::string line_to_add(std::string_view subuid, std::string_view subgid) {
  constexpr std::uint64_t kStart = 1u << 30, kCount = 1u << 24;
  std::uint64_t start = kStart;
  // Each pass moves behind one line at least.
  for (bool moved = true; moved;) {
    moved = false;
    for (const std::string_view file : {subuid, subgid}) {
      for (const std::string_view line : text::split(file, '\n')) {
        const auto fields = text::split(text::trim(line), ':');
        if (fields.size() != 3) continue;
        const auto first = text::parse_unsigned(fields[1]), count = text::parse_unsigned(fields[2]);
        if (!first || !count || *first > 0xFFFFFFFFu || *count > 0xFFFFFFFFu) continue;
        if (!meet(start, kCount, *first, *count)) continue;
        start = (*first + *count + kSize - 1) / kSize * kSize;
        moved = true;
      }
    }
  }
  return std::string(kOwner) + ":" + std::to_string(start) + ":" + std::to_string(kCount);
}

Result<PrivateIds> possible_private_ids() {
  const Ranges ranges = TRY(read_ranges());
  const auto chosen = choose_private_ids(ranges.uids, ranges.gids, {});
  if (!chosen) return exhausted(0);
  return *chosen;
}

Result<PrivateIds> reserve_private_ids(const Store& store, const std::string& id) {
  const Ranges ranges = TRY(read_ranges());
  const std::string holder = "1 " + std::to_string(getpid()) + " " + std::to_string(TRY(sys::start_time(getpid()))) +
                             " " + TRY(sys::boot_id()) + " " + id + " " + store.path();
  const Area area = TRY(open_area());
  const PrivateIds ids = TRY(choose(area.directory.get(), ranges));
  if (symlinkat(holder.c_str(), area.directory.get(), name_of(ids).c_str()) != 0) {
    return errno_error("reserve ids", name_of(ids));
  }
  return ids;
}

Result<void> release_private_ids(const PrivateIds& ids, const std::string& root, const std::string& id) {
  const Area area = TRY(open_area());
  const auto holder = read_holder(area.directory.get(), name_of(ids));
  if (!holder || holder->id != id || holder->root != root) return ok();
  if (unlinkat(area.directory.get(), name_of(ids).c_str(), 0) != 0 && errno != ENOENT) {
    return errno_error("release ids", name_of(ids));
  }
  return ok();
}

Reservation::~Reservation() {
  if (!held_) return;
  const auto released = release_private_ids(ids_, root_, id_);
  if (!released) log::write(log::Level::warning, released.error().message());
}

Result<void> give_streams(const PrivateIds& ids, const oci::User& user) {
  if (user.uid >= ids.size) return ok();
  for (int fd = 0; fd < 3; ++fd) {
    struct stat status {};
    if (fstat(fd, &status) != 0 || status.st_uid != 0) continue;
    if (!S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode)) continue;
    if (fchown(fd, ids.uid + user.uid, static_cast<gid_t>(-1)) != 0 && errno != EROFS && errno != EINVAL) {
      return errno_error("chown", "standard stream " + std::to_string(fd));
    }
  }
  return ok();
}

}  // namespace agentrun::lifecycle
