// sd_notify(3) for a container: that its program says READY=1 goes to the caller's service manager, and nothing else
// that it says does. MAINPID=, WATCHDOG=, FDSTORE= or ERRNO= of a container would be orders to the host's service
// manager.
//
// A small process a container waits for the word, outside the container's cgroup and inside the caller's (the manager
// tells by it whose word it is). It ends with the word, with the container, or when the container has said a thousand
// other things.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "lifecycle/store.h"

namespace agentrun::lifecycle {

inline constexpr const char* kNotifyDirectory = "/run/notify";  // in the container
inline constexpr const char* kNotifySocket = "/run/notify/notify.sock";

// Connected to what NOTIFY_SOCKET of our own environment names, a path or "@" and an abstract name; invalid where there
// is none.
Result<UniqueFd> connect_notify_socket();

// Makes notify/notify.sock in the container's directory, for every user of the container to send to, and returns it.
Result<UniqueFd> bind_notify_socket(const Container& container);

// Forks the process that waits. `inner`: of bind_notify_socket; `outer`: of connect_notify_socket.
Result<void> fork_notifier(const sys::ProcessId& container, const UniqueFd& inner, const UniqueFd& outer);

}  // namespace agentrun::lifecycle
