#include "oci/state.h"

#include <gtest/gtest.h>

namespace agentrun::oci {
namespace {

TEST(PrintState, ForAHook) {
  State state;
  state.id = "c1";
  state.status = Status::created;
  state.pid = 4422;
  state.bundle = "/b";
  state.annotations = {{"myKey", "my\nValue"}};
  EXPECT_EQ(print_state(state, Layout::compact),
            R"({"ociVersion":"1.3.0","id":"c1","pid":4422,"status":"created","bundle":"/b",)"
            R"("annotations":{"myKey":"my\nValue"}})");
}

TEST(PrintState, ForTheStateCommand) {
  State state;
  state.id = "c1";
  state.status = Status::running;
  state.pid = 7;
  state.bundle = "/b";
  state.rootfs = "/b/rootfs";
  state.created = "2026-01-02T03:04:05.678Z";
  state.owner = "root";
  EXPECT_EQ(print_state(state, Layout::indented), R"({
  "ociVersion": "1.3.0",
  "id": "c1",
  "pid": 7,
  "status": "running",
  "bundle": "/b",
  "rootfs": "/b/rootfs",
  "created": "2026-01-02T03:04:05.678Z",
  "owner": "root"
})");
}

TEST(PrintState, HasPidZeroOnlyWhenStopped) {
  State state;
  EXPECT_EQ(print_state(state, Layout::compact).find("\"pid\""), std::string::npos);
  state.status = Status::stopped;
  EXPECT_NE(print_state(state, Layout::compact).find("\"pid\":0"), std::string::npos);
}

TEST(PrintState, NamesEachStatus) {
  EXPECT_STREQ(name_of(Status::creating), "creating");
  EXPECT_STREQ(name_of(Status::created), "created");
  EXPECT_STREQ(name_of(Status::running), "running");
  EXPECT_STREQ(name_of(Status::paused), "paused");
  EXPECT_STREQ(name_of(Status::stopped), "stopped");
}

}  // namespace
}  // namespace agentrun::oci
