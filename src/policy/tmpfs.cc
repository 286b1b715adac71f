// Files in memory count as memory: full file systems must say ENOSPC, all of them together, before the memory limit is
// reached and the OOM killer comes.
#include <algorithm>
#include <limits>
#include <vector>

#include "base/text.h"
#include "policy/harden_parts.h"

namespace agentrun::policy {
namespace {

using Options = std::vector<std::string>;

constexpr std::int64_t kBytesPerInode = 4096;
constexpr std::int64_t kFewestInodes = 64;
constexpr std::int64_t kSmallest = 64 << 10;  // bytes
constexpr std::string_view kSize = "size=";

// As the kernel reads a size (memparse), digits and one letter; nothing where it is anything else ("50%", "0x...").
std::optional<std::int64_t> tmpfs_bytes(std::string_view text) {
  int shift = 0;
  if (!text.empty()) {
    constexpr std::string_view kLetters = "kmgtpe";
    const auto letter = kLetters.find(static_cast<char>(text.back() | 0x20));
    if (letter != std::string_view::npos) {
      shift = 10 * (static_cast<int>(letter) + 1);
      text.remove_suffix(1);
    }
  }
  const auto number = text::parse_unsigned(text);
  if (!number || *number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) >> shift) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(*number << shift);
}

// The last one counts, and zero is "no limit".
std::optional<std::int64_t> size_of(const Options& options, std::string_view prefix) {
  std::optional<std::int64_t> size;
  for (const auto& option : options) {
    if (!option.starts_with(prefix)) continue;
    size = tmpfs_bytes(std::string_view(option).substr(prefix.size()));
    if (size && *size == 0) size.reset();
  }
  return size;
}

void cap_option(Options& options, std::string_view prefix, std::int64_t most) {
  const auto size = size_of(options, prefix);
  if (size && *size <= most) return;
  std::erase_if(options, [&](const std::string& option) { return option.starts_with(prefix); });
  options.push_back(std::string(prefix) + std::to_string(most));
}

bool is_tmpfs(const oci::Mount& mount) { return mount.type == "tmpfs" && !is_bind(mount); }

// What fits when everybody gets what he asks for up to a level that is the same for all: small ones keep their size.
std::int64_t fair_level(std::vector<std::int64_t> sizes, std::int64_t budget) {
  std::sort(sizes.begin(), sizes.end());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t share = budget / static_cast<std::int64_t>(sizes.size() - i);
    if (sizes[i] > share) return share;
    budget -= sizes[i];
  }
  return std::numeric_limits<std::int64_t>::max();
}

}  // namespace

void bound_tmpfs(oci::Config& config, const Context& context) {
  const auto half = half_of_memory(config);
  if (!half) return;
  const Workdir& workdir = context.policy.workdir;
  // The writable store is in memory too, and gets what these leave of the half.
  const bool shared = workdir.writable && workdir.backing != Backing::disk;
  const std::int64_t budget = shared ? *half / 2 : *half;
  // Nodes and links have no content.
  const std::int64_t for_devices = std::max(*half / 32, kSmallest);

  std::vector<std::int64_t> sizes;
  const auto wanted = [&](const oci::Mount& mount) {
    const std::int64_t size = std::min(size_of(mount.options, kSize).value_or(budget), budget);
    return text::clean_path(mount.destination) == "/dev" ? std::min(size, for_devices) : size;
  };
  for (const auto& mount : config.mounts) {
    if (is_tmpfs(mount)) sizes.push_back(wanted(mount));
  }
  const std::int64_t level = fair_level(std::move(sizes), budget);
  for (std::size_t i = 0; i < config.mounts.size(); ++i) {
    oci::Mount& mount = config.mounts[i];
    if (!is_tmpfs(mount)) continue;
    // Never 0, which is "no limit".
    const std::int64_t size = std::max(std::min(wanted(mount), level), kBytesPerInode);
    Options options = mount.options;
    std::erase_if(options, [](const std::string& option) {
      return option.starts_with("nr_blocks=") || option.starts_with("huge=") || option.starts_with("mpol=");
    });
    cap_option(options, kSize, size);
    const std::int64_t inodes = std::max(size / kBytesPerInode, kFewestInodes);
    cap_option(options, "nr_inodes=", std::min(inodes, workdir.inodes.value_or(inodes)));
    context.log.set(mount.options, std::move(options), "/mounts/" + std::to_string(i) + "/options", "/limits/memory");
  }
}

std::int64_t tmpfs_total(const oci::Config& config) {
  std::int64_t total = 0;
  for (const auto& mount : config.mounts) {
    if (is_tmpfs(mount)) total += size_of(mount.options, kSize).value_or(0);
  }
  return total;
}

}  // namespace agentrun::policy
