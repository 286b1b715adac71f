#include "lifecycle/sandbox_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "oci/parse.h"
#include "oci/print.h"

namespace agentrun::lifecycle {
namespace {

SandboxOptions example() {
  SandboxOptions options;
  options.args = {"python3", "-c", "print(1)"};
  return options;
}

SandboxHost host_of_root() {
  SandboxHost host;
  host.rootfs = "/run/agentrun/.sandbox/rootfs";
  host.system_directories = {"/usr", "/lib32"};
  host.uid = host.gid = kSandboxUidBase + 7;
  return host;
}

const oci::Mount* find_mount(const oci::Config& config, const std::string& destination) {
  const auto found = std::find_if(config.mounts.begin(), config.mounts.end(),
                                  [&](const oci::Mount& mount) { return mount.destination == destination; });
  return found == config.mounts.end() ? nullptr : &*found;
}

bool has_option(const oci::Mount& mount, const std::string& option) {
  return std::find(mount.options.begin(), mount.options.end(), option) != mount.options.end();
}

TEST(SandboxBind, Parses) {
  const auto same = parse_sandbox_bind("/data");
  ASSERT_TRUE(same.has_value());
  EXPECT_EQ(same->source, "/data");
  EXPECT_EQ(same->destination, "/data");
  EXPECT_FALSE(same->writable);

  const auto other = parse_sandbox_bind("data:/in/../x//y/:rw");
  ASSERT_TRUE(other.has_value());
  EXPECT_EQ(other->source, "data");
  EXPECT_EQ(other->destination, "/x/y");
  EXPECT_TRUE(other->writable);
  EXPECT_FALSE(parse_sandbox_bind("/a:/b:ro")->writable);
}

TEST(SandboxBind, RefusesWhatHasNoPlaceInTheSandbox) {
  for (const char* text : {"", ":", ":/x", "data", "a:b", "/a:/b:", "/a:/b:rx", "/a:/b:rw:rw", "/a:/", "/a:/x/..",
                           "/a:/proc", "/a:/proc/1", "/a:/dev/../proc", "/a:/dev", "/a:/dev/shm"}) {
    EXPECT_FALSE(parse_sandbox_bind(text)) << text;
  }
}

TEST(SandboxConfig, GivesNothingAway) {
  const oci::Config config = make_sandbox_config(example(), host_of_root());
  EXPECT_TRUE(config.root.readonly);
  EXPECT_NE(config.process->user.uid, 0U);
  EXPECT_TRUE(config.process->no_new_privileges);
  ASSERT_TRUE(config.process->capabilities.has_value());
  EXPECT_TRUE(config.process->capabilities->bounding.empty());
  for (const oci::NamespaceType type : {oci::NamespaceType::pid, oci::NamespaceType::network, oci::NamespaceType::mount,
                                        oci::NamespaceType::ipc, oci::NamespaceType::uts, oci::NamespaceType::cgroup}) {
    const oci::Namespace* ns = oci::find_namespace(config, type);
    ASSERT_NE(ns, nullptr);
    EXPECT_EQ(ns->path, "");
  }
  for (const oci::Mount& mount : config.mounts) {
    if (mount.type == "bind") {
      EXPECT_TRUE(has_option(mount, "rro")) << mount.destination;
      EXPECT_TRUE(has_option(mount, "rnosuid")) << mount.destination;
    }
  }
  for (const char* absent : {"/etc", "/home", "/root", "/sys", "/run"}) EXPECT_EQ(find_mount(config, absent), nullptr);
  EXPECT_NE(find_mount(config, "/usr"), nullptr);
  EXPECT_NE(find_mount(config, "/lib32"), nullptr);
}

TEST(SandboxConfig, IsOneThatTheParserWouldTake) {
  SandboxOptions options = example();
  options.memory = 64 << 20;
  options.cpus = 500;
  options.binds = {{"/cache", "/cache", true}};
  for (const bool ordinary : {false, true}) {
    SandboxHost host = host_of_root();
    host.user_namespace = ordinary;
    const std::string json = oci::print_config(make_sandbox_config(options, host), oci::Layout::compact);
    const auto parsed = oci::parse_config(json, "config.json");
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message();
    EXPECT_EQ(oci::print_config(*parsed, oci::Layout::compact), json);
  }
}

TEST(SandboxConfig, OnlyWhatWasAskedForIsWritable) {
  SandboxOptions options = example();
  options.binds = {{"/data", "/data", false}, {"/cache", "/cache", true}};
  options.out = "/tmp/results";
  const oci::Config config = make_sandbox_config(options, host_of_root());
  EXPECT_TRUE(has_option(*find_mount(config, "/data"), "rro"));
  EXPECT_FALSE(has_option(*find_mount(config, "/cache"), "ro"));
  // Results are copied out afterwards: the program never holds a directory of the host for them.
  EXPECT_EQ(find_mount(config, kSandboxOut), nullptr);
  EXPECT_EQ(writable_sources(options), std::vector<std::string>{"/cache"});
}

TEST(SandboxConfig, LimitsAreBothInTheConfigAndAsAnnotations) {
  SandboxOptions options = example();
  options.timeout_us = 90'000'000;
  options.memory = 64 << 20;
  options.cpus = 1050;
  options.pids = 20;
  options.env = {"FOO=bar=x", "PATH=/bin"};
  const oci::Config config = make_sandbox_config(options, host_of_root());
  EXPECT_EQ(config.annotations.at("org.agentrun.deadline"), "1m30s");
  EXPECT_EQ(config.annotations.at("org.agentrun.memory"), "67108864");
  EXPECT_EQ(config.annotations.at("org.agentrun.cpus"), "1.050");
  EXPECT_EQ(config.annotations.at("org.agentrun.pids"), "20");
  EXPECT_EQ(config.annotations.at("org.agentrun.env.keep"), "FOO,PATH");
  EXPECT_EQ(config.linux.resources->memory->limit, 64 << 20);
  EXPECT_EQ(config.linux.resources->cpu->quota, 105'000);
  EXPECT_EQ(config.linux.resources->pids_limit, 20);
  const std::vector<std::string>& env = config.process->env;
  EXPECT_EQ(std::count_if(env.begin(), env.end(), [](const std::string& e) { return e.starts_with("PATH="); }), 1);
  EXPECT_NE(std::find(env.begin(), env.end(), "PATH=/bin"), env.end());
  EXPECT_NE(std::find(env.begin(), env.end(), "FOO=bar=x"), env.end());
}

TEST(SandboxConfig, AnOrdinaryUserGetsAUserNamespaceOfOneId) {
  SandboxHost host = host_of_root();
  host.user_namespace = true;
  host.uid = host.gid = 1000;
  const oci::Config config = make_sandbox_config(example(), host);
  EXPECT_NE(oci::find_namespace(config, oci::NamespaceType::user), nullptr);
  ASSERT_EQ(config.linux.uid_mappings.size(), 1U);
  EXPECT_EQ(config.linux.uid_mappings[0].host_id, 1000U);
  EXPECT_EQ(config.linux.uid_mappings[0].size, 1U);
  EXPECT_TRUE(config.linux.resources->devices.empty());
}

}  // namespace
}  // namespace agentrun::lifecycle
