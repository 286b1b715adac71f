#include "sandbox/cgroup_limits.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace agentrun::sandbox {
namespace {

// A word that is written between others on one line.
bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 && byte != 0x7f;
  });
}

// "64KB", "2MB", "1GB"
bool is_page_size(std::string_view size) {
  if (size.size() < 3 || size.back() != 'B') return false;
  const char unit = size[size.size() - 2];
  if (unit != 'K' && unit != 'M' && unit != 'G') return false;
  const auto number = text::parse_unsigned(size.substr(0, size.size() - 2));
  return number && *number > 0 && size[0] != '0';
}

Result<void> check_unified_key(const std::string& key) {
  const auto no = [&](const char* reason) { return refusal("use linux.resources.unified", key, reason); };
  if (key.find('/') != std::string::npos) return no("the key must be a file name without a slash");
  if (!is_word(key)) return no("the key must be a file name");
  const std::size_t dot = key.find('.');
  if (dot == 0 || dot == std::string::npos) return no("the key must be in the form CONTROLLER.PARAMETER");
  if (key.starts_with("cgroup.") && key != "cgroup.max.depth" && key != "cgroup.max.descendants") {
    return no("it is not a limit, and writing it could move or stop processes of the host");
  }
  return ok();
}

bool asks_cpu(const oci::CpuResources& cpu) {
  return cpu.shares.value_or(0) != 0 || cpu.quota.value_or(0) != 0 || cpu.period.value_or(0) != 0 || cpu.burst ||
         cpu.realtime_runtime.value_or(0) != 0 || cpu.realtime_period.value_or(0) != 0 || cpu.idle;
}

bool asks_io(const oci::BlockIoResources& io) {
  return io.weight.value_or(0) != 0 || io.leaf_weight.value_or(0) != 0 || !io.weight_devices.empty() ||
         !io.read_bps.empty() || !io.write_bps.empty() || !io.read_iops.empty() || !io.write_iops.empty();
}

bool asks_memory(const oci::MemoryResources& memory) {
  return memory.limit || memory.reservation || memory.swap || memory.kernel_tcp || memory.swappiness ||
         memory.disable_oom_killer.value_or(false) || memory.use_hierarchy;
}

}  // namespace

std::set<std::string> asked_controllers(const oci::Resources& resources) {
  std::set<std::string> asked;
  if (resources.memory && asks_memory(*resources.memory)) asked.insert("memory");
  if (resources.cpu && asks_cpu(*resources.cpu)) asked.insert("cpu");
  if (resources.cpu && !(resources.cpu->cpus.empty() && resources.cpu->mems.empty())) asked.insert("cpuset");
  if (resources.pids_limit) asked.insert("pids");
  if (resources.block_io && asks_io(*resources.block_io)) asked.insert("io");
  if (!resources.hugepage_limits.empty()) asked.insert("hugetlb");
  if (!resources.rdma.empty()) asked.insert("rdma");
  if (resources.network && resources.network->class_id.value_or(0) != 0) asked.insert("net_cls");
  if (resources.network && !resources.network->priorities.empty()) asked.insert("net_prio");
  for (const auto& [key, value] : resources.unified) {
    const std::string controller = key.substr(0, key.find('.'));
    if (controller != "cgroup") asked.insert(controller);
  }
  return asked;
}

std::string_view v1_name(std::string_view controller) { return controller == "io" ? "blkio" : controller; }

Result<void> check_names(const oci::Resources& resources) {
  for (const auto& [key, value] : resources.unified) TRY(check_unified_key(key));
  for (const oci::HugepageLimit& page : resources.hugepage_limits) {
    if (!is_page_size(page.page_size)) {
      return refusal("use linux.resources.hugepageLimits", page.page_size, "not a page size such as 64KB, 2MB or 1GB");
    }
  }
  for (const auto& [device, limit] : resources.rdma) {
    if (!is_word(device)) return refusal("use linux.resources.rdma", device, "not the name of a device");
  }
  if (resources.network) {
    for (const oci::NetworkPriority& priority : resources.network->priorities) {
      if (!is_word(priority.name)) {
        return refusal("use linux.resources.network", priority.name, "not the name of an interface");
      }
    }
  }
  return ok();
}

std::uint64_t weight_of_shares(std::uint64_t shares) {
  if (shares == 0) return 0;
  if (shares <= 2) return 1;
  if (shares >= 262144) return 10000;
  const double bits = std::log2(static_cast<double>(shares));
  return static_cast<std::uint64_t>(std::ceil(std::pow(10.0, (bits * bits + 125.0 * bits) / 612.0 - 7.0 / 34.0)));
}

std::uint64_t io_weight_of_blkio(std::uint64_t weight) {
  return weight < 10 || weight > 1000 ? 0 : 1 + (weight - 10) * 9999 / 990;
}

Result<std::optional<std::int64_t>> swap_on_v2(std::optional<std::int64_t> swap, std::optional<std::int64_t> memory) {
  if (!swap) {
    // v1's memory.limit -1 without a word on swap meant "both"; update depends on it.
    if (memory && *memory < 0) return std::optional<std::int64_t>(-1);
    return std::optional<std::int64_t>();
  }
  if (*swap < 0) return std::optional<std::int64_t>(-1);
  if (*swap == 0) return std::optional<std::int64_t>(0);
  if (!memory) {
    return refusal("set", "memory.swap.max", "a limit of memory and swap together needs a memory limit");
  }
  if (*memory < 0) return swap;
  if (*swap < *memory) {
    return refusal("set", "memory.swap.max", "memory and swap together are limited to less than memory alone");
  }
  return std::optional<std::int64_t>(*swap - *memory);
}

std::string max_or(std::int64_t value) { return value < 0 ? "max" : std::to_string(value); }

std::string pids_max(std::int64_t limit) { return limit == 0 ? "1" : max_or(limit); }

Result<std::vector<std::uint8_t>> cpu_mask(std::string_view list) {
  constexpr std::uint64_t kMost = 8192;  // CONFIG_NR_CPUS at its largest
  std::vector<std::uint8_t> mask;
  for (const std::string_view part : text::split(text::trim(list), ',')) {
    const std::size_t dash = part.find('-');
    const auto first = text::parse_unsigned(text::trim(part.substr(0, dash)));
    const auto last = dash == std::string_view::npos ? first : text::parse_unsigned(text::trim(part.substr(dash + 1)));
    if (!first || !last || *first > *last || *last >= kMost) {
      return refusal("read the list of CPUs or nodes", std::string(list), "it must be like 0-3,7");
    }
    if (mask.size() <= *last / 8) mask.resize(*last / 8 + 1);
    for (std::uint64_t bit = *first; bit <= *last; ++bit) {
      mask[bit / 8] = static_cast<std::uint8_t>(mask[bit / 8] | (1u << (bit % 8)));
    }
  }
  return mask;
}

}  // namespace agentrun::sandbox
