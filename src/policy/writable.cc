// What a program may write to under a read-only root: one tmpfs, gone with the container.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "policy/harden_parts.h"

namespace agentrun::policy {
namespace {

constexpr std::int64_t kBytesPerInode = 4096;       // so that the inodes' own memory stays below the files'
constexpr std::int64_t kBytesPerDiskInode = 16384;  // mke2fs's own ratio
constexpr std::int64_t kFewestInodes = 64;

// The value of the first HOME: what getenv(3) finds.
std::string home_of(const oci::Process& process) {
  constexpr std::string_view kHome = "HOME=";
  for (const auto& entry : process.env) {
    if (entry.starts_with(kHome)) return entry.substr(kHome.size());
  }
  return {};
}

struct Plan {
  const oci::Config& config;
  const Workdir& policy;
  ChangeLog& log;
  Writable result;

  // The mount of the config that `path` lies on, but for the root.
  const oci::Mount* mount_over(const std::string& path) const {
    const oci::Mount* found = nullptr;
    for (const auto& mount : config.mounts) {
      if (text::path_within(path, text::clean_path(mount.destination))) found = &mount;
    }
    return found;
  }

  void add_empty(const std::string& path) {
    const oci::Mount* mount = mount_over(path);
    if (mount == nullptr) {
      result.empty.push_back(path);
    } else {
      log.note(path + " is a mount of the config (" + mount->type + ")");
    }
  }

  void add_overlay(const std::string& raw, const char* what) {
    if (!raw.starts_with('/')) return;
    const std::string path = text::clean_path(raw);
    const std::string name = std::string(what) + " " + path;
    if (std::any_of(policy.never.begin(), policy.never.end(),
                    [&](const auto& n) { return text::glob_match(n, path); })) {
      log.note(name + " stays read-only: " + log.rule_name("/workdir/never"));
      return;
    }
    if (const oci::Mount* mount = mount_over(path)) {
      log.note(name + " is on a mount of the config (" + text::clean_path(mount->destination) + ")");
      return;
    }
    const auto holds = [&](const std::string& other) { return text::path_within(path, other); };
    if (std::any_of(result.empty.begin(), result.empty.end(), holds)) return;
    if (std::any_of(result.overlays.begin(), result.overlays.end(), holds)) return;
    // One overlay on top of another is a third level for the kernel, which has two.
    std::erase_if(result.overlays, [&](const std::string& other) { return text::path_within(other, path); });
    result.overlays.push_back(path);
  }
};

// Where the store is to be on a disk and can be. Nothing where memory is to hold it; an error where neither may.
Result<bool> on_disk(const Context& context) {
  const Workdir& policy = context.policy.workdir;
  if (policy.backing == Backing::memory) return false;
  const std::string& missing = context.facts.disk_missing;
  if (missing.empty()) return true;
  if (policy.backing == Backing::disk) {
    return refused(context.policy, "/workdir/backing",
                   missing + "; a policy with \"disk-or-memory\" there takes memory instead");
  }
  context.log.note("the writable directories are in memory: " + missing);
  return false;
}

void size_in_memory(const oci::Config& config, const Context& context, Writable& result) {
  const Workdir& policy = context.policy.workdir;
  // A policy without a size has a memory limit: parse_policy saw to it. Where no controller holds it, it is the bound
  // all the same.
  const auto half = half_of_memory(config);
  const std::int64_t left = half ? (context.policy.limits.memory ? *half - tmpfs_total(config) : *half)
                                 : context.policy.limits.memory.value_or(2 * policy.size.value_or(0)) / 2;
  result.size = std::min(policy.size.value_or(left), left);
  const std::int64_t inodes = std::max(result.size / kBytesPerInode, kFewestInodes);
  result.inodes = std::min(policy.inodes.value_or(inodes), inodes);
}

void size_on_disk(const Context& context, Writable& result) {
  const Workdir& policy = context.policy.workdir;
  result.disk = true;
  result.directory = policy.directory;
  result.size = *policy.size;  // parse_policy saw to it
  // An inode takes 256 bytes of the disk.
  const std::int64_t most = std::max(result.size / kBytesPerInode, kFewestInodes);
  result.inodes = std::min(policy.inodes.value_or(result.size / kBytesPerDiskInode), most);
}

}  // namespace

Result<std::optional<Writable>> plan_writable(const oci::Config& config, const Context& context) {
  const Workdir& policy = context.policy.workdir;
  if (!policy.writable) return std::optional<Writable>();
  Plan plan{config, policy, context.log, {}};
  if (TRY(on_disk(context))) {
    size_on_disk(context, plan.result);
  } else {
    size_in_memory(config, context, plan.result);
  }
  for (const auto& path : policy.empty) plan.add_empty(path);
  if (config.process) {
    if (policy.home) plan.add_overlay(home_of(*config.process), "the home directory");
    if (policy.cwd) plan.add_overlay(config.process->cwd, "the working directory");
  }
  return std::optional<Writable>(std::move(plan.result));
}

}  // namespace agentrun::policy
