// The program: looked up in the container's PATH as execvp would, with the texts and exit codes that engines match.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace agentrun::sandbox {

// In the entered root, in the working directory, as the user of the process where that is possible. PATH is the first
// of `env`, as for getenv(3); /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin without one. Errors:
//   executable file `X` not found in $PATH: No such file or directory   (exit 127)
//   open executable `X`: No such file or directory / Permission denied / Permission denied (Is a
//   directory) (exit 127, 126, 126)
Result<std::string> find_executable(const std::string& name, const std::vector<std::string>& env);

// chdir that cannot leave the root (CVE-2024-21626): no magic link of procfs is followed (cwd "/proc/self/fd/7"), and
// getcwd must be absolute afterwards. A cwd that is missing is an error: whoever builds a root makes it (rootfs.h).
Result<void> enter_directory(const std::string& cwd);

}  // namespace agentrun::sandbox
