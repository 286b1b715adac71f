#include "fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/clock.h"
#include "sys/file.h"

namespace agentrun::lifecycle {
namespace {

// Once for the whole program. Empty: done.
std::string hide_run() {
  static const std::string failure = [] {
    if (unshare(CLONE_NEWNS) != 0) return std::string("unshare of the mount namespace");
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return std::string("private propagation");
    if (mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64m") != 0) return std::string("tmpfs");
    return std::string();
  }();
  return failure;
}

}  // namespace

Sleeper::Sleeper() {
  auto child = sys::clone_process(0);
  if (!child) std::abort();
  if (child->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    static_cast<void>(sys::close_all_but({}, 0));
    while (true) pause();
  }
  pidfd_ = std::move(child->pidfd);
  id_ = {child->pid, *sys::start_time(child->pid), *sys::boot_id()};
}

Sleeper::~Sleeper() {
  if (reaped_) return;
  static_cast<void>(sys::pidfd_send_signal(pidfd_.get(), SIGKILL));
  waitpid(id_.pid, nullptr, 0);
}

int Sleeper::wait(std::int64_t timeout_us) {
  const auto ended = sys::wait_for_end(pidfd_.get(), timeout_us);
  if (!ended || !*ended) return -1;
  int status = -1;
  waitpid(id_.pid, &status, 0);
  reaped_ = true;
  return status;
}

void LifecycleTest::SetUp() {
  if (geteuid() != 0) GTEST_SKIP() << "root is missing";
  const std::string failure = hide_run();
  if (!failure.empty()) GTEST_SKIP() << "no mount namespace of our own: " << failure;
  std::string pattern = "/run/lifecycle-XXXXXX";
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  scratch_ = pattern;
  root_ = scratch_ + "/state";
  global_.root = root_;
  setenv("AGENTRUN_AUDIT_LOG", (scratch_ + "/log/audit.jsonl").c_str(), 1);
}

void LifecycleTest::TearDown() {
  unsetenv("AGENTRUN_AUDIT_LOG");
  if (!scratch_.empty()) static_cast<void>(sys::remove_tree_at(AT_FDCWD, scratch_));
}

Store LifecycleTest::open_store() const {
  auto store = Store::open(root_);
  if (!store) ADD_FAILURE() << store.error().message();
  return std::move(*store);
}

Record LifecycleTest::record_of(const std::string& id, const sys::ProcessId& process) {
  Record record;
  record.id = id;
  record.bundle = "/bundle";
  record.created = clock::rfc3339_now();
  record.process = process;
  record.cgroup.manager = sandbox::CgroupManager::disabled;
  record.deadline.boot_id = process.boot_id;
  return record;
}

Container LifecycleTest::make_container(const std::string& id, const sys::ProcessId& process) const {
  auto container = open_store().create(id);
  if (!container) ADD_FAILURE() << container.error().message();
  EXPECT_TRUE(container->write_record(record_of(id, process)));
  container->unlock();
  return std::move(*container);
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_text(const std::string& path, const std::string& text, unsigned mode) {
  std::ofstream(path) << text;
  chmod(path.c_str(), mode);
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

std::vector<std::string> names_in(const std::string& path) {
  auto names = sys::list_directory(AT_FDCWD, path);
  return names ? std::move(*names) : std::vector<std::string>();
}

}  // namespace agentrun::lifecycle
