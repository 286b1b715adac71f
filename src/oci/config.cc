#include "oci/config.h"

#include <algorithm>

namespace agentrun::oci {

const Namespace* find_namespace(const Config& config, NamespaceType type) {
  const auto& namespaces = config.linux.namespaces;
  const auto found =
      std::find_if(namespaces.begin(), namespaces.end(), [type](const Namespace& entry) { return entry.type == type; });
  return found == namespaces.end() ? nullptr : &*found;
}

const char* name_of(NamespaceType type) {
  switch (type) {
    case NamespaceType::pid:
      return "pid";
    case NamespaceType::network:
      return "network";
    case NamespaceType::mount:
      return "mount";
    case NamespaceType::ipc:
      return "ipc";
    case NamespaceType::uts:
      return "uts";
    case NamespaceType::user:
      return "user";
    case NamespaceType::cgroup:
      return "cgroup";
    case NamespaceType::time:
      return "time";
  }
  return "";
}

}  // namespace agentrun::oci
