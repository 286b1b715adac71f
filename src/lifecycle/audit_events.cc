#include "lifecycle/audit_events.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include <algorithm>
#include <string_view>

namespace agentrun::lifecycle {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostArguments = 64;
constexpr std::size_t kLongestArgument = 1024;  // bytes; a record is one write, so it has a bound

// {"a":1} without its braces.
std::string members(const json::object& object) {
  std::string text = json::serialize(object);
  return text.substr(1, text.size() - 2);
}

json::array arguments_of(const oci::Process& process) {
  json::array list;
  for (const std::string& argument : process.args) {
    if (list.size() == kMostArguments) {
      list.emplace_back("...");
      break;
    }
    list.emplace_back(std::string_view(argument).substr(0, kLongestArgument));
  }
  return list;
}

json::array environment_names(const oci::Process& process) {
  json::array names;
  for (const std::string& entry : process.env) {
    names.emplace_back(std::string_view(entry).substr(0, std::min(entry.find('='), kLongestArgument)));
  }
  return names;
}

void add_process(json::object& object, const oci::Process& process) {
  object["args"] = arguments_of(process);
  object["env_names"] = environment_names(process);
  object["cwd"] = process.cwd;
  object["uid"] = process.user.uid;
  object["gid"] = process.user.gid;
}

}  // namespace

std::string create_fields(const Record& record, const policy::Effective& effective) {
  json::object object;
  object["policy"] = record.policy;
  object["backend"] = record.backend;
  object["bundle"] = record.bundle;
  object["rootfs"] = record.rootfs;
  object["pid"] = record.process.pid;
  if (effective.config.process) add_process(object, *effective.config.process);
  object["changes"] = effective.report.changes.size();
  if (record.deadline.length_us > 0) object["deadline_us"] = record.deadline.length_us;
  return members(object);
}

std::string start_fields(const Record& record) {
  json::object object;
  object["pid"] = record.process.pid;
  object["policy"] = record.policy;
  if (record.deadline.at_us > 0) object["deadline_boottime_us"] = record.deadline.at_us;
  return members(object);
}

std::string exec_fields(const Record& record, const oci::Process& process, pid_t pid) {
  json::object object;
  object["policy"] = record.policy;
  object["pid"] = pid;
  add_process(object, process);
  return members(object);
}

std::string denial_fields(const std::string& policy, const std::string& bundle, const Error& error) {
  json::object object;
  object["policy"] = policy;
  object["bundle"] = bundle;
  object["reason"] = error.message();
  return members(object);
}

}  // namespace agentrun::lifecycle
