// For a process that outlives the command which forked it (supervisor, notifier): nothing that an engine waits for or
// that ties it to the caller stays.
#pragma once

#include <vector>

namespace agentrun::lifecycle {

// In the new process: own session, the usual signals ignored, /dev/null on 0 to 2, every fd closed but `keep`. `name`:
// at most 15 bytes, for ps(1). Cannot fail in a way that would be worth to end for.
void leave_caller(const char* name, const std::vector<int>& keep);

}  // namespace agentrun::lifecycle
