#include <algorithm>
#include <array>

#include "base/text.h"
#include "policy/harden_parts.h"

namespace agentrun::policy {
namespace {

using Options = std::vector<std::string>;

bool has(const Options& options, std::string_view option) {
  return std::find(options.begin(), options.end(), option) != options.end();
}

// --- flags ---

struct Flag {
  std::string_view set, cleared;  // as they stand in options; with "r" before: for the submounts too (mount_setattr(2))
};
constexpr Flag kReadonly = {"ro", "rw"};
constexpr Flag kNosuid = {"nosuid", "suid"};
constexpr Flag kNodev = {"nodev", "dev"};
constexpr Flag kNoexec = {"noexec", "exec"};

// Of several the last one counts, so what clears the flag goes, wherever it stands.
void force(Options& options, const Flag& flag, bool recursive) {
  const std::string set(flag.set);
  const std::string cleared(flag.cleared);
  std::erase_if(options, [&](const std::string& option) { return option == cleared || option == "r" + cleared; });
  if (has(options, "r" + set) || (!recursive && has(options, set))) return;
  options.push_back(recursive ? "r" + set : set);
}

// A peer or slave of a host's mount gets what is mounted there later, with the flags of that mount, not with ours.
void make_private(Options& options) {
  for (std::string& option : options) {
    if (option == "shared" || option == "slave") option = "private";
    if (option == "rshared" || option == "rslave") option = "rprivate";
  }
}

// --- types ---

struct KernelType {
  std::string_view type, destination;
  bool readonly, nodev;  // nosuid and noexec in any case
};
// Each has one place: a second procfs would be one without masks.
constexpr std::array<KernelType, 6> kKernelTypes = {{
    {"proc", "/proc", false, true},
    {"sysfs", "/sys", true, true},
    {"cgroup", "/sys/fs/cgroup", true, true},
    {"cgroup2", "/sys/fs/cgroup", true, true},
    {"mqueue", "/dev/mqueue", false, true},
    {"devpts", "/dev/pts", false, false},
}};

// What lxcfs and engines put over procfs; anything else below /proc would be a forged answer of the kernel.
bool may_cover_proc(std::string_view destination) {
  constexpr std::array<std::string_view, 8> kFiles = {
      "/proc/cpuinfo", "/proc/diskstats", "/proc/loadavg", "/proc/meminfo",
      "/proc/stat",    "/proc/swaps",     "/proc/uptime",  "/proc/sys/crypto/fips_enabled"};
  return std::find(kFiles.begin(), kFiles.end(), destination) != kFiles.end();
}

Result<void> check_destination(std::string_view destination, std::size_t index, const Policy& policy) {
  const std::string pointer = "/mounts/" + std::to_string(index) + "/destination";
  if (destination == "/") return refused(policy, pointer, "a mount over the root");
  if (destination == "/sys" || (text::path_within(destination, "/proc") && !may_cover_proc(destination))) {
    return refused(policy, pointer, "a mount over " + std::string(destination) + " that is not the kernel's");
  }
  return ok();
}

// --- binds of a kernel file system onto its own place ---

struct OwnPlace {
  std::string_view path, type, option;
};
// What engines do for a namespace that is the host's (rootless Podman with --network=host: /sys; --ipc=host: /dev/shm
// and /dev/mqueue). The namespace becomes a new one, so a new mount of the type is what belongs there.
constexpr std::array<OwnPlace, 5> kOwnPlaces = {{
    {"/proc", "proc", ""},
    {"/sys", "sysfs", "ro"},
    {"/sys/fs/cgroup", "cgroup", "ro"},
    {"/dev/mqueue", "mqueue", ""},
    {"/dev/shm", "tmpfs", "mode=1777"},
}};

bool replace_own_place(oci::Mount& mount, std::size_t index, std::string_view destination, const Context& context) {
  const Policy& policy = context.policy;
  const auto source = context.facts.sources.find(index);
  if (!policy.namespaces.private_all || source == context.facts.sources.end()) return false;
  if (source->second.real_path != destination || !mount.uid_mappings.empty() || !mount.gid_mappings.empty())
    return false;
  const auto place =
      std::find_if(kOwnPlaces.begin(), kOwnPlaces.end(), [&](const auto& p) { return p.path == destination; });
  if (place == kOwnPlaces.end()) return false;
  const std::string pointer = "/mounts/" + std::to_string(index);
  constexpr std::string_view kRule = "/namespaces/private_all";
  context.log.set(mount.type, std::string(place->type), pointer + "/type", kRule);
  context.log.set(mount.source, std::string(place->type), pointer + "/source", kRule);
  Options options = {"nosuid", "nodev", "noexec"};
  if (!place->option.empty()) options.emplace_back(place->option);
  if (place->type == "tmpfs") options.emplace_back("size=65536k");  // as engines have it
  context.log.set(mount.options, std::move(options), pointer + "/options", kRule);
  return true;
}

// --- one mount ---

Result<BindAccess> harden_bind(Options& options, const oci::Mount& mount, std::size_t index, const Context& context) {
  const Mounts& policy = context.policy.mounts;
  const BindAccess access = TRY(judge_bind(mount, index, context));
  // A type of "bind" with neither option is taken for a recursive one: too much is read-only then, not too little.
  const bool recursive = has(options, "rbind") || !has(options, "bind");
  if (policy.force_readonly && access != BindAccess::writable) force(options, kReadonly, recursive);
  if (policy.force_nosuid) force(options, kNosuid, recursive);
  if (policy.force_nodev) force(options, kNodev, recursive);
  return access;
}

Result<void> harden_type(Options& options, const oci::Mount& mount, std::string_view destination, std::size_t index,
                         const Context& context) {
  const Policy& policy = context.policy;
  const std::string pointer = "/mounts/" + std::to_string(index);
  for (const auto& option : options) {
    // "size=1m,size=0": one option here, two for whoever joins them again.
    const bool label = option.find("context=") != std::string::npos;
    if (!label && option.find(',') != std::string::npos) {
      return refused(policy, pointer + "/options", "an option with a comma in it");
    }
  }
  if (mount.type == "tmpfs") {
    TRY(check_destination(destination, index, policy));
    if (policy.mounts.force_nosuid) force(options, kNosuid, false);
    if (policy.mounts.force_nodev && destination != "/dev") force(options, kNodev, false);
    return ok();
  }
  const auto known =
      std::find_if(kKernelTypes.begin(), kKernelTypes.end(), [&](const auto& k) { return k.type == mount.type; });
  if (known == kKernelTypes.end()) {
    return refused(policy, pointer + "/type",
                   "a mount of type \"" + mount.type + "\" is none of the types that are allowed");
  }
  if (destination != known->destination) {
    return refused(
        policy, pointer + "/destination",
        mount.type + " belongs on " + std::string(known->destination) + ", not on " + std::string(destination));
  }
  force(options, kNosuid, false);
  force(options, kNoexec, false);
  if (known->nodev) force(options, kNodev, false);
  if (known->readonly) force(options, kReadonly, false);
  return ok();
}

Result<void> harden_mount(oci::Mount& mount, std::size_t index, const Context& context,
                          std::vector<std::size_t>& sealed_last) {
  const Policy& policy = context.policy;
  const std::string destination = text::clean_path(mount.destination);
  const bool restricted = policy.mounts.restrict_types;
  if (restricted && has(mount.options, "remount")) {
    return refused(policy, "/mounts/" + std::to_string(index) + "/options",
                   "a remount changes what is mounted already");
  }
  bool bind = is_bind(mount);
  if (bind && policy.mounts.restrict_binds && replace_own_place(mount, index, destination, context)) bind = false;

  const std::string pointer = "/mounts/" + std::to_string(index) + "/options";
  Options options = mount.options;
  if (policy.mounts.restrict_binds) make_private(options);
  context.log.set(mount.options, options, pointer, "/mounts/restrict_binds");
  if (bind) {
    if (restricted) TRY(check_destination(destination, index, policy));
    if (policy.mounts.restrict_binds) {
      const BindAccess access = TRY(harden_bind(options, mount, index, context));
      if (access == BindAccess::engines && policy.mounts.force_readonly) sealed_last.push_back(index);
    }
    context.log.set(mount.options, options, pointer,
                    has(options, "rro") ? "/mounts/force_readonly" : "/mounts/force_nosuid");
    return ok();
  }
  if (restricted) TRY(harden_type(options, mount, destination, index, context));
  context.log.set(mount.options, options, pointer, "/mounts/restrict_types");
  return ok();
}

}  // namespace

bool is_bind(const oci::Mount& mount) {
  return mount.type == "bind" || has(mount.options, "bind") || has(mount.options, "rbind");
}

Result<std::vector<std::size_t>> harden_mounts(oci::Config& config, const Context& context) {
  std::vector<std::size_t> sealed_last;
  for (std::size_t i = 0; i < config.mounts.size(); ++i) TRY(harden_mount(config.mounts[i], i, context, sealed_last));
  if (context.policy.limits.memory) bound_tmpfs(config, context);
  return sealed_last;
}

}  // namespace agentrun::policy
