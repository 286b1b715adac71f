// The state of the specification's runtime.md, as `state` prints it and as hooks get it on standard input.
#pragma once

#include <string>

#include "oci/config.h"
#include "oci/print.h"

namespace agentrun::oci {

inline constexpr const char* kVersion = "1.3.0";

enum class Status { creating, created, running, paused, stopped };
const char* name_of(Status status);

struct State {
  std::string id;
  Status status = Status::creating;
  int pid = 0;  // 0: none; the key is left out then, but for a stopped container, where it is 0
  std::string bundle;
  Annotations annotations;
  // runc's and crun's additions, printed by `state` only (not for hooks) where they are not empty.
  std::string rootfs, created, owner;
};

std::string print_state(const State& state, Layout layout);

// What goes to the agent of linux.seccomp.listenerPath with the listener's fd: "The Container Process State" of
// config-linux.md. `pid`: of the process under the filter, which is not the container's own for an exec.
std::string print_container_process_state(const State& state, int pid, const std::string& metadata);

}  // namespace agentrun::oci
