#include "backend/native/become.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "base/trace.h"
#include "sandbox/executable.h"
#include "sandbox/identity.h"
#include "sandbox/labels.h"
#include "sandbox/landlock.h"
#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::native {
namespace {

constexpr std::size_t kPasswdLimit = 1u << 20;

// Field 6 of the first line of /etc/passwd whose third field is `uid`. The file is the image's: hostile, so it is read
// bounded and never through a FIFO or a device.
std::string home_of(std::uint32_t uid) {
  const auto passwd = sys::read_file("/etc/passwd", kPasswdLimit, true);
  if (!passwd) return "/";
  for (const std::string_view line : text::split(*passwd, '\n')) {
    const auto fields = text::split(line, ':');
    if (fields.size() >= 6 && text::parse_unsigned(fields[2]) == uid && fields[5].starts_with('/')) {
      return std::string(fields[5]);
    }
  }
  return "/";
}

Result<void> set_limits_and_priorities(const BecomeRequest& request) {
  const oci::Process& process = *request.process;
  TRY(sandbox::set_rlimits(process.rlimits));
  if (process.scheduler) TRY(sandbox::set_scheduler(*process.scheduler));
  if (process.io_priority) TRY(sandbox::set_io_priority(*process.io_priority));
  if (request.linux_config->personality) TRY(sandbox::set_personality(*request.linux_config->personality));
  if (request.linux_config->memory_policy) TRY(sandbox::set_memory_policy(*request.linux_config->memory_policy));
  return ok();
}

Result<std::vector<sandbox::ExecLabel>> labels_of(const BecomeRequest& request) {
  const oci::Process& process = *request.process;
  std::vector<sandbox::ExecLabel> labels;
  if (!process.apparmor_profile.empty()) {
    labels.push_back(TRY(sandbox::apparmor_on_exec(request.procfs, process.apparmor_profile)));
  }
  if (!process.selinux_label.empty()) {
    labels.push_back(TRY(sandbox::selinux_on_exec(request.procfs, process.selinux_label)));
  }
  return labels;
}

// Without no_new_privs a filter can be loaded only with CAP_SYS_ADMIN, so it is loaded while that is there, and what
// follows runs under it: the order of runc, for whose profiles the world's are written.
Result<void> load_programs_with_privilege(const BecomeRequest& request) {
  if (request.programs < 0) return ok();
  for (const auto& program : TRY(sandbox::read_programs(request.programs))) {
    TRY(sandbox::load_seccomp(program, request.listener_fd, request.listener_message));
  }
  return ok();
}

Result<void> become_user(const BecomeRequest& request) {
  const oci::Process& process = *request.process;
  TRY(sandbox::limit_bounding(request.capabilities));
  TRY(sandbox::set_groups(process.user));
  if (!process.no_new_privileges) TRY(load_programs_with_privilege(request));
  TRY(sandbox::keep_over_setuid());
  TRY(sandbox::set_user(process.user));
  TRY(sandbox::set_capabilities(request.capabilities));
  sandbox::set_umask(process.user);
  if (process.no_new_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return errno_error("set", "no_new_privs");
  }
  return ok();
}

struct Prepared {
  std::vector<sandbox::ExecLabel> labels;
  UniqueFd landlock;
};

Result<UniqueFd> make_landlock(const BecomeRequest& request) {
  // parse_policy saw to it; without, landlock_restrict_self(2) would need CAP_SYS_ADMIN, and that is gone by then.
  if (!request.process->no_new_privileges) return refusal("restrict by Landlock", "", "no_new_privs is not set");
  sandbox::LandlockRequest landlock;
  landlock.rules = request.landlock;
  landlock.rootfs = request.rootfs;
  landlock.trust_symlinks = !request.joins;
  for (int fd = 0; fd < 3 + static_cast<int>(request.preserve_fds); ++fd) landlock.open_fds.push_back(fd);
  return sandbox::make_landlock_ruleset(landlock);
}

// What needs an fd comes before the limits: with a small RLIMIT_NOFILE or RLIMIT_FSIZE there would be none to have.
Result<Prepared> prepare(const BecomeRequest& request) {
  Prepared prepared;
  prepared.labels = TRY(labels_of(request));
  if (request.landlock != nullptr) prepared.landlock = TRY(make_landlock(request));
  TRY(set_limits_and_priorities(request));
  TRY(become_user(request));
  return prepared;
}

}  // namespace

bool wants_procfs(const oci::Process& process) {
  return !process.apparmor_profile.empty() || !process.selinux_label.empty();
}

Error become(const BecomeRequest& request) {
  const auto prepared = prepare(request);
  if (!prepared) return prepared.error();
  sandbox::Launch launch;
  launch.path = request.executable;
  launch.args = request.process->args;
  launch.env = request.env;
  if (request.process->no_new_privileges) launch.programs_fd = request.programs;  // else they are loaded
  launch.landlock_fd = prepared->landlock.get();
  launch.labels = prepared->labels;
  launch.procfs = request.procfs;
  launch.error_fd = request.error_fd;
  launch.listener_fd = request.listener_fd;
  launch.listener_message = request.listener_message;
  launch.preserve_fds = request.preserve_fds;
  trace::step("become");
  sys::reset_signals();
  return sandbox::run_last_step(*request.last_step, launch);
}

std::vector<std::string> program_environment(const oci::Process& process, const std::vector<std::string>& added) {
  std::vector<std::string> env = process.env;
  for (const std::string& variable : added) {
    const std::string name = variable.substr(0, variable.find('=') + 1);
    std::erase_if(env, [&](const std::string& entry) { return entry.starts_with(name); });
    env.push_back(variable);
  }
  const bool has_home = std::any_of(
      env.begin(), env.end(), [](const std::string& entry) { return entry.starts_with("HOME=") && entry.size() > 5; });
  if (!has_home) {
    std::erase(env, "HOME=");
    env.push_back("HOME=" + home_of(process.user.uid));
  }
  return env;
}

std::vector<std::string> listen_environment(unsigned count) {
  if (count == 0) return {};
  return {"LISTEN_FDS=" + std::to_string(count), "LISTEN_PID=" + std::to_string(getpid())};
}

}  // namespace agentrun::native
