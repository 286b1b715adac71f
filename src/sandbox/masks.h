// linux.maskedPaths and linux.readonlyPaths, laid over by fd in the entered root (config-linux.md "Masked Paths").
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace agentrun::sandbox {

// A detached copy of the host's verified /dev/null, to be made before the root is entered: afterwards the host is out
// of reach. Read-only, nosuid, noexec.
Result<UniqueFd> prepare_null_mask();

// Each path becomes a read-only mount of itself with everything below, keeping the other flags that it has. Missing
// paths are passed over, as every runtime does: lists name what some kernels do not have.
Result<void> make_readonly(int root, const std::vector<std::string>& paths);

// A file is covered with `null`, a directory with one empty read-only tmpfs that all of them share (a superblock each
// costs create and teardown). Missing paths are passed over.
Result<void> mask(int root, const std::vector<std::string>& paths, const UniqueFd& null);

}  // namespace agentrun::sandbox
