// The state store: <root>/<id>/, 0700, with
//   lock          flock(2) of whoever changes the container
//   intent.json   what create is about to make, before it makes the first of it
//   state.json    what is; written by rename
//   config.json   the effective configuration;  report.json  what the policy changed;  policy.json  the policy itself
//   start.sock    where the container's process waits for `start`;  supervisor.sock
// Every file carries a format version; the previous one is read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "oci/config.h"
#include "oci/state.h"
#include "policy/harden.h"
#include "sandbox/cgroup.h"
#include "sys/process.h"

namespace agentrun::lifecycle {

inline constexpr int kStateFormat = 1;

// `[A-Za-z0-9_+.-]+`, not starting with '.' or '-', at most 200 bytes.
Result<void> check_id(const std::string& id);

// --root, else $XDG_RUNTIME_DIR/agentrun for ordinary users, else /run/agentrun.
std::string default_root();

// Before the first thing is made: enough for `delete --force` to find all of it.
struct Intent {
  std::string id;
  sys::ProcessId creator;
  sandbox::CgroupLocation cgroup;
};

struct Deadline {
  std::int64_t at_us = 0;       // CLOCK_BOOTTIME; 0: not armed yet, or none
  std::int64_t length_us = 0;   // from start
  std::int64_t created_us = 0;  // from create to start, at most
  std::string boot_id;
};

struct Record {
  std::string id, bundle, rootfs, created, owner;  // created: RFC 3339
  oci::Annotations annotations;
  sys::ProcessId process;
  sys::ProcessId supervisor;  // pid 0: none
  sandbox::CgroupLocation cgroup;
  bool started = false;
  std::string policy, backend = "native";
  bool audit = false;  // the policy asks for audit records
  Deadline deadline;
  std::string exit_reason;  // "", "deadline", "killed", ...
  bool kill_pending = false;
  std::string console;  // terminal of the process: "/dev/pts/0"
};

// A container's directory, held by its lock or not.
class Container {
 public:
  const std::string& id() const { return id_; }
  int directory() const { return directory_.get(); }

  Result<Record> record() const;
  Result<void> write_record(const Record& record) const;
  Result<Intent> intent() const;
  Result<void> write_intent(const Intent& intent) const;
  Result<oci::Config> config() const;
  Result<void> write_effective(const policy::Effective& effective, std::string_view policy_json) const;
  Result<policy::Report> report() const;
  Result<std::string> policy_json() const;

  // The status as of now: the record, and whether its process still is (and is frozen).
  Result<oci::Status> status(const Record& record) const;

  // Removes the whole directory. The lock is held.
  Result<void> remove();

 private:
  friend class Store;
  std::string id_;
  UniqueFd root_, directory_, lock_;
};

class Store {
 public:
  // Makes the root (0700) where it is missing, and registers it for `sweep`. Refuses one that others can write to.
  static Result<Store> open(const std::string& root);

  const std::string& path() const { return path_; }
  int directory() const { return root_.get(); }

  // mkdir and lock. "container with id exists: X" where it does.
  Result<Container> create(const std::string& id) const;
  // Without a lock: state, list, ps. "container X does not exist".
  Result<Container> find(const std::string& id) const;
  // With the lock, waiting for it at most `timeout_us`.
  Result<Container> lock(const std::string& id, std::int64_t timeout_us = 60'000'000) const;
  Result<std::vector<std::string>> ids() const;
  Result<UniqueFd> seccomp_cache() const;  // <root>/.cache/seccomp

 private:
  std::string path_;
  UniqueFd root_;
};

}  // namespace agentrun::lifecycle
