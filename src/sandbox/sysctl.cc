#include "sandbox/sysctl.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "sandbox/procfs.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

// The kernel's names of the sysctls that an IPC or UTS namespace has its own value of; net and fs/mqueue are whole
// trees.
constexpr std::array<std::string_view, 8> kIpc = {"kernel/msgmax", "kernel/msgmnb",         "kernel/msgmni",
                                                  "kernel/sem",    "kernel/shmall",         "kernel/shmmax",
                                                  "kernel/shmmni", "kernel/shm_rmid_forced"};

// sysctl(8): what separates is the first of . and / that is there; the other one stands for a dot in a name
// ("net.ipv4.conf.eth0/100.forwarding" and "net/ipv4/conf/eth0.100/forwarding" are one). As a path below /proc/sys.
std::string path_of(std::string_view key) {
  const std::size_t separator = key.find_first_of("./");
  std::string path(key);
  if (separator == std::string_view::npos || key[separator] == '/') return path;
  for (char& c : path) {
    if (c == '.') {
      c = '/';
    } else if (c == '/') {
      c = '.';
    }
  }
  return path;
}

// CVE-2022-0811: a value or a key that is two for whoever takes it apart the next time.
Result<void> check_spelling(const std::string& key, const std::string& value) {
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\t'; };
  if (std::any_of(value.begin(), value.end(), control)) {
    return refusal("sysctl", "`" + key + "`", "the value has control characters");
  }
  for (const char c : key) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && std::string_view("._-/@:").find(c) == std::string_view::npos) {
      return refusal("sysctl", "`" + key + "`", "a character that no name has");
    }
  }
  const std::string path = path_of(key);
  for (const std::string_view part : text::split(path, '/')) {
    if (part.empty() || part == "." || part == "..") return refusal("sysctl", "`" + key + "`", "not a name");
  }
  return ok();
}

std::optional<oci::NamespaceType> owner_of(std::string_view path) {
  if (path.starts_with("net/")) return oci::NamespaceType::network;
  if (path.starts_with("fs/mqueue/")) return oci::NamespaceType::ipc;
  if (std::find(kIpc.begin(), kIpc.end(), path) != kIpc.end()) return oci::NamespaceType::ipc;
  if (path == "kernel/domainname" || path == "kernel/hostname") return oci::NamespaceType::uts;
  if (path.starts_with("user/max_")) return oci::NamespaceType::user;
  return std::nullopt;
}

// The namespace is one of the container: new, or joined and not the one that we are in.
bool has_own(const oci::Config& config, oci::NamespaceType type) {
  const oci::Namespace* found = oci::find_namespace(config, type);
  if (found == nullptr) return false;
  if (found->path.empty()) return true;
  struct stat theirs {
  }, ours{};
  const std::string own =
      std::string("/proc/self/ns/") + (type == oci::NamespaceType::network ? "net" : oci::name_of(type));
  if (stat(found->path.c_str(), &theirs) != 0 || stat(own.c_str(), &ours) != 0) return false;
  return theirs.st_ino != ours.st_ino || theirs.st_dev != ours.st_dev;
}

}  // namespace

Result<void> check_sysctls(const oci::Config& config) {
  for (const auto& [key, value] : config.linux.sysctl) {
    const std::string name = "`" + key + "`";
    TRY(check_spelling(key, value));
    const std::string path = path_of(key);
    const auto owner = owner_of(path);
    if (!owner) return refusal("sysctl " + name + " is not namespaced", {}, {});
    if (path == "kernel/hostname") {
      return refusal("sysctl " + name + " is not allowed as it conflicts with the OCI hostname field", {}, {});
    }
    if (!has_own(config, *owner)) {
      return refusal("sysctl " + name + " is not allowed in the host's " + oci::name_of(*owner) + " namespace", {}, {});
    }
  }
  return ok();
}

Result<void> write_sysctls(int procfs, const std::map<std::string, std::string>& sysctls) {
  for (const auto& [key, value] : sysctls) {
    TRY(check_spelling(key, value));
    const std::string path = path_of(key);
    if (!owner_of(path)) return refusal("sysctl `" + key + "` is not namespaced", {}, {});
    const UniqueFd fd = TRY(open_in_procfs(procfs, "sys/" + path, O_WRONLY));
    TRY(sys::write_all(fd.get(), value, "/proc/sys/" + path));
  }
  return ok();
}

}  // namespace agentrun::sandbox
