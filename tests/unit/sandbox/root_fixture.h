// Runs build_root and enter_root for real: a "host" process in a mount namespace of its own with a tmpfs to work in,
// and in it a "container" process in new namespaces. Needs root; nothing outside the temporary directory is touched.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "policy/harden.h"
#include "sandbox/rootfs.h"

namespace agentrun::sandbox::testing {

struct Scenario {
  policy::Effective effective;
  CgroupView cgroups;
  bool user_namespace = false;  // 0 to 65535 inside are 100000 and up outside
  bool rootless = false;        // an unprivileged user's runtime: only 0 inside, which is 12345 outside
  bool network_namespace = true;
  bool pivot = true;
  std::function<void(const std::string& bundle)> prepare;  // on the host, before; the rootfs is bundle + "/rootfs"
  std::function<void(const std::string& bundle)> between;  // in the container, between build_root and enter_root
  std::function<std::string()> inside;                     // in the entered root; its text is Outcome::inside
  std::function<std::string(const std::string& bundle)> afterwards;  // on the host, when the container has ended

  oci::Config& config() { return effective.config; }
};

struct Outcome {
  std::string error;  // of build_root or enter_root
  std::string inside, host;
};

// True where this process may make namespaces and mounts; the tests skip elsewhere.
bool can_build_roots();

Outcome run(const Scenario& scenario);

// Joined by spaces; in braces the parts are evaluated from left to right, unlike the operands of +.
std::string words(std::initializer_list<std::string> parts);

// Helpers for the lambdas. They never throw; text of what failed stands in the result.
oci::Mount mount_of(std::string type, std::string source, std::string destination,
                    std::vector<std::string> options = {});
oci::Mount bind_of(std::string source, std::string destination, std::vector<std::string> options = {"bind"});
std::string read(const std::string& path);                            // or "errno N"
std::string write(const std::string& path, const std::string& text);  // "ok" or "errno N"; creates
std::string mount_line(const std::string& place);                     // the last one of mountinfo, or ""
std::string flags_of_mount(const std::string& place);                 // "ro,nosuid,..."
int count_mounts(const std::string& place);
void make_directory(const std::string& path, unsigned mode = 0755);
void make_link(const std::string& text, const std::string& path);
std::string link_text(const std::string& path);
std::string list(const std::string& path);       // sorted, by spaces
std::string mode_of(const std::string& path);    // "755"
std::string owner_of(const std::string& path);   // "0:0"
std::string device_of(const std::string& path);  // "c 1:3"

}  // namespace agentrun::sandbox::testing

#define SKIP_UNLESS_ROOT()                                            \
  if (!agentrun::sandbox::testing::can_build_roots()) {               \
    GTEST_SKIP() << "needs root that may make namespaces and mounts"; \
  }
