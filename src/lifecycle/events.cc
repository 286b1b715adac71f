#include "lifecycle/events.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "lifecycle/liveness.h"
#include "lifecycle/store.h"
#include "oci/json_writer.h"
#include "sandbox/cgroup_metrics.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

using oci::JsonWriter;
using Number = std::optional<std::uint64_t>;

Number nanoseconds(const Number& microseconds) { return microseconds ? Number(*microseconds * 1000) : Number(); }

// An object; a number that the kernel does not have is left out.
void section(JsonWriter& out, std::string_view name,
             std::initializer_list<std::pair<std::string_view, Number>> members) {
  out.key(name);
  out.begin_object();
  for (const auto& [key, value] : members) {
    if (value) out.member(key, *value);
  }
  out.end_object();
}

void print_cpu(JsonWriter& out, const sandbox::CgroupMetrics& metrics) {
  out.key("cpu");
  out.begin_object();
  section(out, "usage",
          {{"total", nanoseconds(metrics.cpu_usage_us)},
           {"kernel", nanoseconds(metrics.cpu_system_us)},
           {"user", nanoseconds(metrics.cpu_user_us)}});
  section(out, "throttling",
          {{"periods", metrics.periods},
           {"throttledPeriods", metrics.throttled_periods},
           {"throttledTime", nanoseconds(metrics.throttled_us)}});
  out.end_object();
}

void print_memory(JsonWriter& out, const sandbox::CgroupMetrics& metrics) {
  out.key("memory");
  out.begin_object();
  if (metrics.memory_file) out.member("cache", *metrics.memory_file);
  section(out, "usage",
          {{"limit", metrics.memory_limit},
           {"usage", metrics.memory_current},
           {"max", metrics.memory_peak},
           {"failcnt", metrics.memory_limit_hits}});
  section(out, "swap", {{"limit", metrics.swap_limit}, {"usage", metrics.swap_current}});
  section(out, "raw",
          {{"anon", metrics.memory_anon},
           {"file", metrics.memory_file},
           {"inactive_file", metrics.memory_inactive_file},
           {"pgfault", metrics.page_faults},
           {"pgmajfault", metrics.major_page_faults},
           {"oom", metrics.oom_events},
           {"oom_kill", metrics.oom_kills}});
  out.end_object();
}

void print_device(JsonWriter& out, const sandbox::IoMetrics& io, const char* operation, std::uint64_t value) {
  out.begin_object();
  out.member("major", io.major);
  out.member("minor", io.minor);
  out.member("op", operation);
  out.member("value", value);
  out.end_object();
}

void print_io(JsonWriter& out, const std::vector<sandbox::IoMetrics>& devices) {
  out.key("blkio");
  out.begin_object();
  out.key("ioServiceBytesRecursive");
  out.begin_array();
  for (const auto& io : devices) {
    print_device(out, io, "Read", io.read_bytes);
    print_device(out, io, "Write", io.write_bytes);
  }
  out.end_array();
  out.key("ioServicedRecursive");
  out.begin_array();
  for (const auto& io : devices) {
    print_device(out, io, "Read", io.reads);
    print_device(out, io, "Write", io.writes);
  }
  out.end_array();
  out.end_object();
}

void print_hugetlb(JsonWriter& out, const std::vector<sandbox::HugepageMetrics>& pages) {
  out.key("hugetlb");
  out.begin_object();
  for (const auto& page : pages) {
    section(out, page.page_size, {{"usage", page.usage}, {"max", page.peak}, {"failcnt", page.refused}});
  }
  out.end_object();
}

std::string stats_line(const std::string& id, const sandbox::CgroupMetrics& metrics) {
  JsonWriter out(oci::Layout::compact);
  out.begin_object();
  out.member("type", "stats");
  out.member("id", id);
  out.key("data");
  out.begin_object();
  print_cpu(out, metrics);
  print_memory(out, metrics);
  section(out, "pids", {{"current", metrics.pids_current}, {"limit", metrics.pids_limit}});
  print_io(out, metrics.io);
  print_hugetlb(out, metrics.hugepages);
  out.end_object();
  out.end_object();
  return out.take() + '\n';
}

struct Followed {
  Record record;
  UniqueFd process;
};

Result<Followed> find_alive(const Global& global, const std::string& id) {
  const Store store = TRY(Store::open(global.root));
  const Container container = TRY(store.find(id));
  Followed followed;
  followed.record = TRY(container.record());
  if (!has_cgroup(followed.record.cgroup)) {
    return refusal("events of container", id, "it has no cgroup, so that nothing is counted");
  }
  followed.process = TRY(sys::open_process(followed.record.process));
  if (!followed.process || TRY(sys::wait_for_end(followed.process.get(), 0))) {
    return refusal("container not running", "", id);
  }
  return followed;
}

// Tells of kills that came since the last look. The counter is the truth; a watch only says when to look.
class OomWatch {
 public:
  explicit OomWatch(const Record& record) : record_(record) {
    if (auto watch = sandbox::watch_oom(record.cgroup)) watch_ = std::move(*watch);
    if (const auto before = sandbox::oom_kills(record.cgroup)) seen_ = *before;
  }

  const sandbox::OomEvents& fds() const { return watch_; }

  Result<void> look(const EventSink& emit) {
    sandbox::acknowledge(watch_);
    const auto now = sandbox::oom_kills(record_.cgroup);
    if (!now) return ok();  // the cgroup went with the container
    for (; seen_ < *now; ++seen_) {
      JsonWriter out(oci::Layout::compact);
      out.begin_object();
      out.member("type", "oom");
      out.member("id", record_.id);
      out.end_object();
      TRY(emit(out.take() + '\n'));
    }
    return ok();
  }

 private:
  const Record& record_;
  sandbox::OomEvents watch_;
  std::uint64_t seen_ = 0;
};

Result<void> emit_stats(const Record& record, const EventSink& emit) {
  return emit(stats_line(record.id, TRY(sandbox::read_metrics(record.cgroup))));
}

}  // namespace

Result<void> stats(const Global& global, const std::string& id, const EventSink& emit) {
  const Followed followed = TRY(find_alive(global, id));
  return emit_stats(followed.record, emit);
}

Result<void> follow_events(const Global& global, const std::string& id, std::int64_t interval_us,
                           const EventSink& emit) {
  const Followed followed = TRY(find_alive(global, id));
  OomWatch oom(followed.record);
  TRY(emit_stats(followed.record, emit));
  std::int64_t next = clock::monotonic_us() + interval_us;
  while (true) {
    std::array<pollfd, 2> entries = {{{followed.process.get(), POLLIN, 0}, {oom.fds().fd.get(), oom.fds().events, 0}}};
    const std::int64_t left = std::clamp<std::int64_t>(next - clock::monotonic_us(), 0, 3'600'000'000);
    if (poll(entries.data(), entries.size(), static_cast<int>((left + 999) / 1000)) < 0) {
      if (errno == EINTR) continue;
      return errno_error("poll", "container process");
    }
    TRY(oom.look(emit));
    if (entries[0].revents != 0) return ok();
    if (clock::monotonic_us() < next) continue;
    next = clock::monotonic_us() + interval_us;
    // The end may come between the two: then the next poll says so.
    if (const auto metrics = sandbox::read_metrics(followed.record.cgroup)) TRY(emit(stats_line(id, *metrics)));
  }
}

}  // namespace agentrun::lifecycle
