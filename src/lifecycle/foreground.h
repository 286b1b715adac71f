// A runtime that stays with its process (run, exec without --detach, sandbox): it hands signals on, carries a terminal
// that nobody else holds, and ends with what the process ended with.
#pragma once

#include <sys/types.h>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sys/process.h"

struct rusage;

namespace agentrun::lifecycle {

// Blocks the signals that are handed on, from now to the end of the object: taken before the process is made, so that
// none is lost between.
class Foreground {
 public:
  static Result<Foreground> open();
  Foreground(Foreground&&) = default;
  Foreground& operator=(Foreground&&) = default;

  // Waits for `pid`, our child. `master`: the process's terminal, relayed to our own standard input and output;
  // invalid: none. `usage` gets what wait4(2) says.
  Result<sys::ExitStatus> wait(pid_t pid, int pidfd, UniqueFd master, rusage* usage);

 private:
  Foreground() = default;
  UniqueFd signals_;
};

}  // namespace agentrun::lifecycle
