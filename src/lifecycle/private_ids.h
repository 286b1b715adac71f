// Ranges of ids that one container has for itself (policy user.userns "auto"), from the lines `agentrun` in /etc/subuid
// and /etc/subgid. A reservation is a symlink in <default root>/.ranges/, for containers of all state roots alike:
//   UID-GID-SIZE -> "1 PID START_TIME BOOT_ID ID ROOT"     format, creator, container, its state root
// It is made whole or not at all, before the container's intent names the range. While the creator lives, or the
// container's record or intent names the range, or any process of the host has an id of it, nobody else gets it. What a
// killed command left is taken back when the ranges run out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lifecycle/store.h"
#include "policy/harden.h"
#include "sandbox/rootless.h"

namespace agentrun::lifecycle {

// Pure. A range that meets none of `taken`, or nothing where there is none. Ids below 65536 are the host's own and
// never part of one.
std::optional<policy::PrivateIds> choose_private_ids(const std::vector<sandbox::IdRange>& uids,
                                                     const std::vector<sandbox::IdRange>& gids,
                                                     const std::vector<policy::PrivateIds>& taken);

// Pure. The line that would give ids to agentrun without meeting any other line: "agentrun:1073741824:16777216".
std::string line_to_add(std::string_view subuid, std::string_view subgid);

// Another name of /etc/subuid or /etc/subgid, as `text`, whose ids meet those of agentrun; empty: nobody. By
// newuidmap(1) that user could signal the container's processes and own its files.
std::string shared_with(std::string_view text);

// What a container could get; nothing is reserved. For `policy explain`.
Result<policy::PrivateIds> possible_private_ids();

// A range for the container `id` of `store`. Errors: no line for agentrun (with the line to add), none is free.
Result<policy::PrivateIds> reserve_private_ids(const Store& store, const std::string& id);

// After the last process of the container is gone. What is another's by now stays; that it was released already is
// success.
Result<void> release_private_ids(const policy::PrivateIds& ids, const std::string& root, const std::string& id);

// Gives a range back unless it is kept.
class Reservation {
 public:
  Reservation(policy::PrivateIds ids, std::string root, std::string id)
      : ids_(ids), root_(std::move(root)), id_(std::move(id)) {}
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  Reservation(Reservation&& other) noexcept
      : ids_(other.ids_), root_(std::move(other.root_)), id_(std::move(other.id_)), held_(other.held_) {
    other.held_ = false;
  }
  Reservation& operator=(Reservation&&) = delete;
  ~Reservation();
  const policy::PrivateIds& ids() const { return ids_; }
  void keep() { held_ = false; }

 private:
  policy::PrivateIds ids_;
  std::string root_, id_;
  bool held_ = true;
};

// Pipes and sockets of root among the standard streams, which the container's user could not open again by
// /dev/stdout: they become his.
Result<void> give_streams(const policy::PrivateIds& ids, const oci::User& user);

}  // namespace agentrun::lifecycle
