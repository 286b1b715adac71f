// What `agentrun sandbox --out` keeps. The program writes to a directory of the sandbox's own bounded store; after its
// end what is there is copied out, as data of a stranger: plain files, directories, and links that stay among them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace agentrun::lifecycle {

// The place on the host: held open from before the program runs, so that what it does meanwhile cannot move it.
struct OutPlace {
  std::string path;  // absolute, for messages
  std::string name;  // in `parent`
  UniqueFd parent;
  mode_t mode = 0;  // of the directory that it will be
};

// Errors: a parent that is missing or cannot be written to; something there that is no empty directory, or is a mount
// point.
Result<OutPlace> open_out_place(const std::string& path, mode_t umask);

// Of a container that is built and does not run yet: its directory for results, which must be one of its own writable
// ones and not part of its image.
Result<UniqueFd> open_sandbox_out(pid_t pid);

struct OutLimits {
  std::int64_t bytes = 0, entries = 0;
  mode_t umask = 022;
};

// As much as the file system of `from` holds.
Result<OutLimits> out_limits(int from, mode_t umask);

struct Collected {
  std::int64_t files = 0, bytes = 0, left_out = 0;
  std::vector<std::string> examples;  // of what was left out, with the reason; printable, a few
};

// After the end of every process of the sandbox. All or nothing: the copy is made beside the place and renamed onto it.
// - A file belongs to the caller, with the mode 0755 or 0644 less the umask: no set-id bits, no attributes, no ACLs.
//   Its holes stay holes, and hard links among the files stay.
// - A symlink is kept where it cannot lead out: relative, with ".." at its beginning only and no further up than the
//   place itself.
// - Left out and told: other symlinks, FIFOs, sockets, devices, what another file system is mounted on, names with
//   control characters, what is deeper than 64 levels.
// Errors: more than the limits; what the host refuses. Then there is nothing.
Result<Collected> collect_sandbox_out(int from, const OutPlace& place, const OutLimits& limits);

}  // namespace agentrun::lifecycle
