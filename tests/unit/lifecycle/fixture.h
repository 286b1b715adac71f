// What the tests of the lifecycle share: a state root on a tmpfs of their own, processes to end, hosts' places hidden.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lifecycle/options.h"
#include "lifecycle/store.h"
#include "sys/process.h"

namespace agentrun::lifecycle {

// A child that sleeps until it is killed. Reaped at the latest by the destructor.
class Sleeper {
 public:
  Sleeper();
  ~Sleeper();
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  sys::ProcessId id() const { return id_; }
  int pidfd() const { return pidfd_.get(); }
  // Waits for its end, at most `timeout_us`, and reaps it. The status as of waitpid, -1 where it lives on.
  int wait(std::int64_t timeout_us);

 private:
  sys::ProcessId id_;
  UniqueFd pidfd_;
  bool reaped_ = false;
};

// Root only, since it hides /run below a tmpfs in a mount namespace of the test program's own: the index of roots is
// there.
class LifecycleTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  Store open_store() const;
  // A record of a container whose process is `process`, without a cgroup.
  static Record record_of(const std::string& id, const sys::ProcessId& process);
  // A stored container; its lock is given back.
  Container make_container(const std::string& id, const sys::ProcessId& process) const;

  std::string scratch_;  // a directory on the tmpfs, removed after the test
  std::string root_;     // scratch_/state, not made yet
  Global global_;
};

std::string read_text(const std::string& path);
void write_text(const std::string& path, const std::string& text, unsigned mode = 0644);
bool exists(const std::string& path);
std::vector<std::string> names_in(const std::string& path);

}  // namespace agentrun::lifecycle
