#include "root_fixture.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/text.h"
#include "sys/file.h"
#include "sys/mount.h"
#include "sys/process.h"

namespace agentrun::sandbox::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kFirstId = 100000, kUser = 12345;

std::string failed() { return "errno " + std::to_string(errno) + " " + std::strerror(errno); }

struct Pipe {
  UniqueFd read_end, write_end;
  Pipe() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) std::abort();
    read_end.reset(fds[0]);
    write_end.reset(fds[1]);
  }
};

// From here on the host's process is an unprivileged user's.
Result<void> become_user(const std::string& bundle) {
  for (const std::string& path : {bundle, bundle + "/rootfs"}) {
    if (chown(path.c_str(), kUser, kUser) != 0) return errno_error("chown", path);
  }
  if (setgroups(0, nullptr) != 0 || setresgid(kUser, kUser, kUser) != 0 || setresuid(kUser, kUser, kUser) != 0) {
    return errno_error("setresuid");
  }
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // else /proc/PID of the child is root's
  return ok();
}

// "E", "I" or "H", then the text, then NUL.
void report(int fd, char kind, const std::string& text) {
  const std::string message = kind + text + '\0';
  if (!sys::write_all(fd, message, "pipe")) _exit(2);
}

// No fd that build_root or enter_root opened may stay open: one of the host's would be a way out (CVE-2024-21626).
Result<std::size_t> open_files() {
  const UniqueFd directory = TRY(sys::open("/proc/self/fd", O_RDONLY | O_DIRECTORY));
  return TRY(sys::list_directory(directory.get(), ".")).size();
}

Result<void> contain(const Scenario& scenario, BindSources& sources, const std::string& bundle, int rootfs, int out) {
  RootRequest request;
  request.effective = &scenario.effective;
  request.sources = &sources;
  request.bundle = bundle;
  request.rootfs = bundle + "/rootfs";
  request.rootfs_fd = rootfs;
  request.new_user_namespace = scenario.user_namespace;
  request.pivot = scenario.pivot;
  request.cgroups = scenario.cgroups;
  std::size_t held = sources.devices ? 1 : 0;
  for (const UniqueFd& fd : sources.fds) held += fd ? 1 : 0;
  const std::size_t before = TRY(open_files()) - held;
  TRY(build_root(request));
  if (TRY(open_files()) != before) return refusal("build_root", "", "left files open");
  if (scenario.between) scenario.between(bundle);
  TRY(enter_root(request));
  if (auto after = open_files(); after && *after != before) return refusal("enter_root", "", "left files open");
  if (scenario.inside) report(out, 'I', scenario.inside());
  return ok();
}

void map_ids(pid_t pid, bool rootless) {
  const std::string directory = "/proc/" + std::to_string(pid);
  const std::string map =
      rootless ? "0 " + std::to_string(kUser) + " 1\n" : "0 " + std::to_string(kFirstId) + " 65536\n";
  if (rootless && !sys::write_file(directory + "/setgroups", "deny")) _exit(3);
  if (!sys::write_file(directory + "/uid_map", map) || !sys::write_file(directory + "/gid_map", map)) _exit(3);
}

[[noreturn]] void container(const Scenario& scenario, BindSources& sources, const std::string& bundle, int rootfs,
                            int out, Pipe& go) {
  go.write_end.reset();
  char byte = 0;
  if (::read(go.read_end.get(), &byte, 1) != 1) _exit(4);
  if (scenario.user_namespace &&
      ((!scenario.rootless && setgroups(0, nullptr) != 0) || setresgid(0, 0, 0) != 0 || setresuid(0, 0, 0) != 0)) {
    _exit(5);
  }
  const auto done = contain(scenario, sources, bundle, rootfs, out);
  if (!done) report(out, 'E', done.error().message());
  _exit(0);
}

Result<void> host(const Scenario& scenario, const std::string& bundle, int out) {
  if (unshare(CLONE_NEWNS) != 0) return errno_error("unshare");
  TRY(sys::set_propagation("/", MS_REC | MS_PRIVATE));
  const UniqueFd place = TRY(sys::open(bundle, O_PATH | O_DIRECTORY));
  const UniqueFd work = TRY(sys::new_mount("tmpfs", {{"mode", "0755", false}}, 0));
  TRY(sys::attach_mount(work.get(), place.get()));
  // As systemd has it: what is mounted in a copy of this namespace appears here, unless it is cut off.
  TRY(sys::set_propagation("/", MS_REC | MS_SHARED));
  make_directory(bundle + "/rootfs");
  if (scenario.prepare) scenario.prepare(bundle);
  if (scenario.user_namespace && chown((bundle + "/rootfs").c_str(), kFirstId, kFirstId) != 0)
    return errno_error("chown");

  if (scenario.rootless) TRY(become_user(bundle));
  const UniqueFd rootfs = TRY(sys::open(bundle + "/rootfs", O_PATH | O_DIRECTORY));
  BindSources sources = TRY(open_bind_sources(scenario.effective.config, bundle));
  Pipe go;
  std::uint64_t flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
  if (scenario.user_namespace) flags |= CLONE_NEWUSER;
  if (scenario.network_namespace) flags |= CLONE_NEWNET;
  if (scenario.cgroups.namespaced) flags |= CLONE_NEWCGROUP;
  const sys::Cloned child = TRY(sys::clone_process(flags));
  if (child.pid == 0) container(scenario, sources, bundle, rootfs.get(), out, go);
  if (scenario.user_namespace) map_ids(child.pid, scenario.rootless);
  TRY(sys::write_all(go.write_end.get(), "g", "pipe"));
  const sys::ExitStatus status = TRY(sys::wait_process(child.pid));
  if (status.code() != 0) return refusal("container", "", "ended with " + std::to_string(status.code()));
  if (scenario.afterwards) report(out, 'H', scenario.afterwards(bundle));
  return ok();
}

}  // namespace

bool can_build_roots() {
  if (geteuid() != 0) return false;
  const pid_t pid = fork();
  if (pid == 0) _exit(unshare(CLONE_NEWNS) == 0 ? 0 : 1);
  int status = 1;
  waitpid(pid, &status, 0);
  return status == 0;
}

Outcome run(const Scenario& wanted) {
  Scenario scenario = wanted;
  oci::Linux& container = scenario.config().linux;
  if (scenario.rootless) container.uid_mappings = container.gid_mappings = {{0, kUser, 1}};
  scenario.user_namespace = scenario.user_namespace || scenario.rootless;
  if (scenario.user_namespace) {
    container.namespaces.push_back({oci::NamespaceType::user, ""});
    if (container.uid_mappings.empty()) container.uid_mappings = container.gid_mappings = {{0, kFirstId, 65536}};
  }
  char name[] = "/tmp/agentrun-root-XXXXXX";
  if (mkdtemp(name) == nullptr || chmod(name, 0755) != 0) return {"no temporary directory", "", ""};
  Pipe out;
  const pid_t pid = fork();
  if (pid == 0) {
    out.read_end.reset();
    const auto done = host(scenario, name, out.write_end.get());
    if (!done) report(out.write_end.get(), 'E', done.error().message());
    _exit(0);
  }
  out.write_end.reset();
  Outcome outcome;
  const auto text = sys::read_fd(out.read_end.get(), "pipe", 16U << 20);
  waitpid(pid, nullptr, 0);
  rmdir(name);
  if (!text) return {"no report", "", ""};
  for (const std::string_view part : text::split(*text, '\0')) {
    if (part.empty()) continue;
    std::string& place = part[0] == 'E' ? outcome.error : part[0] == 'I' ? outcome.inside : outcome.host;
    place = part.substr(1);
  }
  return outcome;
}

oci::Mount mount_of(std::string type, std::string source, std::string destination, std::vector<std::string> options) {
  oci::Mount mount;
  mount.type = std::move(type);
  mount.source = std::move(source);
  mount.destination = std::move(destination);
  mount.options = std::move(options);
  return mount;
}

oci::Mount bind_of(std::string source, std::string destination, std::vector<std::string> options) {
  return mount_of("bind", std::move(source), std::move(destination), std::move(options));
}

std::string words(std::initializer_list<std::string> parts) { return text::join({parts.begin(), parts.end()}, " "); }

std::string read(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return failed();
  const auto text = sys::read_fd(fd.get(), path);
  return text ? *text : text.error().message();
}

std::string write(const std::string& path, const std::string& text) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_TRUNC, 0644));
  if (!fd) return failed();
  const auto done = sys::write_all(fd.get(), text, path);
  return done ? "ok" : "errno " + std::to_string(done.error().code);
}

std::string mount_line(const std::string& place) {
  std::ifstream table("/proc/self/mountinfo");
  std::string line, last;
  while (std::getline(table, line)) {
    const auto words = text::split_words(line);
    if (words.size() > 5 && words[4] == place) last = line;
  }
  return last;
}

int count_mounts(const std::string& place) {
  std::ifstream table("/proc/self/mountinfo");
  std::string line;
  int count = 0;
  while (std::getline(table, line)) {
    const auto words = text::split_words(line);
    if (words.size() > 5 && words[4] == place) ++count;
  }
  return count;
}

std::string flags_of_mount(const std::string& place) {
  const std::string line = mount_line(place);
  const auto words = text::split_words(line);
  return words.size() > 5 ? std::string(words[5]) : "none";
}

void make_directory(const std::string& path, unsigned mode) {
  std::error_code ignored;
  fs::create_directories(path, ignored);
  chmod(path.c_str(), mode);
}

void make_link(const std::string& text, const std::string& path) {
  if (symlink(text.c_str(), path.c_str()) != 0) std::abort();
}

std::string link_text(const std::string& path) {
  std::error_code error;
  const auto text = fs::read_symlink(path, error);
  return error ? "errno " + std::to_string(error.value()) : text.string();
}

std::string list(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator i(path, error), end; !error && i != end; i.increment(error)) {
    names.push_back(i->path().filename());
  }
  if (error) return "errno " + std::to_string(error.value());
  std::sort(names.begin(), names.end());
  return text::join(names, " ");
}

std::string mode_of(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return failed();
  std::ostringstream text;
  text << std::oct << (status.st_mode & 07777U);
  return text.str();
}

std::string owner_of(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return failed();
  return std::to_string(status.st_uid) + ":" + std::to_string(status.st_gid);
}

std::string device_of(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return failed();
  const char kind = S_ISCHR(status.st_mode)    ? 'c'
                    : S_ISBLK(status.st_mode)  ? 'b'
                    : S_ISFIFO(status.st_mode) ? 'p'
                                               : '-';
  return std::string(1, kind) + " " + std::to_string(major(status.st_rdev)) + ":" +
         std::to_string(minor(status.st_rdev));
}

}  // namespace agentrun::sandbox::testing
