// The index of deadlines of a store: <root>/.deadlines/ has an empty file "AT-ID" for each, AT in CLOCK_BOOTTIME
// microseconds with leading zeros. So a look for overdue containers is one listing, and no file of a container is
// opened unless it is overdue. An entry is a hint: the record decides.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "lifecycle/store.h"

namespace agentrun::lifecycle {

// When `record` is overdue, in CLOCK_BOOTTIME microseconds: its deadline; before it was armed, the end of the time that
// it may wait for start. 0: never.
std::int64_t overdue_at(const Record& record);

Result<void> index_deadline(int root, const std::string& id, std::int64_t at_us);
void unindex_deadline(int root, const std::string& id, std::int64_t at_us);  // missing is success
void unindex_all(int root, const std::string& id);                           // every entry of `id`, by a listing

struct IndexEntry {
  std::int64_t at_us = 0;
  std::string id;
};
// Entries at or before `now_us`. No index is no entry.
Result<std::vector<IndexEntry>> overdue_entries(int root, std::int64_t now_us);

}  // namespace agentrun::lifecycle
