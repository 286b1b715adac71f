#include <algorithm>
#include <array>
#include <optional>

#include "base/text.h"
#include "lifecycle/facts.h"

namespace agentrun::lifecycle {
namespace {

// `pattern` against the first components of `path`, one by one; "*" is one component, "@" is the container's id. The part
// of `path` that it covers, or none.
std::optional<std::string> match(std::string_view pattern, std::string_view path, std::string_view id) {
  const auto parts = text::split(pattern, '/'), names = text::split(path, '/');
  if (names.size() < parts.size()) return std::nullopt;
  std::string covered;
  for (std::size_t i = 1; i < parts.size(); ++i) {  // both begin with '/', so the first is empty
    const bool same = parts[i] == "@" ? !id.empty() && names[i] == id : parts[i] == "*" || parts[i] == names[i];
    if (!same) return std::nullopt;
    covered.append("/").append(names[i]);
  }
  return covered;
}

// Below a containers/storage root or run root. Podman and CRI-O: what belongs to this container, and of another (the
// infra container of the pod) the four that pods share. Not its userdata: there lie config.json and the log.
constexpr std::array kStorage = {
    "/overlay-containers/@",
    "/overlay-containers/*/userdata/shm",
    "/overlay-containers/*/userdata/hosts",
    "/overlay-containers/*/userdata/hostname",
    "/overlay-containers/*/userdata/resolv.conf",
    "/vfs-containers/@",
    "/vfs-containers/*/userdata/shm",
    "/vfs-containers/*/userdata/hosts",
    "/vfs-containers/*/userdata/hostname",
    "/vfs-containers/*/userdata/resolv.conf",
    "/volumes/*/_data",
};

constexpr std::array kHost = {
    // containerd's CRI plugin; nerdctl; the bundle of a shim
    "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/*/hostname",
    "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/*/hosts",
    "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/*/resolv.conf",
    "/var/lib/containerd/io.containerd.grpc.v1.cri/containers/@/volumes/*",
    "/run/containerd/io.containerd.grpc.v1.cri/sandboxes/*/shm",
    "/var/lib/nerdctl/*/containers/*/@",
    "/var/lib/nerdctl/*/etchosts/*/@",
    "/var/lib/nerdctl/*/volumes/*/*/_data",
    // Docker
    "/var/lib/docker/containers/@",
    "/var/lib/docker/containers/*/mounts/shm",
    "/var/lib/docker/containers/*/hostname",
    "/var/lib/docker/containers/*/hosts",
    "/var/lib/docker/containers/*/resolv.conf",
    "/var/lib/docker/volumes/*/_data",
};

constexpr std::string_view kUserData = "/userdata";

// Podman's bundle is <store>/overlay-containers/ID/userdata, wherever its --root is; a shim's ends with the id.
std::string id_of(std::string_view bundle) {
  if (bundle.ends_with(kUserData)) bundle.remove_suffix(kUserData.size());
  return std::string(bundle.substr(bundle.rfind('/') + 1));
}

std::vector<std::string> storage_roots(std::string_view bundle, const EngineDirectories& directories) {
  std::vector<std::string> roots = {"/var/lib/containers/storage", "/run/containers/storage"};
  if (!directories.data.empty()) roots.push_back(directories.data + "/containers/storage");
  if (!directories.run.empty()) roots.push_back(directories.run + "/containers");
  const auto containers = bundle.rfind("-containers/");
  const auto slash = bundle.rfind('/', containers);
  if (bundle.ends_with(kUserData) && containers != std::string_view::npos && slash > 0 &&
      slash != std::string_view::npos) {
    roots.emplace_back(bundle.substr(0, slash));
  }
  return roots;
}

}  // namespace

std::vector<std::string> engine_paths(const std::vector<std::string>& sources, std::string_view bundle,
                                      const EngineDirectories& directories) {
  std::vector<std::string> patterns(kHost.begin(), kHost.end());
  for (const std::string& root : storage_roots(bundle, directories)) {
    for (const char* const below : kStorage) patterns.push_back(root + below);
  }
  const std::string id = id_of(bundle);
  std::vector<std::string> paths;
  for (const std::string& source : sources) {
    if (source.empty()) continue;
    for (const std::string& pattern : patterns) {
      const auto covered = match(pattern, source, id);
      if (!covered) continue;
      if (std::find(paths.begin(), paths.end(), *covered) == paths.end()) paths.push_back(*covered);
      break;
    }
  }
  return paths;
}

}  // namespace agentrun::lifecycle
