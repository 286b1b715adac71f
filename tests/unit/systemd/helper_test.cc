// agentrun-systemd against a D-Bus of the test's own, on which the test plays systemd's manager.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "sandbox/systemd_protocol.h"

namespace agentrun::systemd {
namespace {

using sandbox::UnitReply;
using sandbox::UnitRequest;

constexpr const char* kPath = "/org/freedesktop/systemd1";

// What the manager of the test does; one a test, told by the unit's name.
struct FakeManager {
  sd_bus* bus = nullptr;
  bool exists = false;  // a unit of that name is there
  std::string state;    // its ActiveState
  std::string log;      // where calls are written
  int jobs = 0;

  void note(const std::string& line) const { std::ofstream(log, std::ios::app) << line << "\n"; }
};

// Every property as "NAME SIGNATURE" with the values of the simple ones.
std::string print_variant(sd_bus_message* message) {
  const char* signature = nullptr;
  char type = 0;
  sd_bus_message_peek_type(message, &type, &signature);
  const std::string contents = signature;
  sd_bus_message_enter_container(message, 'v', signature);
  std::string text = contents;
  const bool is_array = contents[0] == 'a';
  const std::string element = is_array ? contents.substr(1) : contents;
  if (is_array) sd_bus_message_enter_container(message, 'a', element.c_str());
  while (true) {
    const char* string = nullptr;
    std::uint64_t wide = 0;
    std::uint32_t word = 0;
    int flag = 0;
    int code = 0;
    if (element == "s") {
      if ((code = sd_bus_message_read(message, "s", &string)) > 0) text += std::string(" ") + string;
    } else if (element == "t") {
      if ((code = sd_bus_message_read(message, "t", &wide)) > 0) text += " " + std::to_string(wide);
    } else if (element == "u") {
      if ((code = sd_bus_message_read(message, "u", &word)) > 0) text += " " + std::to_string(word);
    } else if (element == "b") {
      if ((code = sd_bus_message_read(message, "b", &flag)) > 0) text += flag != 0 ? " true" : " false";
    } else if (element == "y") {
      std::uint8_t byte = 0;
      if ((code = sd_bus_message_read(message, "y", &byte)) > 0) text += " " + std::to_string(byte);
    } else {
      sd_bus_message_skip(message, element.c_str());
    }
    if (!is_array || code <= 0) break;
  }
  if (is_array) sd_bus_message_exit_container(message);
  sd_bus_message_exit_container(message);
  return text;
}

void note_properties(const FakeManager& manager, sd_bus_message* message) {
  sd_bus_message_enter_container(message, 'a', "(sv)");
  while (sd_bus_message_enter_container(message, 'r', "sv") > 0) {
    const char* name = nullptr;
    sd_bus_message_read(message, "s", &name);
    manager.note(std::string("  ") + name + " " + print_variant(message));
    sd_bus_message_exit_container(message);
  }
}

int finish_job(FakeManager& manager, sd_bus_message* call, const char* unit) {
  const std::string path = std::string(kPath) + "/job/" + std::to_string(++manager.jobs);
  const std::string_view name = unit;
  // Another's job first: it must not be taken for ours. And ours may end before its path has been told.
  sd_bus_emit_signal(manager.bus, kPath, "org.freedesktop.systemd1.Manager", "JobRemoved", "uoss", 999, "/other", unit,
                     "failed");
  if (name != "never.scope") {
    sd_bus_emit_signal(manager.bus, kPath, "org.freedesktop.systemd1.Manager", "JobRemoved", "uoss", manager.jobs,
                       path.c_str(), unit, name == "bad.scope" ? "failed" : "done");
  }
  return sd_bus_reply_method_return(call, "o", path.c_str());
}

int on_start(sd_bus_message* call, void* data, sd_bus_error* error) {
  auto& manager = *static_cast<FakeManager*>(data);
  const char* unit = nullptr;
  const char* mode = nullptr;
  sd_bus_message_read(call, "ss", &unit, &mode);
  manager.note(std::string("start ") + unit + " " + mode);
  note_properties(manager, call);
  if (manager.exists) return sd_bus_error_set(error, "org.freedesktop.systemd1.UnitExists", "Unit exists.");
  return finish_job(manager, call, unit);
}

int on_stop(sd_bus_message* call, void* data, sd_bus_error* error) {
  auto& manager = *static_cast<FakeManager*>(data);
  const char* unit = nullptr;
  sd_bus_message_read(call, "s", &unit);
  manager.note(std::string("stop ") + unit);
  if (std::string_view(unit) == "gone.scope") {
    return sd_bus_error_set(error, "org.freedesktop.systemd1.NoSuchUnit", "Unit gone.scope not loaded.");
  }
  return finish_job(manager, call, unit);
}

int on_set(sd_bus_message* call, void* data, sd_bus_error* error) {
  auto& manager = *static_cast<FakeManager*>(data);
  const char* unit = nullptr;
  int runtime = 0;
  sd_bus_message_read(call, "sb", &unit, &runtime);
  manager.note(std::string("set ") + unit + (runtime != 0 ? " runtime" : ""));
  note_properties(manager, call);
  if (std::string_view(unit) == "bad.scope") return sd_bus_error_set(error, SD_BUS_ERROR_ACCESS_DENIED, "Not you.");
  return sd_bus_reply_method_return(call, "");
}

int on_reset(sd_bus_message* call, void* data, sd_bus_error*) {
  auto& manager = *static_cast<FakeManager*>(data);
  const char* unit = nullptr;
  sd_bus_message_read(call, "s", &unit);
  manager.note(std::string("reset ") + unit);
  if (manager.state == "failed") manager.exists = false;
  return sd_bus_reply_method_return(call, "");
}

int on_state(sd_bus*, const char*, const char*, const char*, sd_bus_message* reply, void* data, sd_bus_error*) {
  return sd_bus_message_append(reply, "s", static_cast<FakeManager*>(data)->state.c_str());
}

int on_group(sd_bus*, const char*, const char*, const char*, sd_bus_message* reply, void*, sd_bus_error*) {
  return sd_bus_message_append(reply, "s", "/system.slice/a b.scope");
}

const sd_bus_vtable kManagerTable[] = {SD_BUS_VTABLE_START(0),
                                       SD_BUS_METHOD("StartTransientUnit", "ssa(sv)a(sa(sv))", "o", on_start, 0),
                                       SD_BUS_METHOD("StopUnit", "ss", "o", on_stop, 0),
                                       SD_BUS_METHOD("SetUnitProperties", "sba(sv)", "", on_set, 0),
                                       SD_BUS_METHOD("ResetFailedUnit", "s", "", on_reset, 0),
                                       SD_BUS_SIGNAL("JobRemoved", "uoss", 0),
                                       SD_BUS_VTABLE_END};
const sd_bus_vtable kUnitTable[] = {SD_BUS_VTABLE_START(0), SD_BUS_PROPERTY("ActiveState", "s", on_state, 0, 0),
                                    SD_BUS_VTABLE_END};
const sd_bus_vtable kScopeTable[] = {SD_BUS_VTABLE_START(0), SD_BUS_PROPERTY("ControlGroup", "s", on_group, 0, 0),
                                     SD_BUS_VTABLE_END};

int run_manager(FakeManager manager) {
  if (sd_bus_open_system(&manager.bus) < 0) return 1;
  sd_bus_add_object_vtable(manager.bus, nullptr, kPath, "org.freedesktop.systemd1.Manager", kManagerTable, &manager);
  sd_bus_add_fallback_vtable(manager.bus, nullptr, "/org/freedesktop/systemd1/unit", "org.freedesktop.systemd1.Unit",
                             kUnitTable, nullptr, &manager);
  sd_bus_add_fallback_vtable(manager.bus, nullptr, "/org/freedesktop/systemd1/unit", "org.freedesktop.systemd1.Scope",
                             kScopeTable, nullptr, &manager);
  if (sd_bus_request_name(manager.bus, "org.freedesktop.systemd1", 0) < 0) return 2;
  std::ofstream(manager.log) << "";
  while (true) {
    const int code = sd_bus_process(manager.bus, nullptr);
    if (code < 0) return 3;
    if (code == 0) sd_bus_wait(manager.bus, UINT64_MAX);
  }
}

class Helper : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access("./agentrun-systemd", X_OK) != 0) GTEST_SKIP() << "agentrun-systemd is not built";
    if (access("/usr/bin/dbus-daemon", X_OK) != 0) GTEST_SKIP() << "no dbus-daemon on this host";
    char place[] = "/tmp/agentrun-bus-XXXXXX";
    directory_ = mkdtemp(place);
    std::ofstream(directory_ + "/bus.conf")
        << "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\" "
           "\"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\"><busconfig><type>session</type><listen>"
        << "unix:path=" << directory_ << "/bus</listen><auth>EXTERNAL</auth><policy context=\"default\">"
        << "<allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/><allow own=\"*\"/></policy>"
        << "</busconfig>";
    daemon_ = fork();
    if (daemon_ == 0) {
      (void)!freopen("/dev/null", "w", stderr);  // it speaks of limits that it may not raise
      execl("/usr/bin/dbus-daemon", "dbus-daemon", ("--config-file=" + directory_ + "/bus.conf").c_str(), "--nofork",
            "--nopidfile", "--nosyslog", nullptr);
      _exit(127);
    }
    wait_for_file(directory_ + "/bus");
    setenv("DBUS_SYSTEM_BUS_ADDRESS", ("unix:path=" + directory_ + "/bus").c_str(), 1);
  }
  void TearDown() override {
    for (const pid_t pid : {manager_, daemon_}) {
      if (pid <= 0) continue;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    for (const char* name : {"/bus.conf", "/bus", "/log"}) unlink((directory_ + name).c_str());
    if (!directory_.empty()) rmdir(directory_.c_str());
  }
  static void wait_for_file(const std::string& path) {
    for (int i = 0; i < 2000 && access(path.c_str(), F_OK) != 0; ++i) poll(nullptr, 0, 5);
  }
  void play_systemd(bool exists = false, const std::string& state = "") {
    manager_ = fork();
    if (manager_ == 0) _exit(run_manager({nullptr, exists, state, directory_ + "/log", 0}));
    wait_for_file(directory_ + "/log");
  }
  UnitReply ask(const UnitRequest& request) const {
    std::ofstream(directory_ + "/request") << sandbox::print_request(request);
    FILE* answer = popen(("./agentrun-systemd system <" + directory_ + "/request").c_str(), "r");
    char line[4096] = "";
    if (fgets(line, sizeof line, answer) == nullptr) line[0] = 0;
    pclose(answer);
    unlink((directory_ + "/request").c_str());
    std::string text = line;
    if (!text.empty()) text.pop_back();
    const auto reply = sandbox::parse_reply(text);
    return reply ? *reply : UnitReply{false, "no reply: " + text};
  }
  std::string log() const {
    std::ifstream file(directory_ + "/log");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string directory_;
  pid_t daemon_ = 0, manager_ = 0;
};

UnitRequest start(const std::string& unit) {
  return {"start",
          unit,
          {{"Slice", "s", {"a.slice"}},
           {"PIDs", "au", {"1", "2"}},
           {"Delegate", "b", {"true"}},
           {"MemoryMax", "t", {"18446744073709551615"}},
           {"AllowedCPUs", "ay", {"3", "255"}},
           {"After", "as", {}}}};
}

TEST_F(Helper, StartsAScopeWithItsProperties) {
  play_systemd();
  const UnitReply reply = ask(start("x.scope"));
  EXPECT_TRUE(reply.ok) << reply.text;
  EXPECT_EQ(reply.text, "/system.slice/a b.scope");
  EXPECT_EQ(
      log(),
      "start x.scope fail\n  Slice s a.slice\n  PIDs au 1 2\n  Delegate b true\n  MemoryMax t 18446744073709551615\n"
      "  AllowedCPUs ay 3 255\n  After as\n");
}

TEST_F(Helper, SaysThatAJobFailed) {
  play_systemd();
  const UnitReply reply = ask(start("bad.scope"));
  EXPECT_FALSE(reply.ok);
  EXPECT_EQ(reply.text, "unit bad.scope: the job ended as \"failed\"");
  EXPECT_NE(log().find("reset bad.scope"), std::string::npos);
}

TEST_F(Helper, ResetsAFailedOneOfThatNameOnce) {
  play_systemd(true, "failed");
  const UnitReply reply = ask(start("x.scope"));
  EXPECT_TRUE(reply.ok) << reply.text;
  EXPECT_NE(log().find("reset x.scope\nstart x.scope"), std::string::npos) << log();
}

TEST_F(Helper, LeavesALiveOneAlone) {
  play_systemd(true, "active");
  const UnitReply reply = ask(start("x.scope"));
  EXPECT_FALSE(reply.ok);
  EXPECT_EQ(reply.text, "start unit x.scope: unit exists and is active");
  EXPECT_EQ(log().find("reset"), std::string::npos);
}

TEST_F(Helper, StopsAndChanges) {
  play_systemd();
  EXPECT_TRUE(ask({"stop", "x.scope", {}}).ok);
  EXPECT_TRUE(ask({"stop", "gone.scope", {}}).ok);
  EXPECT_FALSE(ask({"stop", "bad.scope", {}}).ok);
  EXPECT_TRUE(ask({"set", "x.scope", {{"TasksMax", "t", {"9"}}}}).ok);
  EXPECT_NE(log().find("set x.scope runtime\n  TasksMax t 9\n"), std::string::npos) << log();
  const UnitReply refused = ask({"set", "bad.scope", {{"TasksMax", "t", {"9"}}}});
  EXPECT_EQ(refused.text, "change unit bad.scope: Not you.");
  EXPECT_FALSE(ask({"set", "x.scope", {{"TasksMax", "t", {"many"}}}}).ok);
}

TEST_F(Helper, SaysThatThereIsNoSystemd) {
  EXPECT_FALSE(ask(start("x.scope")).ok);
  setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent", 1);
  EXPECT_EQ(ask(start("x.scope")).text, "connect to the system's D-Bus: No such file or directory");
}

}  // namespace
}  // namespace agentrun::systemd
