// The scope of a container in systemd's terms: its name, its place, its properties. Pure
// (systemd.unit(5), systemd.resource-control(5), org.freedesktop.systemd1(5)).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci/config.h"
#include "sandbox/systemd_protocol.h"

namespace agentrun::sandbox {

struct UnitName {
  std::string slice;  // "machine.slice"
  std::string unit;   // "libpod-1234.scope"
};

// linux.cgroupsPath as engines write it for systemd: "slice:prefix:name" is prefix-name.scope in that slice; an empty
// slice is system.slice, or user.slice for a user's own manager. Empty: agentrun-<id>.scope.
Result<UnitName> parse_unit_name(const std::string& cgroups_path, const std::string& id, bool user_manager);

// Bytes that a unit name may not have as \xNN, as systemd-escape(1) does; '-' stays, engines rely on it.
std::string escape_unit(std::string_view text);

// "a-b.slice" is /a.slice/a-b.slice, "-.slice" (and "-") the root: "".
Result<std::string> expand_slice(std::string_view slice);

// Where a manager keeps its units: empty for the system's; for a user's the part of our own cgroup that ends in
// user@UID.service, else where systemd puts that by default.
std::string manager_prefix(std::string_view own_cgroup, bool user_manager, uid_t uid);

// What every scope of ours has. `deadline_us`: RuntimeMaxUSec, with one second for the processes to go by themselves.
std::vector<UnitProperty> scope_properties(const std::string& id, const std::string& slice, pid_t pid,
                                           std::optional<std::int64_t> deadline_us);

// The limits that systemd knows, so that its own reload does not undo what is in the files. `v2`: by its file names.
Result<std::vector<UnitProperty>> limit_properties(const oci::Resources& resources, bool v2);

// org.systemd.property.NAME annotations, in GVariant text: 'text', true, uint64 5, int32 5, ['a', 'b'] and so on; a
// bare number is an int32. NAMESec becomes NAMEUSec times a million. Refused: what would undo the scope itself (Slice,
// PIDs, Delegate, RuntimeMaxUSec, device and resource limits).
Result<std::vector<UnitProperty>> annotation_properties(const oci::Annotations& annotations);

// `base` with the properties of `more` in the place of those of the same name.
std::vector<UnitProperty> merge_properties(std::vector<UnitProperty> base, const std::vector<UnitProperty>& more);

}  // namespace agentrun::sandbox
