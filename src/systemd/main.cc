// agentrun-systemd: asks systemd over D-Bus for what agentrun needs (org.freedesktop.systemd1(5)). A program of its
// own, linked dynamically: libsystemd has no static library. It reads requests on stdin and answers on stdout
// (sandbox/systemd_protocol.h), decides nothing, and ends with its stdin.
#include <systemd/sd-bus.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

#include "base/clock.h"
#include "base/text.h"
#include "sandbox/systemd_protocol.h"

namespace agentrun::systemd {
namespace {

using sandbox::UnitProperty;
using sandbox::UnitReply;
using sandbox::UnitRequest;

constexpr const char* kService = "org.freedesktop.systemd1";
constexpr const char* kManagerPath = "/org/freedesktop/systemd1";
constexpr const char* kManager = "org.freedesktop.systemd1.Manager";
constexpr std::int64_t kJobTimeout = 30'000'000;

UnitReply failed(std::string text) { return {false, std::move(text)}; }

UnitReply failed(const char* what, int code) { return failed(std::string(what) + ": " + std::strerror(-code)); }

struct Message {
  sd_bus_message* get = nullptr;
  ~Message() { sd_bus_message_unref(get); }
};

struct BusError {
  sd_bus_error get = SD_BUS_ERROR_NULL;
  ~BusError() { sd_bus_error_free(&get); }
  bool is(const char* name) const { return sd_bus_error_has_name(&get, name) != 0; }
  std::string text(int code) const {
    if (get.message != nullptr) return get.message;
    return get.name != nullptr ? get.name : std::strerror(-code);
  }
};

// The end of one job, as JobRemoved tells it.
struct Job {
  std::string path;
  std::string result;  // empty: not yet
};

int on_job_removed(sd_bus_message* message, void* data, sd_bus_error*) {
  auto* job = static_cast<Job*>(data);
  std::uint32_t id = 0;
  const char* path = nullptr;
  const char* unit = nullptr;
  const char* result = nullptr;
  if (sd_bus_message_read(message, "uoss", &id, &path, &unit, &result) < 0) return 0;
  if (job->path == path) job->result = result;
  return 0;
}

// ---- properties

int append_number(sd_bus_message* message, char type, const std::string& value) {
  if (type == 't' || type == 'u' || type == 'y') {
    const auto number = text::parse_unsigned(value);
    if (!number) return -EINVAL;
    if (type == 't') return sd_bus_message_append(message, "t", *number);
    if (type == 'u') return sd_bus_message_append(message, "u", static_cast<std::uint32_t>(*number));
    return sd_bus_message_append(message, "y", static_cast<int>(*number));
  }
  const auto number = text::parse_signed(value);
  if (!number) return -EINVAL;
  if (type == 'x') return sd_bus_message_append(message, "x", *number);
  return sd_bus_message_append(message, "i", static_cast<std::int32_t>(*number));
}

int append_single(sd_bus_message* message, char type, const std::string& value) {
  if (type == 's') return sd_bus_message_append(message, "s", value.c_str());
  if (type == 'b') return sd_bus_message_append(message, "b", value == "true" ? 1 : 0);
  return append_number(message, type, value);
}

int append_array(sd_bus_message* message, const std::string& element, const std::vector<std::string>& values) {
  int code = sd_bus_message_open_container(message, 'a', element.c_str());
  for (std::size_t i = 0; code >= 0 && i < values.size(); ++i) {
    if (element == "(ss)") {
      code = sd_bus_message_append(message, "(ss)", values[i].c_str(), values[i + 1].c_str());
      ++i;
    } else {
      code = append_single(message, element[0], values[i]);
    }
  }
  return code < 0 ? code : sd_bus_message_close_container(message);
}

int append_property(sd_bus_message* message, const UnitProperty& property) {
  int code = sd_bus_message_open_container(message, 'r', "sv");
  if (code >= 0) code = sd_bus_message_append(message, "s", property.name.c_str());
  if (code >= 0) code = sd_bus_message_open_container(message, 'v', property.type.c_str());
  if (code >= 0) {
    code = property.type[0] == 'a' ? append_array(message, property.type.substr(1), property.values)
                                   : append_single(message, property.type[0], property.values[0]);
  }
  if (code >= 0) code = sd_bus_message_close_container(message);
  return code < 0 ? code : sd_bus_message_close_container(message);
}

int append_properties(sd_bus_message* message, const std::vector<UnitProperty>& properties) {
  int code = sd_bus_message_open_container(message, 'a', "(sv)");
  for (const UnitProperty& property : properties) {
    if (code >= 0) code = append_property(message, property);
  }
  return code < 0 ? code : sd_bus_message_close_container(message);
}

// ---- requests

class Manager {
 public:
  explicit Manager(sd_bus* bus) : bus_(bus) {}

  UnitReply serve(const UnitRequest& request) {
    if (request.verb == "start") return start(request, true);
    if (request.verb == "stop") return stop(request.unit);
    return set(request);
  }

 private:
  std::string unit_path(const std::string& unit) const {
    char* encoded = nullptr;
    if (sd_bus_path_encode("/org/freedesktop/systemd1/unit", unit.c_str(), &encoded) < 0) return {};
    std::string path = encoded;
    free(encoded);
    return path;
  }

  std::string read_property(const std::string& unit, const char* interface, const char* name) const {
    BusError error;
    char* value = nullptr;
    if (sd_bus_get_property_string(bus_, kService, unit_path(unit).c_str(), interface, name, &error.get, &value) < 0) {
      return {};
    }
    std::string result = value;
    free(value);
    return result;
  }

  // Of a unit that is over: its name is free again. No error is of interest: mostly there is no such unit.
  void reset_failed(const std::string& unit) {
    BusError error;
    sd_bus_call_method(bus_, kService, kManagerPath, kManager, "ResetFailedUnit", &error.get, nullptr, "s",
                       unit.c_str());
  }

  // Before the call that makes a job: its end may be told before its beginning has been read.
  int watch_jobs(Job& job, sd_bus_slot** slot) {
    return sd_bus_match_signal(bus_, slot, kService, kManagerPath, kManager, "JobRemoved", on_job_removed, &job);
  }

  UnitReply wait_for(const Job& job, const std::string& unit) {
    const std::int64_t until = clock::monotonic_us() + kJobTimeout;
    while (job.result.empty()) {
      const int code = sd_bus_process(bus_, nullptr);
      if (code < 0) return failed("read from D-Bus", code);
      if (code > 0) continue;
      const std::int64_t left = until - clock::monotonic_us();
      if (left <= 0) return failed("unit " + unit + ": systemd did not finish the job in 30 s");
      const int waited = sd_bus_wait(bus_, static_cast<std::uint64_t>(left));
      if (waited < 0 && waited != -EINTR) return failed("wait for D-Bus", waited);
    }
    if (job.result != "done") return failed("unit " + unit + ": the job ended as \"" + job.result + "\"");
    return {true, ""};
  }

  UnitReply start(const UnitRequest& request, bool may_reset) {
    Job job;
    sd_bus_slot* slot = nullptr;
    if (const int code = watch_jobs(job, &slot); code < 0) return failed("watch systemd's jobs", code);
    UnitReply reply = start_watched(request, may_reset, job);
    sd_bus_slot_unref(slot);
    return reply;
  }

  UnitReply start_watched(const UnitRequest& request, bool may_reset, Job& job) {
    Message call;
    int code = sd_bus_message_new_method_call(bus_, &call.get, kService, kManagerPath, kManager, "StartTransientUnit");
    if (code >= 0) code = sd_bus_message_append(call.get, "ss", request.unit.c_str(), "fail");
    if (code >= 0) code = append_properties(call.get, request.properties);
    if (code >= 0) code = sd_bus_message_append(call.get, "a(sa(sv))", 0);
    if (code < 0) return failed("build the request", code);
    BusError error;
    Message answer;
    code = sd_bus_call(bus_, call.get, 0, &error.get, &answer.get);
    if (code < 0) {
      if (!error.is("org.freedesktop.systemd1.UnitExists")) {
        return failed("start unit " + request.unit + ": " + error.text(code));
      }
      // What a container of that name left behind when it failed may go. A unit that is alive is another's.
      const std::string state = read_property(request.unit, "org.freedesktop.systemd1.Unit", "ActiveState");
      if (!may_reset || (state != "failed" && state != "inactive")) {
        return failed("start unit " + request.unit + ": unit exists and is " + (state.empty() ? "not known" : state));
      }
      reset_failed(request.unit);
      return start(request, false);
    }
    const char* path = nullptr;
    code = sd_bus_message_read(answer.get, "o", &path);
    if (code < 0) return failed("read the job's path", code);
    job.path = path;
    UnitReply reply = wait_for(job, request.unit);
    if (!reply.ok) {
      reset_failed(request.unit);
      return reply;
    }
    return {true, read_property(request.unit, "org.freedesktop.systemd1.Scope", "ControlGroup")};
  }

  UnitReply stop(const std::string& unit) {
    Job job;
    sd_bus_slot* slot = nullptr;
    if (const int code = watch_jobs(job, &slot); code < 0) return failed("watch systemd's jobs", code);
    UnitReply reply = stop_watched(unit, job);
    sd_bus_slot_unref(slot);
    reset_failed(unit);
    return reply;
  }

  UnitReply stop_watched(const std::string& unit, Job& job) {
    BusError error;
    Message answer;
    const int code = sd_bus_call_method(bus_, kService, kManagerPath, kManager, "StopUnit", &error.get, &answer.get,
                                        "ss", unit.c_str(), "replace");
    // It went when its last process did.
    if (code < 0 && error.is("org.freedesktop.systemd1.NoSuchUnit")) return {true, ""};
    if (code < 0) return failed("stop unit " + unit + ": " + error.text(code));
    const char* path = nullptr;
    if (sd_bus_message_read(answer.get, "o", &path) < 0) return failed("read the job's path", -EBADMSG);
    job.path = path;
    return wait_for(job, unit);
  }

  UnitReply set(const UnitRequest& request) {
    Message call;
    int code = sd_bus_message_new_method_call(bus_, &call.get, kService, kManagerPath, kManager, "SetUnitProperties");
    if (code >= 0) code = sd_bus_message_append(call.get, "sb", request.unit.c_str(), 1);  // until the next boot
    if (code >= 0) code = append_properties(call.get, request.properties);
    if (code < 0) return failed("build the request", code);
    BusError error;
    Message answer;
    code = sd_bus_call(bus_, call.get, 0, &error.get, &answer.get);
    if (code < 0) return failed("change unit " + request.unit + ": " + error.text(code));
    return {true, ""};
  }

  sd_bus* bus_;
};

void answer(const UnitReply& reply) {
  const std::string line = sandbox::print_reply(reply);
  std::cout << line << std::flush;
}

int serve(bool user) {
  sd_bus* bus = nullptr;
  const int connected = user ? sd_bus_open_user(&bus) : sd_bus_open_system(&bus);
  UnitRequest request;
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto whole = sandbox::parse_request_line(line, request);
    if (!whole) {
      answer(failed(whole.error().message()));
      return 1;
    }
    if (!*whole) continue;
    answer(connected < 0 ? failed(user ? "connect to the user's D-Bus" : "connect to the system's D-Bus", connected)
                         : Manager(bus).serve(request));
    request = {};
  }
  sd_bus_flush_close_unref(bus);
  return 0;
}

}  // namespace
}  // namespace agentrun::systemd

int main(int argc, char** argv) {
  const std::string which = argc == 2 ? argv[1] : "";
  if (which != "system" && which != "user") {
    std::fputs("usage: agentrun-systemd system|user (agentrun runs it)\n", stderr);
    return 2;
  }
  return agentrun::systemd::serve(which == "user");
}
