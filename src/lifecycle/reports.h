// The reports of deleted containers: <root>/.reports/ID.json, so that "why had my job only 512 MiB" can still be
// answered.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "lifecycle/store.h"
#include "policy/harden.h"

namespace agentrun::lifecycle {

inline constexpr std::size_t kReportsKept = 1000;

// Moves the container's report there. One that has none is success.
Result<void> keep_report(const Container& container);

Result<policy::Report> kept_report(const Store& store, const std::string& id);

// Removes the oldest ones until at most `keep` are left. `keep_report` does so now and then.
Result<void> prune_reports(int root, std::size_t keep);

}  // namespace agentrun::lifecycle
