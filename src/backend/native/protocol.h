// What the runtime and the container's process say to each other over one socketpair (SOCK_SEQPACKET) while a container
// is made. Each message is whole, bounded, and of a known kind at a known moment; anything else ends the creation.
//
//   child  alive                      it lives, in its new namespaces
//   parent go                         id maps are written, cgroups joined  (where there is something to wait for)
//   child  root_built                 mounts are made, the root is not entered  (where the config has createRuntime
//   hooks) parent go                         those hooks ran child  ready                      everything is done but
//   starting parent start | wait               with the seccomp programs: run now, or when somebody connects to the
//   start socket child  failed                     at any time: an Error end of file                       the
//   program's execve succeeded
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace agentrun::native {

enum class Kind : char {
  alive = 'a',
  go = 'g',
  root_built = 'b',
  ready = 'r',
  start = 's',
  wait = 'w',
  process = 'p',  // a joining process: its pidfd comes with it
  failed = 'f',
  end = 0,  // the other side has closed
};

struct Incoming {
  Kind kind = Kind::end;
  std::string payload;
  std::vector<UniqueFd> fds;
};

Result<void> tell(int socket, Kind kind, std::string_view payload = {}, const std::vector<int>& fds = {});

// An Error crosses as (errno, exit status, operation, object, reason).
void tell_failure(int socket, const Error& error);

// The next message. A `failed` becomes the Error that it carries.
Result<Incoming> listen_to(int socket);

// The next message, which must be `kind`; `failed` and the end of the other side are errors.
Result<Incoming> expect(int socket, Kind kind);

// Whether text that came over an error channel is a `failed` message, and which Error it carries.
Error decode_failure(std::string_view message);

}  // namespace agentrun::native
