// Which host directories and files may be seen inside. A read-only bind is no shield: connect() works through it, and
// root without any capability reads root's files (pitfalls: docker.sock, /:/host:ro).
#include <algorithm>
#include <array>

#include "base/text.h"
#include "policy/harden_parts.h"

namespace agentrun::policy {
namespace {

// Component by component, so that "*" is one directory name; what is below a match matches too.
bool matches_source(std::string_view pattern, std::string_view path) {
  const auto wanted = text::split(pattern, '/');
  const auto parts = text::split(path, '/');
  if (pattern == "/") return true;
  if (parts.size() < wanted.size()) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!text::glob_match(wanted[i], parts[i])) return false;
  }
  return true;
}

// Ids that engines make: 64 hexadecimal digits. A name that a caller chose does not look like that.
bool is_engine_id(std::string_view part) {
  return part.size() >= 32 &&
         std::all_of(part.begin(), part.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// A path in an engine's store, as far as it concerns binds: the file `rest` of the container (or pod) `id`, or a
// volume.
struct StorePath {
  std::string_view id;
  std::string rest;
  bool volume = false;
};

// The layouts, anchored at the store: an image could have a directory that looks like one of them further down.
//   Podman, CRI-O   [storage/]<driver>-containers/<id>/userdata/<rest>   [storage/]volumes/<name>/_data
//   Docker          containers/<id>/<rest>                               volumes/<name>/_data
//   containerd CRI  io.containerd.grpc.v1.cri/{sandboxes,containers}/<id>/<rest>
std::optional<StorePath> parse_store_path(std::string_view path, std::string_view store) {
  if (path == store || !text::path_within(path, store)) return std::nullopt;
  auto parts = text::split(path.substr(store.size() + 1), '/');
  const auto skip = [&](std::string_view name) {
    if (!parts.empty() && parts.front() == name) parts.erase(parts.begin());
  };
  skip("storage");
  skip("io.containerd.grpc.v1.cri");
  if (parts.size() >= 3 && parts[0] == "volumes" && parts[2] == "_data") return StorePath{{}, {}, true};
  if (parts.size() < 3 || !is_engine_id(parts[1])) return std::nullopt;
  if (parts[0] != "containers" && parts[0] != "sandboxes" && !parts[0].ends_with("-containers")) return std::nullopt;
  StorePath result{parts[1], {}, false};
  parts.erase(parts.begin(), parts.begin() + 2);
  skip("userdata");
  for (const auto part : parts) result.rest.append(result.rest.empty() ? "" : "/").append(part);
  return result;
}

// Files that one container of a pod has from another: never secrets.
struct SharedFile {
  std::string_view rest, destination;
};
constexpr std::array<SharedFile, 5> kSharedFiles = {{
    {"hosts", "/etc/hosts"},
    {"resolv.conf", "/etc/resolv.conf"},
    {"hostname", "/etc/hostname"},
    {"shm", "/dev/shm"},
    {"mounts/shm", "/dev/shm"},
}};

// The store that a bundle of Podman or CRI-O lies in, wherever `--root` put it; empty where it is none.
std::string store_of_bundle(std::string_view bundle) {
  const auto parts = text::split(bundle, '/');
  std::string store;
  for (std::size_t i = 1; i + 2 < parts.size(); ++i) {
    if (parts[i].ends_with("-containers") && is_engine_id(parts[i + 1]) && parts[i + 2] == "userdata") return store;
    store.append("/").append(parts[i]);
  }
  return {};
}

enum class StoreVerdict { not_of_store, ordinary, shared, own, writable, refuse };

// The engine's own files are in the bundle's container directory (any of them, anywhere: secrets go where the caller
// said), or are one of the few that a pod shares. Everything else in a store belongs to other containers.
StoreVerdict judge_store_path(std::string_view path, std::string_view destination, const Facts& facts) {
  const auto bundle = text::split(facts.bundle, '/');
  auto stores = facts.trusted_sources;
  if (std::string store = store_of_bundle(facts.bundle); !store.empty()) stores.push_back(std::move(store));
  bool within = false;
  for (const auto& store : stores) {
    if (!text::path_within(path, store) && !text::path_within(store, path)) continue;
    within = true;
    const auto file = parse_store_path(path, store);
    if (!file) continue;
    if (file->volume) return StoreVerdict::ordinary;
    const bool shared = std::any_of(kSharedFiles.begin(), kSharedFiles.end(), [&](const SharedFile& known) {
      return known.rest == file->rest && known.destination == destination;
    });
    // Shared memory is for writing; the engine bounded its size.
    if (shared && destination == "/dev/shm") return StoreVerdict::writable;
    if (shared) return StoreVerdict::shared;
    if (std::find(bundle.begin(), bundle.end(), file->id) != bundle.end()) return StoreVerdict::own;
  }
  return within ? StoreVerdict::refuse : StoreVerdict::not_of_store;
}

// Why a source of this kind cannot be bound; nullptr: it can.
const char* special_kind(FileKind kind) {
  switch (kind) {
    case FileKind::directory:
    case FileKind::regular:
    case FileKind::symlink:
    case FileKind::missing:
      return nullptr;
    case FileKind::socket:
      return "the source is a socket: read-only does not keep a program from connecting to it";
    case FileKind::fifo:
      return "the source is a FIFO";
    case FileKind::character_device:
      return "the source is a character device";
    case FileKind::block_device:
      return "the source is a block device";
    case FileKind::other:
      break;
  }
  return "the source is neither a file nor a directory";
}

bool any_matches(const std::vector<std::string>& patterns, std::string_view path) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const auto& pattern) { return matches_source(pattern, path); });
}

// What an administrator lists that is no wider than what is refused: "/root/project", not "/".
bool excepted(const Mounts& mounts, std::string_view path, std::string_view refused_entry) {
  const auto covers = [&](const std::string& pattern) {
    return text::path_within(pattern, refused_entry) && matches_source(pattern, path);
  };
  return text::path_within(path, refused_entry) &&
         (std::any_of(mounts.allow_sources.begin(), mounts.allow_sources.end(), covers) ||
          std::any_of(mounts.allow_writable.begin(), mounts.allow_writable.end(), covers));
}

// The entry of the list that forbids `path`: the path itself, one above it, or one below it (whoever binds /var binds
// /var/run). "/" is above all, so for it only the path itself counts. nullptr: none.
const std::string* refusing_entry(const Mounts& mounts, std::string_view path) {
  for (const auto& entry : mounts.refuse_sources) {
    const bool below = entry != "/" && text::path_within(path, entry);
    const bool same_or_above = path == entry || text::path_within(entry, path);
    if ((below || same_or_above) && !excepted(mounts, path, entry)) return &entry;
  }
  return nullptr;
}

}  // namespace

Result<BindAccess> judge_bind(const oci::Mount& mount, std::size_t index, const Context& context) {
  const Policy& policy = context.policy;
  const std::string pointer = "/mounts/" + std::to_string(index) + "/source";
  const auto refuse = [&](std::string reason) { return refused(policy, pointer, std::move(reason)); };
  const auto found = context.facts.sources.find(index);
  if (found == context.facts.sources.end()) return refuse("nothing is known of the source");
  const SourceFacts& source = found->second;
  if (const char* reason = special_kind(source.kind); reason != nullptr && policy.mounts.refuse_special) {
    return refuse(std::string(reason) + " (" + mount.source + ")");
  }
  // A source that is not there cannot be mounted; its name alone is judged, for the sake of a clear error.
  std::string path = source.real_path;
  if (source.kind == FileKind::missing) {
    if (!mount.source.starts_with('/')) return BindAccess::readonly;
    path = mount.source;
  }
  if (!path.starts_with('/')) return refuse("the source has no path on this host (" + path + ")");
  path = text::clean_path(path);

  const StoreVerdict verdict = judge_store_path(path, text::clean_path(mount.destination), context.facts);
  if (verdict == StoreVerdict::writable) return BindAccess::writable;
  if (verdict == StoreVerdict::shared) return BindAccess::readonly;
  if (verdict == StoreVerdict::own) return BindAccess::engines;
  if (verdict != StoreVerdict::ordinary) {
    if (const std::string* entry = refusing_entry(policy.mounts, path)) {
      return refuse(path + " may not be bound into a container: it is, holds or is within " + *entry);
    }
    if (verdict == StoreVerdict::refuse && !any_matches(policy.mounts.allow_sources, path)) {
      return refuse(path + " may not be bound into a container: it belongs to the engine");
    }
  }
  return any_matches(policy.mounts.allow_writable, path) ? BindAccess::writable : BindAccess::readonly;
}

}  // namespace agentrun::policy
