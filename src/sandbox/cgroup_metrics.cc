#include "sandbox/cgroup_metrics.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/text.h"
#include "sandbox/cgroup_control.h"
#include "sandbox/cgroup_file.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

using Number = std::optional<std::uint64_t>;

// v1's "no limit" is the largest multiple of a page below 2^63; nothing near it is a limit of anybody.
constexpr std::uint64_t kV1Unlimited = 1ull << 62;

// Empty where the file is not there: then nothing is found in it.
std::string content_of(const std::string& directory, const char* file) {
  auto content = sys::read_file(directory + "/" + file);
  return content ? std::move(*content) : std::string();
}

Number scaled(Number value, std::uint64_t multiply, std::uint64_t divide) {
  if (value) *value = *value / divide * multiply + *value % divide * multiply / divide;
  return value;
}

void read_cpu_v2(const std::string& directory, CgroupMetrics& metrics) {
  const std::string stat = content_of(directory, "cpu.stat");
  metrics.cpu_usage_us = find_number(stat, "usage_usec");
  metrics.cpu_user_us = find_number(stat, "user_usec");
  metrics.cpu_system_us = find_number(stat, "system_usec");
  metrics.periods = find_number(stat, "nr_periods");
  metrics.throttled_periods = find_number(stat, "nr_throttled");
  metrics.throttled_us = find_number(stat, "throttled_usec");
}

void read_cpu_v1(const std::string& cpu, const std::string& cpuacct, CgroupMetrics& metrics) {
  if (!cpuacct.empty()) {
    metrics.cpu_usage_us = scaled(read_number(cpuacct, "cpuacct.usage"), 1, 1000);
    metrics.cpu_user_us = scaled(read_number(cpuacct, "cpuacct.usage_user"), 1, 1000);
    metrics.cpu_system_us = scaled(read_number(cpuacct, "cpuacct.usage_sys"), 1, 1000);
  }
  if (!cpu.empty()) {
    const std::string stat = content_of(cpu, "cpu.stat");
    metrics.periods = find_number(stat, "nr_periods");
    metrics.throttled_periods = find_number(stat, "nr_throttled");
    metrics.throttled_us = scaled(find_number(stat, "throttled_time"), 1, 1000);
  }
}

void read_memory_v2(const std::string& directory, CgroupMetrics& metrics) {
  metrics.memory_current = read_number(directory, "memory.current");
  metrics.memory_peak = read_number(directory, "memory.peak");  // Linux 5.19
  metrics.memory_limit = read_number(directory, "memory.max");
  metrics.swap_current = read_number(directory, "memory.swap.current");
  metrics.swap_limit = read_number(directory, "memory.swap.max");
  const std::string stat = content_of(directory, "memory.stat");
  metrics.memory_file = find_number(stat, "file");
  metrics.memory_anon = find_number(stat, "anon");
  metrics.memory_inactive_file = find_number(stat, "inactive_file");
  metrics.page_faults = find_number(stat, "pgfault");
  metrics.major_page_faults = find_number(stat, "pgmajfault");
  const std::string events = content_of(directory, "memory.events");
  metrics.memory_limit_hits = find_number(events, "max");
  metrics.oom_events = find_number(events, "oom");
  metrics.oom_kills = find_number(events, "oom_kill");
}

void read_memory_v1(const std::string& directory, CgroupMetrics& metrics) {
  const auto limit = [&](const char* file) {
    const Number value = read_number(directory, file);
    return value && *value < kV1Unlimited ? value : Number();
  };
  metrics.memory_current = read_number(directory, "memory.usage_in_bytes");
  metrics.memory_peak = read_number(directory, "memory.max_usage_in_bytes");
  metrics.memory_limit = limit("memory.limit_in_bytes");
  const Number both = read_number(directory, "memory.memsw.usage_in_bytes");
  if (both && metrics.memory_current) metrics.swap_current = *both - std::min(*both, *metrics.memory_current);
  const Number both_limit = limit("memory.memsw.limit_in_bytes");
  if (both_limit && metrics.memory_limit)
    metrics.swap_limit = *both_limit - std::min(*both_limit, *metrics.memory_limit);
  const std::string stat = content_of(directory, "memory.stat");
  metrics.memory_file = find_number(stat, "total_cache");
  metrics.memory_anon = find_number(stat, "total_rss");
  metrics.memory_inactive_file = find_number(stat, "total_inactive_file");
  metrics.page_faults = find_number(stat, "total_pgfault");
  metrics.major_page_faults = find_number(stat, "total_pgmajfault");
  metrics.memory_limit_hits = read_number(directory, "memory.failcnt");
  metrics.oom_kills = find_number(content_of(directory, "memory.oom_control"), "oom_kill");
}

void read_pids(const std::string& directory, CgroupMetrics& metrics) {
  metrics.pids_current = read_number(directory, "pids.current");
  metrics.pids_limit = read_number(directory, "pids.max");
  metrics.pids_refused = find_number(content_of(directory, "pids.events"), "max");
}

// "8:0" into an entry for that device.
IoMetrics* device_entry(std::vector<IoMetrics>& io, std::string_view device) {
  const std::vector<std::string_view> numbers = text::split(device, ':');
  if (numbers.size() != 2) return nullptr;
  const Number major = text::parse_unsigned(numbers[0]);
  const Number minor = text::parse_unsigned(numbers[1]);
  if (!major || !minor) return nullptr;
  for (IoMetrics& entry : io) {
    if (entry.major == *major && entry.minor == *minor) return &entry;
  }
  io.push_back({*major, *minor});
  return &io.back();
}

// "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0"
void read_io_v2(const std::string& directory, CgroupMetrics& metrics) {
  const std::string stat = content_of(directory, "io.stat");
  for (const std::string_view line : text::split(stat, '\n')) {
    const std::vector<std::string_view> words = text::split_words(line);
    IoMetrics* entry = words.size() < 2 ? nullptr : device_entry(metrics.io, words[0]);
    if (entry == nullptr) continue;
    for (const std::string_view word : words) {
      const std::size_t sign = word.find('=');
      if (sign == std::string_view::npos) continue;
      const std::uint64_t value = text::parse_unsigned(word.substr(sign + 1)).value_or(0);
      const std::string_view key = word.substr(0, sign);
      if (key == "rbytes") entry->read_bytes = value;
      if (key == "wbytes") entry->write_bytes = value;
      if (key == "rios") entry->reads = value;
      if (key == "wios") entry->writes = value;
    }
  }
}

// "8:0 Read 4096"
void read_io_v1(const std::string& directory, CgroupMetrics& metrics) {
  const auto add = [&](const char* file, std::uint64_t IoMetrics::*read, std::uint64_t IoMetrics::*write) {
    const std::string stat = content_of(directory, file);
    for (const std::string_view line : text::split(stat, '\n')) {
      const std::vector<std::string_view> words = text::split_words(line);
      if (words.size() != 3 || (words[1] != "Read" && words[1] != "Write")) continue;
      IoMetrics* entry = device_entry(metrics.io, words[0]);
      if (entry != nullptr) entry->*(words[1] == "Read" ? read : write) = text::parse_unsigned(words[2]).value_or(0);
    }
  };
  add("blkio.throttle.io_service_bytes_recursive", &IoMetrics::read_bytes, &IoMetrics::write_bytes);
  add("blkio.throttle.io_serviced_recursive", &IoMetrics::reads, &IoMetrics::writes);
}

// "hugetlb.2MB.current", "hugetlb.2MB.usage_in_bytes": the page size stands between the two words.
void read_hugepages(const std::string& directory, bool is_v1, CgroupMetrics& metrics) {
  const std::string_view ending = is_v1 ? ".usage_in_bytes" : ".current";
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto names = fd ? sys::list_directory(fd.get(), directory) : Result<std::vector<std::string>>(Error());
  if (!names) return;
  constexpr std::string_view kStart = "hugetlb.";
  for (const std::string& name : *names) {
    if (!name.starts_with(kStart) || !name.ends_with(ending)) continue;
    HugepageMetrics page;
    page.page_size = name.substr(kStart.size(), name.size() - kStart.size() - ending.size());
    if (page.page_size.find('.') != std::string::npos) continue;  // the reservations: "hugetlb.2MB.rsvd.current"
    const std::string file = std::string(kStart) + page.page_size;
    page.usage = read_number(directory, name);
    if (is_v1) {
      page.peak = read_number(directory, file + ".max_usage_in_bytes");
      page.refused = read_number(directory, file + ".failcnt");
    } else {
      page.refused = find_number(content_of(directory, (file + ".events").c_str()), "max");
    }
    metrics.hugepages.push_back(std::move(page));
  }
  std::sort(metrics.hugepages.begin(), metrics.hugepages.end(),
            [](const auto& one, const auto& other) { return one.page_size < other.page_size; });
}

// Registered by a line "EVENTFD FD-OF-memory.oom_control".
Result<OomEvents> watch_oom_v1(const std::string& memory) {
  OomEvents watch;
  watch.fd.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!watch.fd) return errno_error("eventfd");
  const UniqueFd control = TRY(sys::open(memory + "/memory.oom_control", O_RDONLY));
  TRY(sys::write_file(memory + "/cgroup.event_control",
                      std::to_string(watch.fd.get()) + " " + std::to_string(control.get())));
  watch.events = POLLIN;
  return watch;
}

}  // namespace

Result<OomEvents> watch_oom(const CgroupLocation& location) {
  const std::string memory = v1_directory(location, "memory");
  if (!memory.empty()) return watch_oom_v1(memory);
  OomEvents watch;
  if (location.v2.empty() || !has_file(location.v2, "memory.events")) return watch;
  watch.fd = TRY(sys::open(location.v2 + "/memory.events", O_RDONLY));
  watch.events = POLLPRI;
  acknowledge(watch);  // an fd that has never been read is always ready
  return watch;
}

void acknowledge(const OomEvents& watch) {
  if (!watch.fd) return;
  std::array<char, 512> text{};
  if (watch.events == POLLIN) {
    static_cast<void>(!read(watch.fd.get(), text.data(), text.size()));
  } else {
    static_cast<void>(!pread(watch.fd.get(), text.data(), text.size(), 0));
  }
}

Result<CgroupMetrics> read_metrics(const CgroupLocation& location) {
  const UniqueFd directory = TRY(open_cgroup(location));
  if (!directory) return refusal("read the metrics of", main_directory(location), "the cgroup is not there");
  CgroupMetrics metrics;
  const std::string cpu = v1_directory(location, "cpu");
  const std::string memory = v1_directory(location, "memory");
  const std::string pids = v1_directory(location, "pids");
  const std::string io = v1_directory(location, "blkio");
  const std::string hugetlb = v1_directory(location, "hugetlb");
  if (!location.v2.empty()) {
    if (cpu.empty()) read_cpu_v2(location.v2, metrics);
    if (memory.empty()) read_memory_v2(location.v2, metrics);
    if (pids.empty()) read_pids(location.v2, metrics);
    if (io.empty()) read_io_v2(location.v2, metrics);
    if (hugetlb.empty()) read_hugepages(location.v2, false, metrics);
  }
  if (!cpu.empty()) read_cpu_v1(cpu, v1_directory(location, "cpuacct"), metrics);
  if (!memory.empty()) read_memory_v1(memory, metrics);
  if (!pids.empty()) read_pids(pids, metrics);
  if (!io.empty()) read_io_v1(io, metrics);
  if (!hugetlb.empty()) read_hugepages(hugetlb, true, metrics);
  return metrics;
}

Result<std::uint64_t> oom_kills(const CgroupLocation& location) {
  const std::string memory = v1_directory(location, "memory");
  if (memory.empty() && location.v2.empty()) return std::uint64_t{0};
  const UniqueFd directory = TRY(open_cgroup(location));
  if (!directory)
    return refusal("read the out-of-memory kills of", main_directory(location), "the cgroup is not there");
  const std::string file = memory.empty() ? location.v2 + "/memory.events" : memory + "/memory.oom_control";
  const auto content = sys::read_file(file);
  if (!content && content.error().code == ENOENT) return std::uint64_t{0};  // no memory controller: it killed nothing
  if (!content) return content.error();
  return find_number(*content, "oom_kill").value_or(0);
}

Result<UniqueFd> watch_oom_kills(const CgroupLocation& location) {
  if (location.v2.empty() || !v1_directory(location, "memory").empty()) return UniqueFd();
  const UniqueFd directory = TRY(open_cgroup(location));
  if (!directory) return UniqueFd();
  UniqueFd events(openat(directory.get(), "memory.events", O_RDONLY | O_CLOEXEC));
  if (!events && errno == ENOENT) return UniqueFd();  // no memory controller
  if (!events) return errno_error("open", location.v2 + "/memory.events");
  return events;
}

Result<std::uint64_t> read_oom_kills(int events) {
  std::array<char, 512> content{};
  const ssize_t length = pread(events, content.data(), content.size(), 0);
  if (length < 0) return errno_error("read", "memory.events");
  return find_number({content.data(), static_cast<std::size_t>(length)}, "oom_kill").value_or(0);
}

}  // namespace agentrun::sandbox
