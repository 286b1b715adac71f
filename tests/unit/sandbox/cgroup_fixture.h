// What the tests on real hierarchies share: processes that live until the test ends, a body that runs in a mount
// namespace of its own, and skips that say what is missing. Everything is below cgroups named after this process.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/text.h"
#include "sandbox/cgroup.h"
#include "sandbox/cgroup_layout.h"
#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::sandbox::testing_ {

template <typename T>
std::string why(const Result<T>& result) {
  return result ? "it succeeded" : result.error().message();
}

inline std::string test_root() { return "/agentrun-test-cgroup-" + std::to_string(getpid()); }

inline std::string content(const std::string& path) {
  const auto text = sys::read_file(path);
  return text ? std::string(text::trim(*text)) : "(" + text.error().message() + ")";
}

// A child of ours that waits to be killed, or runs `body`.
class Child {
 public:
  explicit Child(const std::function<int()>& body = {}) {
    pid_ = fork();
    if (pid_ != 0) return;
    if (body) _exit(body());
    while (true) pause();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (!reaped_) kill(pid_, SIGKILL);
    wait();
  }
  pid_t pid() const { return pid_; }
  int wait() {
    if (!reaped_) waitpid(pid_, &status_, 0);
    reaped_ = true;
    return status_;
  }

 private:
  pid_t pid_;
  int status_ = 0;
  bool reaped_ = false;
};

// Holds children back until they are where they belong.
class Gate {
 public:
  Gate() { EXPECT_EQ(pipe(ends_), 0); }
  ~Gate() {
    close(ends_[0]);
    close(ends_[1]);
  }
  void pass() const {  // in the child
    char byte = 0;
    (void)!read(ends_[0], &byte, 1);
  }
  void open() const { (void)!write(ends_[1], "x", 1); }

 private:
  int ends_[2] = {-1, -1};
};

struct Made {
  CgroupRequest request;
  CgroupLocation location;
  ~Made() {
    if (location.v2.empty() && location.v1.empty()) return;
    (void)kill_cgroup(location, 5'000'000);
    (void)remove_cgroup(location);
  }
};

inline CgroupRequest request_for(const std::string& name) {
  CgroupRequest request;
  request.id = name;
  request.cgroups_path = test_root() + "/" + name;
  return request;
}

// Plans and makes; the expectation fails with the error's text.
inline bool make(Made& made, const std::string& name, const oci::Resources* resources = nullptr) {
  made.request = request_for(name);
  auto planned = plan_cgroup(made.request);
  EXPECT_TRUE(planned) << why(planned);
  if (!planned) return false;
  made.location = std::move(*planned);
  const auto created = create_cgroup(made.location, made.request, resources);
  EXPECT_TRUE(created) << why(created);
  return created.has_value();
}

// Runs `body`, with its expectations, in a child with its own mount namespace that `prepare` has changed.
inline void in_mount_namespace(const std::function<bool()>& prepare, const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) _exit(98);
    if (!prepare()) _exit(99);
    body();
    std::fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 98) GTEST_SKIP() << "no mount namespace can be made here";
  if (WEXITSTATUS(status) == 99) GTEST_SKIP() << "the hierarchies of this host cannot be arranged for it";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "see the failures above";
}

inline bool is_root() { return sys::is_host_root(); }

}  // namespace agentrun::sandbox::testing_
