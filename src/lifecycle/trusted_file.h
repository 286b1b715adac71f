// Files whose content decides what is enforced: read only where nobody but their owner could have written them.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/result.h"

namespace agentrun::lifecycle {

enum class TrustedOwner {
  administrator,  // root of the host, and every directory above is his too
  caller          // or the caller himself: a file that he names on the command line
};

// The text of `path`, at most a MiB. Errors: not a regular file (a FIFO does not hang), another's, writable by group or
// others; for `administrator` also where such a directory is above it: who can rename the file's directory can put
// another one there. `what` begins the error: "policy". Error code ENOENT: there is none.
Result<std::string> read_trusted_file(const std::string& what, const std::string& path, TrustedOwner owner);

// Of a file or directory that is open: root's of the host, and nobody else can write to it. `status` and `real_path`
// are its; `path` is what the error calls it.
Result<void> check_administrators(const std::string& what, const std::string& path, const std::string& real_path,
                                  const struct stat& status);

// An executable that only the administrator can have put where it is: the same of file and directories, which are
// looked at by the path as it is written. Links on the way are refused.
Result<void> check_trusted_program(const std::string& what, const std::string& path);

}  // namespace agentrun::lifecycle
