// /etc of `agentrun sandbox`: built, never the host's, so that no secret, no account and no name server of the host is
// in it.
#pragma once

#include "base/result.h"
#include "lifecycle/sandbox_config.h"

namespace agentrun::lifecycle {

// Fills the directory `etc` (an fd). Of the host's /etc only a list of names is copied, of these only what everybody
// may read, symlinks as symlinks; a name that is missing is left out. Certificate directories are shown by read-only
// mounts.
Result<void> build_sandbox_etc(int etc, const SandboxHost& host);

}  // namespace agentrun::lifecycle
