// doctor: the files of the administrator, and the audit log.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "lifecycle/audit.h"
#include "lifecycle/doctor.h"
#include "lifecycle/host_settings.h"
#include "lifecycle/owner.h"
#include "sys/file.h"

namespace agentrun::lifecycle {
namespace {

// Of `path`, or of the nearest directory above it that is there: create makes the others.
Finding audit_finding() {
  const std::string path = audit_path();
  Finding finding{"audit log", Health::ok, path, "", true};
  if (path.empty()) {
    finding.health = Health::missing;
    finding.detail = "there is no place for it";
    finding.remedy = "set XDG_STATE_HOME or HOME";
    return finding;
  }
  std::string nearest = path;
  while (nearest.size() > 1 && access(nearest.c_str(), F_OK) != 0) {
    const std::size_t slash = nearest.rfind('/');
    nearest = slash == 0 ? "/" : nearest.substr(0, slash);
  }
  struct stat status {};
  if (access(nearest.c_str(), W_OK) != 0) {
    finding.health = Health::missing;
    finding.detail = nearest + ": " + std::strerror(errno);
  } else if (nearest == path && (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode))) {
    finding.health = Health::missing;
    finding.detail = path + ": not a regular file";
  } else if (nearest == path && status.st_uid != geteuid()) {
    finding.health = Health::missing;
    finding.detail = path + ": owned by uid " + std::to_string(status.st_uid);
  }
  if (finding.health == Health::missing)
    finding.remedy = "a file of the caller's own, or a directory that he can write to";
  return finding;
}

Finding settings_finding(const Global& global) {
  const std::string path = settings_path(global);
  Finding finding{"agentrun.json", Health::ok, path, "", true};
  const auto settings = load_settings(global);
  if (!settings) {
    finding.health = Health::missing;
    finding.detail = settings.error().message();
    finding.remedy = "no container is made until this is put right";
    return finding;
  }
  if (access(path.c_str(), F_OK) != 0) finding.detail = "no " + path + ": the policy strict, nothing selectable";
  for (const std::string& name : settings->selectable) {
    if (const auto policy = named_policy(global, name); !policy) {
      finding.health = Health::limited;
      finding.detail = path + " /selectable: " + policy.error().message();
      finding.remedy = "who selects it gets an error";
    }
  }
  std::vector<std::string> defaults{settings->default_policy};
  for (const auto& [root, special] : settings->roots) {
    if (!special.default_policy.empty()) defaults.push_back(special.default_policy);
  }
  for (const std::string& name : defaults) {
    if (const auto policy = named_policy(global, name); !policy) {
      finding.health = Health::missing;
      finding.detail = path + ": " + policy.error().message();
      finding.remedy = "no container is made under it until this is put right";
    }
  }
  return finding;
}

Finding policies_finding(const Global& global) {
  Finding finding{"policies", Health::ok, "", "", false};
  std::vector<std::string> names = policy::builtin_names();
  const auto files = policy_file_names(global);
  if (!files) {
    finding.health = Health::limited;
    finding.detail = files.error().message();
    finding.remedy = "its owner has to let it be read";
    return finding;
  }
  for (const std::string& name : *files) {
    names.push_back(name);
    if (const auto policy = named_policy(global, name); !policy) {
      finding.health = Health::limited;
      finding.remedy = policy.error().message();
    }
  }
  finding.detail = text::join(names, " ");
  return finding;
}

}  // namespace

std::vector<Finding> examine_administration(const Global& global) {
  return {audit_finding(), settings_finding(global), policies_finding(global)};
}

}  // namespace agentrun::lifecycle
