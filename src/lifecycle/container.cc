// The half of the store that is inside one container's directory.
#include <cerrno>
#include <cstdio>

#include "lifecycle/deadline_index.h"
#include "lifecycle/liveness.h"
#include "lifecycle/record_json.h"
#include "lifecycle/store.h"
#include "lifecycle/store_names.h"
#include "oci/parse.h"
#include "oci/print.h"
#include "sys/file.h"

namespace agentrun::lifecycle {
namespace {

constexpr const char* kState = "state.json";
constexpr const char* kIntent = "intent.json";
constexpr const char* kExit = "exit.json";
constexpr const char* kConfig = "config.json";
constexpr const char* kReport = "report.json";
constexpr const char* kPolicy = "policy.json";

// Our own files hold what config.json held and a report of it: a few times its limit.
constexpr std::size_t kSizeLimit = 4 * oci::kConfigSizeLimit;
constexpr mode_t kMode = 0600;

}  // namespace

Result<Record> Container::record() const {
  const auto text = sys::read_file_at(directory_.get(), kState, kSizeLimit);
  if (!text) {
    if (text.error().code != ENOENT) return text.error();
    Error missing = refusal("container " + id_, "", "it is being created, or its create was killed");
    missing.code = ENOENT;
    return missing;
  }
  Record record = TRY(parse_record(*text, kState));
  // The directory's name is what every check of ids was made on.
  if (record.id != id_) return refusal("read", kState, "it is of another container: " + record.id);
  if (const auto note = TRY(exit_note())) {
    if (!note->reason.empty()) record.exit_reason = note->reason;
    record.kill_pending = note->kill_pending;
  }
  return record;
}

Result<void> Container::write_record(const Record& record) const {
  return sys::replace_file_at(directory_.get(), kState, print_record(record), kMode);
}

Result<Intent> Container::intent() const {
  const std::string text = TRY(sys::read_file_at(directory_.get(), kIntent, kSizeLimit));
  return parse_intent(text, kIntent);
}

Result<void> Container::write_intent(const Intent& intent) const {
  return sys::replace_file_at(directory_.get(), kIntent, print_intent(intent), kMode);
}

Result<std::optional<ExitNote>> Container::exit_note() const {
  const auto text = sys::read_file_at(directory_.get(), kExit, kSizeLimit);
  if (!text) {
    if (text.error().code == ENOENT) return std::optional<ExitNote>();
    return text.error();
  }
  return std::optional<ExitNote>(TRY(parse_exit_note(*text, kExit)));
}

Result<void> Container::write_exit_note(const ExitNote& note) const {
  return sys::replace_file_at(directory_.get(), kExit, print_exit_note(note), kMode);
}

Result<oci::Config> Container::config() const {
  const std::string text = TRY(sys::read_file_at(directory_.get(), kConfig, kSizeLimit));
  return oci::parse_config(text, kConfig);
}

Result<void> Container::write_config(const oci::Config& config) const {
  return sys::replace_file_at(directory_.get(), kConfig, oci::print_config(config, oci::Layout::compact), kMode);
}

Result<void> Container::write_report(const policy::Report& report) const {
  return sys::replace_file_at(directory_.get(), kReport, policy::print_report(report), kMode);
}

Result<void> Container::write_effective(const policy::Effective& effective, std::string_view policy_json) const {
  TRY(write_config(effective.config));
  TRY(write_report(effective.report));
  return sys::replace_file_at(directory_.get(), kPolicy, policy_json, kMode);
}

Result<policy::Report> Container::report() const {
  const std::string text = TRY(sys::read_file_at(directory_.get(), kReport, kSizeLimit));
  return policy::parse_report(text, kReport);
}

Result<std::string> Container::policy_json() const { return sys::read_file_at(directory_.get(), kPolicy, kSizeLimit); }

Result<oci::Status> Container::status(const Record& record) const {
  const UniqueFd process = TRY(sys::open_process(record.process));
  // A pidfd is readable once every thread has ended, reaped or not. The state letter in /proc/PID/stat is no measure:
  // it is Z for a program whose first thread has ended while others run on.
  if (!process || TRY(sys::wait_for_end(process.get(), 0))) return oci::Status::stopped;
  if (cgroup_is_there(record.cgroup) && TRY(sandbox::is_frozen(record.cgroup))) return oci::Status::paused;
  return record.started ? oci::Status::running : oci::Status::created;
}

Result<Container> Container::without_lock() const {
  Container copy;
  copy.id_ = id_;
  copy.root_ = TRY(sys::duplicate(root_.get()));
  copy.directory_ = TRY(sys::duplicate(directory_.get()));
  return copy;
}

Result<void> Container::remove() {
  const auto last = record();
  if (last) {
    Record unarmed = *last;
    unarmed.deadline.at_us = 0;
    unarmed.started = false;
    unindex_deadline(root_.get(), id_, last->deadline.at_us);
    unindex_deadline(root_.get(), id_, overdue_at(unarmed));
  } else {
    unindex_all(root_.get(), id_);
  }
  // The name goes first: nobody finds half of a container, and a create of the same id can begin at once.
  const std::string gone = std::string(kGonePrefix) + TRY(random_hex());
  if (renameat(root_.get(), id_.c_str(), root_.get(), gone.c_str()) != 0) return errno_error("remove container", id_);
  return sys::remove_tree_at(root_.get(), gone);
}

}  // namespace agentrun::lifecycle
