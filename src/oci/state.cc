#include "oci/state.h"

#include "oci/json_writer.h"

namespace agentrun::oci {

const char* name_of(Status status) {
  switch (status) {
    case Status::creating:
      return "creating";
    case Status::created:
      return "created";
    case Status::running:
      return "running";
    case Status::paused:
      return "paused";
    case Status::stopped:
      return "stopped";
  }
  return "";
}

static void to_json(JsonWriter& out, const State& state) {
  out.begin_object();
  out.member("ociVersion", kVersion);
  out.member("id", state.id);
  // runc and crun print the 0 of a stopped container, and there are callers that ask for the key.
  if (state.pid != 0 || state.status == Status::stopped) out.member("pid", state.pid);
  out.member("status", name_of(state.status));
  out.member("bundle", state.bundle);
  out.member_if_set("rootfs", state.rootfs);
  out.member_if_set("created", state.created);
  out.member_if_set("annotations", state.annotations);
  out.member_if_set("owner", state.owner);
  out.end_object();
}

std::string print_state(const State& state, Layout layout) { return write_json(state, layout); }

std::string print_container_process_state(const State& state, int pid, const std::string& metadata) {
  JsonWriter out(Layout::compact);
  out.begin_object();
  out.member("ociVersion", kVersion);
  out.member("fds", std::vector<std::string>{"seccompFd"});
  out.member("pid", pid);
  out.member_if_set("metadata", metadata);
  out.member("state", state);
  out.end_object();
  return out.take();
}

}  // namespace agentrun::oci
