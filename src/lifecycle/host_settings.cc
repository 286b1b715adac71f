#include "lifecycle/host_settings.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "lifecycle/store.h"
#include "lifecycle/trusted_file.h"
#include "policy/values.h"
#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

constexpr const char* kDefaultFile = AGENTRUN_SYSCONFDIR "/agentrun.json";
constexpr std::string_view kSuffix = ".json";

std::string policy_directory(const Global& global) {
  const std::string file = settings_path(global);
  const std::size_t slash = file.rfind('/');
  return (slash == std::string::npos ? std::string(".") : file.substr(0, slash)) + "/policies";
}

}  // namespace

std::string settings_path(const Global& global) { return global.config.empty() ? kDefaultFile : global.config; }

Result<policy::Settings> load_settings(const Global& global) {
  if (!global.config.empty() && !sys::is_host_root()) {
    return refusal("--config", global.config, "only root chooses another file than " + std::string(kDefaultFile));
  }
  const std::string path = settings_path(global);
  const auto text = read_trusted_file("settings", path, TrustedOwner::administrator);
  if (!text && text.error().code == ENOENT && global.config.empty()) return policy::Settings{};
  if (!text) return text.error();
  return policy::parse_settings(*text, path);
}

Result<policy::PolicyText> policy_file(const Global& global, const std::string& name) {
  // A name from a file or an annotation never becomes a path.
  if (std::string reason = policy::check_policy_name(name); !reason.empty()) {
    return refusal("policy", name.substr(0, 64), std::move(reason));
  }
  const std::string path = policy_directory(global) + "/" + name + std::string(kSuffix);
  auto text = read_trusted_file("policy", path, TrustedOwner::administrator);
  if (text) return policy::PolicyText{*std::move(text), path};
  if (text.error().code != ENOENT) return text.error();
  std::vector<std::string> names = policy::builtin_names();
  // What cannot be listed is no help; the error is that there is none of that name.
  if (const auto files = policy_file_names(global)) names.insert(names.end(), files->begin(), files->end());
  return refusal("policy", name,
                 "there is none of that name (" + text::join(names, ", ") + "); a file is named by a path with a /");
}

policy::FindPolicy policy_finder(const Global& global) {
  return [global](const std::string& name) { return policy_file(global, name); };
}

Result<policy::Policy> named_policy(const Global& global, const std::string& name) {
  if (!policy::builtin_text(name).empty()) return policy::builtin_policy(name);
  const policy::PolicyText found = TRY(policy_file(global, name));
  policy::Policy policy = TRY(policy::parse_policy(found.json, found.file, policy_finder(global)));
  policy.name = name;
  return policy;
}

Result<std::vector<std::string>> policy_file_names(const Global& global) {
  const std::string directory = policy_directory(global);
  auto listed = sys::list_directory(AT_FDCWD, directory);
  std::vector<std::string> names;
  if (!listed && listed.error().code == ENOENT) return names;
  for (const std::string& file : TRY(std::move(listed))) {
    if (!file.ends_with(kSuffix)) continue;
    std::string name = file.substr(0, file.size() - kSuffix.size());
    const bool builtin = !policy::builtin_text(name).empty();  // that one is meant by the name, always
    if (!builtin && policy::check_policy_name(name).empty()) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

const policy::RootSettings& root_settings(const Global& global, const policy::Settings& settings) {
  return policy::settings_of_root(settings, text::clean_path(global.root.empty() ? default_root() : global.root));
}

bool is_pod_sandbox(const Global& global, const policy::Settings& settings, const oci::Annotations& annotations) {
  if (!root_settings(global, settings).cri) return false;
  // containerd's CRI plugin, CRI-O. Both set them after whatever a pod may bring.
  for (const char* key : {"io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"}) {
    const auto found = annotations.find(key);
    if (found != annotations.end() && found->second == "sandbox") return true;
  }
  return false;
}

}  // namespace agentrun::lifecycle
