#include "lifecycle/leave_caller.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "base/unique_fd.h"
#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::lifecycle {

void leave_caller(const char* name, const std::vector<int>& keep) {
  setsid();
  prctl(PR_SET_PDEATHSIG, 0);
  prctl(PR_SET_NAME, name);
  prctl(PR_SET_DUMPABLE, 0);
  sys::reset_signals();
  // A signal to "every process of the session", a full pipe, a closed terminal: none of it is a reason to stop
  // watching.
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM}) {
    ::signal(signal, SIG_IGN);
  }
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd <= 2; ++fd) {
    if (null < 0) {
      const UniqueFd closed(fd);  // an engine that waits for the end of its pipe matters more than a proper fd 2
    } else if (null != fd) {
      dup2(null, fd);
    }
  }
  static_cast<void>(sys::close_all_but(keep));
  static_cast<void>(!chdir("/"));
  umask(077);
  // The last to be chosen when memory runs out; only with CAP_SYS_RESOURCE.
  static_cast<void>(sys::write_file("/proc/self/oom_score_adj", "-999"));
}

}  // namespace agentrun::lifecycle
