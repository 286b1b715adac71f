// Copies the content of a directory into another, by fd: for tmpcopyup, and where an overlay is not to be had.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace agentrun::sandbox {

struct CopyLimits {
  std::int64_t bytes = -1;  // of file contents; -1: none but the target's own
  std::int64_t entries = -1;
};

// Everything below `from` (a directory, O_PATH will do) into `to`: directories, files, symlinks, device nodes and FIFOs
// with owner, mode and times; sockets and extended attributes (file capabilities among them) are left out. No symlink
// is followed and no mount is crossed. `to` itself gets owner and mode of `from`. Errors: EFBIG beyond a limit; a tree
// deeper than 128.
Result<void> copy_tree(int from, int to, const CopyLimits& limits);

}  // namespace agentrun::sandbox
