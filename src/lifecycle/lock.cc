#include "lifecycle/lock.h"

#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

Error held(const std::string& object) { return refusal("lock", object, "another operation holds it"); }

// flock has no time limit, and to try again and again would be a poll loop. A child waits in our place: the lock
// belongs to the open file, which it shares with us, so what is granted to the child is granted to us.
[[noreturn]] void wait_in_child(int fd, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  int result = 0;
  do {
    result = flock(fd, LOCK_EX);
  } while (result != 0 && errno == EINTR);
  _exit(result == 0 ? 0 : 1);
}

}  // namespace

Result<void> take_lock(int fd, const std::string& object, std::int64_t timeout_us) {
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return ok();
  if (errno != EWOULDBLOCK) return errno_error("lock", object);
  if (timeout_us <= 0) return held(object);

  const pid_t parent = getpid();
  const sys::Cloned child = TRY(sys::clone_process(0));
  if (child.pid == 0) wait_in_child(fd, parent);
  const auto ended = sys::wait_for_end(child.pidfd.get(), timeout_us);
  if (!ended || !*ended) static_cast<void>(sys::pidfd_send_signal(child.pidfd.get(), SIGKILL));
  const sys::ExitStatus status = TRY(sys::wait_process(child.pid));
  if (status.code() != 0) return held(object);
  return ok();
}

}  // namespace agentrun::lifecycle
