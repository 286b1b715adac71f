// Inside policy/: the parts of harden(). Each takes the stricter of what it is given and the policy, in place, and
// tells the log. None of them looks at the host: that is what Facts are for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci/config.h"
#include "policy/change_log.h"
#include "policy/harden.h"
#include "policy/policy.h"

namespace agentrun::policy {

struct Context {
  const Policy& policy;
  const Facts& facts;
  ChangeLog& log;
};

// "apply policy strict /mounts/3/source: <reason>".
Error refused(const Policy& policy, std::string pointer, std::string reason);

// harden_process.cc. `container`: nullptr for the first process, else what an exec may not have more than.
Result<void> harden_process(oci::Process& process, const oci::Config* container, const Context& context);

// harden_linux.cc: everything of `linux` but resources; hooks and annotations.
void harden_namespaces(oci::Config& config, const Context& context);
void harden_linux(oci::Config& config, const Context& context);
void harden_hooks(oci::Hooks& hooks, const Context& context);
void harden_annotations(oci::Annotations& annotations, const Context& context);

// harden_resources.cc
enum class Missing { add, leave };  // limits that are not there: create adds them, update leaves what the cgroup has
void harden_resources(std::optional<oci::Resources>& resources, Missing missing, const Context& context);
void harden_device_rules(std::vector<oci::DeviceRule>& rules, Missing missing, const Context& context);
bool standard_device(char type, std::int64_t major, std::optional<std::int64_t> minor);
// CPUs that the quota is worth, rounded up; none where there is no quota.
std::optional<std::int64_t> quota_width(const oci::Config& config);
// Half of the memory limit, in bytes: the most that files in memory may take; none without a limit.
std::optional<std::int64_t> half_of_memory(const oci::Config& config);

// harden_mounts.cc: after harden_resources, which says how large a tmpfs may be. Never adds, removes or moves a mount:
// Facts::sources and the open sources of the binds go by index.
// The answer are the binds that are to be read-only last; see Effective::sealed_last.
Result<std::vector<std::size_t>> harden_mounts(oci::Config& config, const Context& context);
bool is_bind(const oci::Mount& mount);

// tmpfs.cc: all tmpfs of the config together are at most half of the memory limit, a quarter where the writable store
// needs memory as well. Where they want more, the larger ones are made smaller.
void bound_tmpfs(oci::Config& config, const Context& context);
std::int64_t tmpfs_total(const oci::Config& config);  // bytes, after bound_tmpfs

// harden_io.cc: bounds of each disk. After it a list has one entry for a disk of the host at most.
void harden_io(std::optional<oci::BlockIoResources>& io, Missing missing, const Context& context);

// bind_source.cc: whether a bind of this source may be there at all, and if the policy lets it be written to.
// `engines`: read-only, and a directory or file that the engine made for this very container.
enum class BindAccess { readonly, engines, writable };
Result<BindAccess> judge_bind(const oci::Mount& mount, std::size_t index, const Context& context);

// landlock.cc: nullopt where there is nothing to hold. Notes what the kernel lacks; refuses port lists that it cannot
// hold. Versions of Landlock that are the first with:
inline constexpr int kLandlockTruncate = 3, kLandlockTcp = 4, kLandlockDevices = 5, kLandlockScopes = 6;
Result<std::optional<LandlockRules>> plan_landlock(const oci::Config& config, const std::optional<Writable>& writable,
                                                   const Context& context);
// userns.cc: after harden_mounts, which says what is read-only.
Result<void> harden_userns(Effective& effective, const Context& context);

// writable.cc
Result<std::optional<Writable>> plan_writable(const oci::Config& config, const Context& context);

}  // namespace agentrun::policy
