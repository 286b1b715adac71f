// The descriptors that a caller hands to the program, from 3 on: sockets of a service manager (sd_listen_fds(3)), and
// after them those of --preserve-fds.
#pragma once

#include "base/result.h"

namespace agentrun::lifecycle {

struct Descriptors {
  unsigned count = 0;   // of all of them
  unsigned listen = 0;  // how many LISTEN_FDS announces to us
};

// LISTEN_FDS that LISTEN_PID addresses to another process is not ours to hand on; without LISTEN_PID (a caller that
// could not know our pid) it is taken. An error where one of the descriptors is not open: the program would find a
// descriptor of ours in its place, or none.
Result<Descriptors> passed_descriptors(unsigned preserve_fds);

}  // namespace agentrun::lifecycle
