// /etc of `agentrun sandbox`: built, never the host's, so that no secret, no account and no name server of the host is
// in it.
#pragma once

#include "base/result.h"
#include "lifecycle/sandbox_config.h"

namespace agentrun::lifecycle {

// Fills the directory `etc` (an fd). Of the host's /etc a list of names is taken over, and of these only what everybody
// may read: files as copies, symlinks as symlinks, directories by read-only mounts. A name that is missing is left out.
Result<void> build_sandbox_etc(int etc, const SandboxHost& host);

}  // namespace agentrun::lifecycle
