// Names in a state root that are no container's: an id never starts with a point.
#pragma once

#include <string>

#include "base/result.h"

namespace agentrun::lifecycle {

inline constexpr const char* kNewPrefix = ".new-";
inline constexpr const char* kGonePrefix = ".gone-";
inline constexpr const char* kLockFile = "lock";

// 16 hexadecimal digits from getrandom(2).
Result<std::string> random_hex();

// Removes what killed commands left in `root`: .gone-* directories, and .new-* ones whose maker is dead.
void remove_leftovers(int root);

}  // namespace agentrun::lifecycle
