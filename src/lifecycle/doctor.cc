#include "lifecycle/doctor.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "sys/process.h"

namespace agentrun::lifecycle {

int try_in_child(const std::function<int()>& body) {
  const auto pid = sys::fork_running(body);
  if (!pid) return pid.error().code != 0 ? pid.error().code : EIO;
  const auto status = sys::wait_process(*pid);
  if (!status || status->code() > 128) return EIO;
  return status->code();
}

std::vector<Finding> examine_host(const Global& global) {
  std::vector<Finding> findings;
  const auto add = [&](std::vector<Finding> more) {
    std::move(more.begin(), more.end(), std::back_inserter(findings));
  };
  add(examine_kernel());
  add(examine_cgroups(global));
  add(examine_filters());
  add(examine_file_systems());
  add(examine_administration(global));
  return findings;
}

bool enforces_strict(const std::vector<Finding>& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.needed && finding.health == Health::missing; });
}

}  // namespace agentrun::lifecycle
