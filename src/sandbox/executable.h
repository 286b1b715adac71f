// The program: looked up in the container's PATH as execvp would, with the texts and exit codes that engines match.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace agentrun::sandbox {

// In the entered root, in the working directory, as the user of the process where that is possible. Errors:
//   executable file `X` not found in $PATH: No such file or directory   (exit 127)
//   open executable `X`: No such file or directory / Permission denied / Is a directory (exit 127, 126, 126)
Result<std::string> find_executable(const std::string& name, const std::vector<std::string>& env);

// chdir that cannot leave the root (CVE-2024-21626): getcwd must be absolute afterwards. A cwd that is missing is made
// where the specification's callers expect it (mode 0755), unless the root is read-only.
Result<void> enter_directory(const std::string& cwd);

}  // namespace agentrun::sandbox
