#include "lifecycle/record_json.h"

#include <boost/json.hpp>

#include <array>
#include <limits>
#include <utility>

namespace agentrun::lifecycle {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostDepth = 8;

// Reads typed fields of one object. A field that is not there leaves the default: an older release did not write it.
class Fields {
 public:
  Fields(const json::object& object, std::string name, std::string pointer)
      : object_(object), name_(std::move(name)), pointer_(std::move(pointer)) {}

  Result<void> read(const char* key, std::string& into) const {
    const json::value* value = object_.if_contains(key);
    if (value == nullptr) return ok();
    if (!value->is_string()) return wrong(key, "expected a string");
    into.assign(value->get_string().data(), value->get_string().size());
    if (into.find('\0') != std::string::npos) return wrong(key, "NUL in a string");
    return ok();
  }

  Result<void> read(const char* key, bool& into) const {
    const json::value* value = object_.if_contains(key);
    if (value == nullptr) return ok();
    if (!value->is_bool()) return wrong(key, "expected true or false");
    into = value->get_bool();
    return ok();
  }

  Result<void> read(const char* key, std::int64_t& into) const {
    const json::value* value = object_.if_contains(key);
    if (value == nullptr) return ok();
    if (!value->is_int64()) return wrong(key, "expected an integer");
    into = value->get_int64();
    return ok();
  }

  Result<void> read(const char* key, std::uint64_t& into) const {
    const json::value* value = object_.if_contains(key);
    if (value == nullptr) return ok();
    if (value->is_uint64()) {
      into = value->get_uint64();
    } else if (value->is_int64() && value->get_int64() >= 0) {
      into = static_cast<std::uint64_t>(value->get_int64());
    } else {
      return wrong(key, "expected an integer that is not negative");
    }
    return ok();
  }

  Result<void> read(const char* key, std::map<std::string, std::string>& into) const {
    const json::value* value = object_.if_contains(key);
    if (value == nullptr) return ok();
    if (!value->is_object()) return wrong(key, "expected an object");
    for (const auto& [name, text] : value->get_object()) {
      if (!text.is_string()) return wrong(key, "expected strings in it");
      into[std::string(name)] = std::string(text.get_string());
    }
    return ok();
  }

  Result<void> read(const char* key, std::vector<std::string>& into) const {
    const json::value* value = object_.if_contains(key);
    if (value == nullptr) return ok();
    if (!value->is_array()) return wrong(key, "expected an array");
    for (const json::value& text : value->get_array()) {
      if (!text.is_string()) return wrong(key, "expected strings in it");
      into.emplace_back(text.get_string());
    }
    return ok();
  }

  // The object below `key`; `required`: it has to be there. An empty one where it is not.
  Result<Fields> object(const char* key, bool required) const {
    static const json::object kNone;
    const json::value* value = object_.if_contains(key);
    if (value == nullptr) {
      if (required) return wrong(key, "missing");
      return Fields(kNone, name_, pointer_ + "/" + key);
    }
    if (!value->is_object()) return wrong(key, "expected an object");
    return Fields(value->get_object(), name_, pointer_ + "/" + key);
  }

  // null counts as absent.
  bool has(const char* key) const {
    const json::value* value = object_.if_contains(key);
    return value != nullptr && !value->is_null();
  }

  Result<void> require(const char* key) const {
    if (!object_.contains(key)) return wrong(key, "missing");
    return ok();
  }

  Error wrong(const char* key, std::string reason) const {
    return refusal("read " + name_, pointer_ + "/" + key, std::move(reason));
  }

 private:
  const json::object& object_;
  std::string name_, pointer_;
};

// Parses and checks the format; `document` keeps what Fields refers to.
Result<Fields> open_document(std::string_view text, std::string_view name, json::value& document) {
  json::parse_options options;
  options.max_depth = kMostDepth;
  options.allow_invalid_utf8 = true;  // a path of a bundle is bytes, not text
  boost::system::error_code failure;
  document = json::parse(json::string_view(text.data(), text.size()), failure, {}, options);
  if (failure) return refusal("read", std::string(name), "not JSON: " + failure.message());
  if (!document.is_object()) return refusal("read", std::string(name), "expected an object");
  const Fields fields(document.get_object(), std::string(name), "");
  std::int64_t format = 0;
  TRY(fields.require("format"));
  TRY(fields.read("format", format));
  if (format < 1) return fields.wrong("format", "not a format");
  if (format > kStateFormat) {
    return refusal("read", std::string(name),
                   "format " + std::to_string(format) + " is newer than this agentrun's (" +
                       std::to_string(kStateFormat) + "): use the release that made the container");
  }
  return fields;
}

json::object process_object(const sys::ProcessId& process) {
  return {{"pid", process.pid}, {"start_time", process.start_time}, {"boot_id", process.boot_id}};
}

Result<sys::ProcessId> read_process(const Fields& fields) {
  sys::ProcessId process;
  std::int64_t pid = 0;
  TRY(fields.read("pid", pid));
  // A pid of -1 or 0 handed to kill(2) would mean everybody, or our own group.
  if (pid < 0 || pid > std::numeric_limits<pid_t>::max()) return fields.wrong("pid", "not a pid");
  process.pid = static_cast<pid_t>(pid);
  TRY(fields.read("start_time", process.start_time));
  TRY(fields.read("boot_id", process.boot_id));
  return process;
}

const char* name_of(sandbox::CgroupManager manager) {
  switch (manager) {
    case sandbox::CgroupManager::systemd:
      return "systemd";
    case sandbox::CgroupManager::disabled:
      return "disabled";
    case sandbox::CgroupManager::cgroupfs:
      break;
  }
  return "cgroupfs";
}

json::object cgroup_object(const sandbox::CgroupLocation& location) {
  json::object v1;
  for (const auto& [controllers, path] : location.v1) v1[controllers] = path;
  json::array parents;
  for (const std::string& parent : location.parents) parents.emplace_back(parent);
  return {{"manager", name_of(location.manager)},
          {"v2", location.v2},
          {"v1", std::move(v1)},
          {"parents", std::move(parents)},
          {"unit", location.unit},
          {"slice", location.slice},
          {"inode", location.inode}};
}

Result<sandbox::CgroupLocation> read_cgroup(const Fields& fields) {
  sandbox::CgroupLocation location;
  std::string manager = "cgroupfs";
  TRY(fields.read("manager", manager));
  if (manager == "systemd") {
    location.manager = sandbox::CgroupManager::systemd;
  } else if (manager == "disabled") {
    location.manager = sandbox::CgroupManager::disabled;
  } else if (manager != "cgroupfs") {
    return fields.wrong("manager", "unknown: " + manager);
  }
  TRY(fields.read("v2", location.v2));
  TRY(fields.read("v1", location.v1));
  TRY(fields.read("parents", location.parents));
  TRY(fields.read("unit", location.unit));
  TRY(fields.read("slice", location.slice));
  TRY(fields.read("inode", location.inode));
  return location;
}

json::value ids_value(const std::optional<policy::PrivateIds>& ids) {
  if (!ids) return nullptr;
  return json::object{{"uid", ids->uid}, {"gid", ids->gid}, {"size", ids->size}};
}

Result<std::optional<policy::PrivateIds>> read_ids(const Fields& fields) {
  std::optional<policy::PrivateIds> ids;
  if (!fields.has("private_ids")) return ids;
  const Fields object = TRY(fields.object("private_ids", true));
  std::array<std::uint64_t, 3> numbers{};
  constexpr std::array<const char*, 3> kKeys = {"uid", "gid", "size"};
  for (std::size_t i = 0; i < kKeys.size(); ++i) {
    TRY(object.read(kKeys[i], numbers[i]));
    if (numbers[i] == 0 || numbers[i] > std::numeric_limits<std::uint32_t>::max()) {
      return object.wrong(kKeys[i], "not an id");
    }
  }
  ids = policy::PrivateIds{static_cast<std::uint32_t>(numbers[0]), static_cast<std::uint32_t>(numbers[1]),
                           static_cast<std::uint32_t>(numbers[2])};
  return ids;
}

Result<void> require_id(const Fields& fields, std::string& id) {
  TRY(fields.require("id"));
  TRY(fields.read("id", id));
  return check_id(id);
}

}  // namespace

std::string print_record(const Record& record) {
  json::object annotations;
  for (const auto& [name, value] : record.annotations) annotations[name] = value;
  const json::object object = {{"format", kStateFormat},
                               {"id", record.id},
                               {"bundle", record.bundle},
                               {"rootfs", record.rootfs},
                               {"created", record.created},
                               {"owner", record.owner},
                               {"annotations", std::move(annotations)},
                               {"process", process_object(record.process)},
                               {"supervisor", process_object(record.supervisor)},
                               {"cgroup", cgroup_object(record.cgroup)},
                               {"started", record.started},
                               {"policy", record.policy},
                               {"backend", record.backend},
                               {"deadline",
                                {{"at_us", record.deadline.at_us},
                                 {"length_us", record.deadline.length_us},
                                 {"created_us", record.deadline.created_us},
                                 {"boot_id", record.deadline.boot_id}}},
                               {"exit_reason", record.exit_reason},
                               {"kill_pending", record.kill_pending},
                               {"console", record.console},
                               {"audit", record.audit},
                               {"private_ids", ids_value(record.private_ids)}};
  return json::serialize(object);
}

Result<Record> parse_record(std::string_view text, std::string_view name) {
  json::value document;
  const Fields fields = TRY(open_document(text, name, document));
  Record record;
  TRY(require_id(fields, record.id));
  TRY(fields.read("bundle", record.bundle));
  TRY(fields.read("rootfs", record.rootfs));
  TRY(fields.read("created", record.created));
  TRY(fields.read("owner", record.owner));
  TRY(fields.read("annotations", record.annotations));
  const Fields process = TRY(fields.object("process", true));
  record.process = TRY(read_process(process));
  const Fields supervisor = TRY(fields.object("supervisor", false));
  record.supervisor = TRY(read_process(supervisor));
  const Fields cgroup = TRY(fields.object("cgroup", true));
  record.cgroup = TRY(read_cgroup(cgroup));
  TRY(fields.read("started", record.started));
  TRY(fields.read("policy", record.policy));
  TRY(fields.read("backend", record.backend));
  const Fields deadline = TRY(fields.object("deadline", false));
  TRY(deadline.read("at_us", record.deadline.at_us));
  TRY(deadline.read("length_us", record.deadline.length_us));
  TRY(deadline.read("created_us", record.deadline.created_us));
  TRY(deadline.read("boot_id", record.deadline.boot_id));
  TRY(fields.read("exit_reason", record.exit_reason));
  TRY(fields.read("kill_pending", record.kill_pending));
  TRY(fields.read("console", record.console));
  TRY(fields.read("audit", record.audit));
  record.private_ids = TRY(read_ids(fields));
  return record;
}

std::string print_intent(const Intent& intent) {
  return json::serialize(json::object{{"format", kStateFormat},
                                      {"id", intent.id},
                                      {"creator", process_object(intent.creator)},
                                      {"cgroup", cgroup_object(intent.cgroup)},
                                      {"private_ids", ids_value(intent.private_ids)}});
}

Result<Intent> parse_intent(std::string_view text, std::string_view name) {
  json::value document;
  const Fields fields = TRY(open_document(text, name, document));
  Intent intent;
  TRY(require_id(fields, intent.id));
  const Fields creator = TRY(fields.object("creator", true));
  intent.creator = TRY(read_process(creator));
  const Fields cgroup = TRY(fields.object("cgroup", true));
  intent.cgroup = TRY(read_cgroup(cgroup));
  intent.private_ids = TRY(read_ids(fields));
  return intent;
}

std::string print_exit_note(const ExitNote& note) {
  json::object object = {{"format", kStateFormat}, {"reason", note.reason}, {"kill_pending", note.kill_pending}};
  if (note.status) object["status"] = *note.status;
  return json::serialize(object);
}

Result<ExitNote> parse_exit_note(std::string_view text, std::string_view name) {
  json::value document;
  const Fields fields = TRY(open_document(text, name, document));
  ExitNote note;
  TRY(fields.read("reason", note.reason));
  TRY(fields.read("kill_pending", note.kill_pending));
  std::int64_t status = -1;
  TRY(fields.read("status", status));
  if (status >= 0 && status <= 0xffff) note.status = static_cast<int>(status);
  return note;
}

}  // namespace agentrun::lifecycle
