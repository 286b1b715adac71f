// What this host can enforce, mechanism by mechanism. Everything that has to be tried is tried in a forked child, in
// namespaces of its own: the host is as it was.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lifecycle/options.h"

namespace agentrun::lifecycle {

enum class Health { ok, limited, missing };

struct Finding {
  std::string name;  // "seccomp"
  Health health = Health::ok;
  std::string detail;   // what there is
  std::string remedy;   // how to get what there is not; empty where nothing is amiss
  bool needed = false;  // the policy strict cannot be enforced where it is missing
};

// In an order for people: kernel, limits, filters and labels, file systems, time, files of the administrator.
std::vector<Finding> examine_host(const Global& global);

// Whether one that is needed is missing.
bool enforces_strict(const std::vector<Finding>& findings);

// Parts of it, for doctor_*.cc.
std::vector<Finding> examine_kernel();
std::vector<Finding> examine_cgroups(const Global& global);
std::vector<Finding> examine_filters();
std::vector<Finding> examine_file_systems();
std::vector<Finding> examine_administration(const Global& global);

// Runs `body` in a child and gives what it returns, an errno or 0: at most 255, and EIO where it did not end well.
int try_in_child(const std::function<int()>& body);

}  // namespace agentrun::lifecycle
