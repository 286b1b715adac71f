#include "sandbox/idmap.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::sandbox {
namespace {

std::string print_map(const std::vector<oci::IdMapping>& maps) {
  std::string text;
  for (const oci::IdMapping& map : maps) {
    text +=
        std::to_string(map.container_id) + ' ' + std::to_string(map.host_id) + ' ' + std::to_string(map.size) + '\n';
  }
  return text;
}

// A process that does nothing, and is gone with this object.
class Holder {
 public:
  explicit Holder(sys::Cloned process) : process_(std::move(process)) {}
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() {
    kill(process_.pid, SIGKILL);  // our child, not waited for yet: the pid is still its own
    while (waitpid(process_.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  std::string directory() const { return std::to_string(process_.pid); }

 private:
  sys::Cloned process_;
};

}  // namespace

Result<UniqueFd> IdmapNamespaces::make(const std::string& uids, const std::string& gids) {
  const pid_t parent = getpid();
  sys::Cloned process = TRY(sys::clone_process(CLONE_NEWUSER));
  if (process.pid == 0) {
    // Whatever kills us must not leave it behind.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    while (true) pause();
  }
  const Holder holder(std::move(process));
  const UniqueFd directory = TRY(sys::open_at(procfs_, holder.directory(), O_PATH | O_DIRECTORY));
  TRY(sys::write_file_at(directory.get(), "uid_map", uids));
  TRY(sys::write_file_at(directory.get(), "gid_map", gids));
  return sys::open_at(directory.get(), "ns/user", O_RDONLY);
}

Result<int> IdmapNamespaces::get(const std::vector<oci::IdMapping>& uids, const std::vector<oci::IdMapping>& gids) {
  const std::string uid_text = print_map(uids), gid_text = print_map(gids);
  const std::string key = uid_text + '/' + gid_text;
  const auto found = made_.find(key);
  if (found != made_.end()) return found->second.get();
  UniqueFd made = TRY(make(uid_text, gid_text));
  return made_.emplace(key, std::move(made)).first->second.get();
}

}  // namespace agentrun::sandbox
