// user.userns "auto": a user namespace with ids that no user of the host and no other container has.
#include <algorithm>

#include "base/text.h"
#include "policy/harden_parts.h"

namespace agentrun::policy {
namespace {

using Mappings = std::vector<oci::IdMapping>;

constexpr std::string_view kRule = "/user/userns";

bool contains(const std::vector<std::string>& list, std::string_view value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool has_host_root(const Mappings& mappings) {
  return std::any_of(mappings.begin(), mappings.end(), [](const auto& mapping) { return mapping.host_id == 0; });
}

std::string text_of(const Mappings& mappings) {
  if (mappings.empty()) return {};
  std::string text = "[";
  for (const auto& mapping : mappings) {
    text += (text.size() > 1 ? "," : "") + json_object({{"containerID", json_text(mapping.container_id)},
                                                        {"hostID", json_text(mapping.host_id)},
                                                        {"size", json_text(mapping.size)}});
  }
  return text + "]";
}

void set_mappings(Mappings& field, Mappings value, const std::string& pointer, ChangeLog& log) {
  std::string before = text_of(field);
  field = std::move(value);
  log.changed(pointer, std::move(before), text_of(field), kRule);
}

void set_namespace(oci::Config& config, const Context& context) {
  auto& namespaces = config.linux.namespaces;
  const auto found = std::find_if(namespaces.begin(), namespaces.end(),
                                  [](const auto& ns) { return ns.type == oci::NamespaceType::user; });
  if (found == namespaces.end()) {
    namespaces.push_back({oci::NamespaceType::user, ""});
    context.log.changed("/linux/namespaces/-", "", json_object({{"type", json_text("user")}}), kRule);
    return;
  }
  context.log.set(found->path, std::string(),
                  "/linux/namespaces/" + std::to_string(found - namespaces.begin()) + "/path", kRule);
}

Result<void> check_user(const oci::Config& config, std::uint32_t size, const Policy& policy) {
  if (!config.process) return ok();
  const oci::User& user = config.process->user;
  const std::string reason = "the container's private range has the ids below " + std::to_string(size);
  if (user.uid >= size) return refused(policy, "/process/user/uid", reason);
  if (user.gid >= size) return refused(policy, "/process/user/gid", reason);
  for (const std::uint32_t gid : user.additional_gids) {
    if (gid >= size) return refused(policy, "/process/user/additionalGids", reason);
  }
  return ok();
}

// --- binds ---

bool is_bind(const oci::Mount& mount) {
  return mount.type == "bind" || contains(mount.options, "bind") || contains(mount.options, "rbind");
}

bool is_recursive(const oci::Mount& mount) {
  return contains(mount.options, "rbind") || !contains(mount.options, "bind");
}

// Of several the last one counts; the one with "r" is for the mounts below, and for the mount itself too.
bool last_is(const oci::Mount& mount, std::string_view on, std::string_view off) {
  bool value = false;
  for (const std::string& option : mount.options) {
    if (option == on || option == "r" + std::string(on)) value = true;
    if (option == off || option == "r" + std::string(off)) value = false;
  }
  return value;
}

bool has_own_map(const oci::Mount& mount) {
  return !mount.uid_mappings.empty() || !mount.gid_mappings.empty() ||
         std::any_of(mount.options.begin(), mount.options.end(), [](const std::string& option) {
           const std::string_view name = std::string_view(option).substr(0, option.find('='));
           return name == "idmap" || name == "ridmap";
         });
}

// Whether a read-only bind stays read-only whatever the container does. One that could be made writable must not have
// the host's root in it: CAP_SYS_ADMIN over the container's own namespaces is enough for that.
bool stays_readonly(const oci::Config& config, const Policy& policy) {
  if (!policy.capabilities.restrict || contains(policy.capabilities.keep, "CAP_SYS_ADMIN")) return false;
  return std::none_of(config.mounts.begin(), config.mounts.end(),
                      [](const oci::Mount& mount) { return contains(mount.options, "remount"); });
}

// Ids of the file system to ids of the host, for a writable bind: each is itself, but for 0, which is nobody. `owner`
// is what the container's id 0 writes as there, where it has to be somebody.
Mappings without_root(std::uint32_t base, std::uint32_t size, std::optional<std::uint32_t> owner) {
  if (!owner || *owner == 0) return {{1, base + 1, size - 1}};
  Mappings mappings = {{*owner, base, 1}};
  if (*owner >= size) {
    mappings.push_back({1, base + 1, size - 1});
    return mappings;
  }
  if (*owner > 1) mappings.push_back({1, base + 1, *owner - 1});
  if (*owner + 1 < size) mappings.push_back({*owner + 1, base + *owner + 1, size - *owner - 1});
  return mappings;
}

class Binds {
 public:
  Binds(oci::Config& config, const PrivateIds& ids, const Context& context)
      : config_(config), ids_(ids), context_(context), stays_readonly_(stays_readonly(config, context.policy)) {}

  Result<void> map_all() {
    for (std::size_t i = 0; i < config_.mounts.size(); ++i) TRY(map(i));
    return ok();
  }

 private:
  Result<void> map(std::size_t index) {
    oci::Mount& mount = config_.mounts[index];
    if (!is_bind(mount) || contains(mount.options, "remount")) return ok();
    const std::string pointer = "/mounts/" + std::to_string(index);
    if (has_own_map(mount)) {
      return refused(context_.policy, pointer, "id mappings of a mount need a user namespace of the config's own");
    }
    const auto source = context_.facts.sources.find(index);
    if (source == context_.facts.sources.end()) return ok();
    const SourceFacts& facts = source->second;
    if (facts.kind != FileKind::directory && facts.kind != FileKind::regular) return ok();
    if (last_is(mount, "ro", "rw")) {
      seal(mount, pointer);
      const std::uint32_t first = stays_readonly_ ? 0 : 1;
      give(mount, pointer, {{first, ids_.uid + first, ids_.size - first}},
           {{first, ids_.gid + first, ids_.size - first}});
    } else {
      map_writable(mount, facts, pointer);
    }
    return ok();
  }

  // Read-only at the top alone would leave root of the host able to write in the mounts below.
  void seal(oci::Mount& mount, const std::string& pointer) {
    if (!is_recursive(mount)) return;
    auto options = mount.options;
    std::erase_if(options, [](const std::string& option) { return option == "rrw"; });
    if (!contains(options, "rro")) options.emplace_back("rro");
    context_.log.set(mount.options, std::move(options), pointer + "/options", kRule);
  }

  void map_writable(oci::Mount& mount, const SourceFacts& facts, const std::string& pointer) {
    if (facts.uid == 0) {
      context_.log.note(pointer + ": " + mount.destination +
                        " is writable and belongs to root of the host, whom nobody in the container may be: what root "
                        "owns there is nobody's inside, and what is made there belongs to the private range");
      return;
    }
    const bool root = config_.process && config_.process->user.uid == 0;
    const bool root_group = config_.process && config_.process->user.gid == 0;
    // A group of root is not handed out either: the number of the owner stands in for it.
    const std::uint32_t group = facts.gid != 0 ? facts.gid : facts.uid;
    give(mount, pointer, without_root(ids_.uid, ids_.size, root ? std::optional(facts.uid) : std::nullopt),
         without_root(ids_.gid, ids_.size, root_group ? std::optional(group) : std::nullopt));
  }

  void give(oci::Mount& mount, const std::string& pointer, Mappings uids, Mappings gids) {
    set_mappings(mount.uid_mappings, std::move(uids), pointer + "/uidMappings", context_.log);
    set_mappings(mount.gid_mappings, std::move(gids), pointer + "/gidMappings", context_.log);
    if (!is_recursive(mount)) return;
    auto options = mount.options;
    options.emplace_back("ridmap");
    context_.log.set(mount.options, std::move(options), pointer + "/options", kRule);
  }

  oci::Config& config_;
  const PrivateIds& ids_;
  const Context& context_;
  bool stays_readonly_;
};

}  // namespace

bool wants_private_ids(const oci::Config& config, const Policy& policy, const Facts& facts) {
  if (policy.change_nothing || policy.user.userns != UserNamespace::automatic || !facts.as_root) return false;
  const oci::Namespace* own = oci::find_namespace(config, oci::NamespaceType::user);
  if (own == nullptr) return true;
  if (!own->path.empty()) return contains(facts.namespaces_of_host, "user");
  return has_host_root(config.linux.uid_mappings) || has_host_root(config.linux.gid_mappings);
}

Result<void> harden_userns(Effective& effective, const Context& context) {
  const Policy& policy = context.policy;
  if (policy.user.userns != UserNamespace::automatic) return ok();
  if (!context.facts.as_root) {
    context.log.note("userns auto: an ordinary user has no private ranges; his containers have his own ids");
    return ok();
  }
  oci::Config& config = effective.config;
  if (!wants_private_ids(config, policy, context.facts)) return ok();
  if (!context.facts.private_ids) return refused(policy, "/linux/namespaces", context.facts.no_private_ids);
  const PrivateIds ids = *context.facts.private_ids;
  TRY(check_user(config, ids.size, policy));
  set_namespace(config, context);
  set_mappings(config.linux.uid_mappings, {{0, ids.uid, ids.size}}, "/linux/uidMappings", context.log);
  set_mappings(config.linux.gid_mappings, {{0, ids.gid, ids.size}}, "/linux/gidMappings", context.log);
  TRY(Binds(config, ids, context).map_all());
  effective.private_ids = ids;
  context.log.note("userns auto: uid 0 of the container is uid " + std::to_string(ids.uid) +
                   " of the host, which nobody else has; the root is mapped, no file changes its owner");
  return ok();
}

void withdraw_idmap(Effective& effective, std::size_t index, const std::string& reason) {
  ChangeLog log(effective.report, effective.policy);
  oci::Mount& mount = effective.config.mounts.at(index);
  const std::string pointer = "/mounts/" + std::to_string(index);
  set_mappings(mount.uid_mappings, {}, pointer + "/uidMappings", log);
  set_mappings(mount.gid_mappings, {}, pointer + "/gidMappings", log);
  auto options = mount.options;
  std::erase(options, "ridmap");
  log.set(mount.options, std::move(options), pointer + "/options", kRule);
  log.note(pointer + ": " + mount.destination + " has no id map (" + reason + ")");
}

}  // namespace agentrun::policy
