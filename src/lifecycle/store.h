// The state store: <root>/<id>/, 0700, with
//   lock          flock(2) of whoever changes the container
//   intent.json   what create is about to make, before it makes the first of it
//   state.json    what is; written by rename
//   exit.json     why it ended, by whoever ended it; read as a part of state.json
//   config.json   the effective configuration;  report.json  what the policy changed;  policy.json  the policy itself
//   start.sock    where the container's process waits for `start`;  supervisor.sock
// intent.json, state.json and exit.json carry a format version that stands for the whole directory; the previous one is
// read, a newer one is refused. Beside the containers, names that no id can have:
//   .new-PID-HEX  a directory that create is filling: it appears as <id> by rename, locked, or not at all
//   .gone-HEX     a directory that delete is removing: it goes by rename before the first of its files does
//   .deadlines/   an empty file AT-ID a deadline, AT in CLOCK_BOOTTIME microseconds: what `sweep` looks through
//   .reports/     the last reports of deleted containers;  .cache/
//   .ranges/      in the default root alone: private_ids.h
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
  std::optional<policy::PrivateIds> private_ids;  // reserved for it: given back by delete
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
  std::optional<policy::PrivateIds> private_ids;
};

// exit.json. In a file of its own, so that whoever ends the container needs no lock and cannot undo what another writes
// to state.json.
struct ExitNote {
  std::string reason;         // "deadline", "never started", "killed", "oom", "exited", "signalled", "unknown"
  bool kill_pending = false;  // killed, but a process does not end (uninterruptible sleep)
  std::optional<int> status;  // as of waitpid, where it is known
};

// A container's directory, held by its lock or not.
class Container {
 public:
  const std::string& id() const { return id_; }
  int directory() const { return directory_.get(); }
  int root() const { return root_.get(); }

  // With what exit.json says. Error code ENOENT: there is none (yet): create is under way, or was killed.
  Result<Record> record() const;
  Result<void> write_record(const Record& record) const;
  Result<Intent> intent() const;
  Result<void> write_intent(const Intent& intent) const;
  Result<std::optional<ExitNote>> exit_note() const;
  Result<void> write_exit_note(const ExitNote& note) const;
  Result<oci::Config> config() const;
  Result<void> write_config(const oci::Config& config) const;
  Result<void> write_report(const policy::Report& report) const;
  Result<void> write_effective(const policy::Effective& effective, std::string_view policy_json) const;
  Result<policy::Report> report() const;
  Result<std::string> policy_json() const;

  // The status as of now: the record, and whether its process still is (and is frozen).
  Result<oci::Status> status(const Record& record) const;

  // Gives the lock back; the directory stays open.
  void unlock() { lock_.reset(); }

  // The same directory without the lock, for whoever lives on when the lock is given back.
  Result<Container> without_lock() const;

  // Removes the whole directory, and its deadlines from the index. The lock is held.
  Result<void> remove();

 private:
  friend class Store;
  std::string id_;
  UniqueFd root_, directory_, lock_;
};

class Store {
 public:
  // Makes the root (0700) and the directories above it (0755) where they are missing, and registers it for `sweep`.
  // Refuses one that another owns or that others can write to.
  static Result<Store> open(const std::string& root);

  // Every root that an `open` of this user has registered and that still is there, the default one first. A root other
  // than the default has a file in <default root>/.roots/, named by the hash of its path and holding the path. In a
  // user namespace and for ordinary users registering is best effort: their default root may not be theirs to make.
  static Result<std::vector<std::string>> roots();

  const std::string& path() const { return path_; }
  int directory() const { return root_.get(); }

  // A new directory, locked from its first moment on. "container with id exists: X" where there is one: of two at the
  // same moment exactly one wins. On an error (a full disk) nothing is left.
  //
  // The lock is an flock(2), so a forked child has it too until it closes the fd: the container's process must close
  // every fd that is not its own (sys::close_all_but) before it waits for `start`.
  Result<Container> create(const std::string& id) const;
  // Without a lock: state, list, ps. "container X does not exist".
  Result<Container> find(const std::string& id) const;
  // With the lock, waiting for it at most `timeout_us`.
  Result<Container> lock(const std::string& id, std::int64_t timeout_us = 60'000'000) const;
  // The same, with none where there is no such container.
  Result<std::optional<Container>> look_up(const std::string& id) const;
  Result<std::optional<Container>> lock_if_there(const std::string& id, std::int64_t timeout_us = 60'000'000) const;
  Result<std::vector<std::string>> ids() const;
  Result<UniqueFd> seccomp_cache() const;  // <root>/.cache/seccomp

 private:
  std::string path_;
  UniqueFd root_;
};

}  // namespace agentrun::lifecycle
