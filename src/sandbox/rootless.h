// What an ordinary user may do, and how his container becomes one that he may make: a user namespace of its own, in
// which uid 0 is the user and further ids are the ranges that the administrator gave him (user_namespaces(7),
// subuid(5), newuidmap(1)).
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci/config.h"

namespace agentrun::sandbox {

// CAP_SYS_ADMIN over our own user namespace: root of the host, or of the user namespace that an engine has made for its
// user (podman unshare). Without it every other namespace needs a new user namespace first.
bool may_make_namespaces();

// CAP_SETUID and CAP_SETGID over our own user namespace: maps of any of our ids can be written without newuidmap(1).
bool may_write_maps();

struct IdRange {
  std::uint32_t start = 0, count = 0;
};

// Pure. The ranges of /etc/subuid or /etc/subgid that belong to a user, in their order; a line names him by login name
// or by number. What cannot be understood, or has ids that do not exist, is left out.
std::vector<IdRange> subordinate_ranges(std::string_view text, std::string_view name, uid_t uid);

// Pure. Container id 0 is `own`; from 1 on come the ranges.
std::vector<oci::IdMapping> rootless_mappings(std::uint32_t own, const std::vector<IdRange>& ranges);

// Gives a config without a user namespace one, with maps of our own ids, and says in sentences what it did. With no
// ranges, no newuidmap(1), or under no_new_privs (where set-uid programs have no effect) it maps one id, and takes gid=
// options of devpts away that would need another. Nothing where `may_make_namespaces`, nor where the config has a user
// namespace.
std::vector<std::string> add_user_namespace(oci::Config& config);

// Every id that the process takes must have one outside: the kernel says no more than EINVAL.
Result<void> check_ids_mapped(const oci::Process& process, const oci::Linux& linux_config);

// In a process that has come into a user namespace, made or joined: the ids that it works with there, 0 or, where the
// maps have no 0, the first that they have. Its capabilities over the namespace stay. `linux_config` may have no maps
// (a namespace joined by path).
Result<void> take_ids_inside(const oci::Linux& linux_config);

}  // namespace agentrun::sandbox
