#include "oci/features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "oci/json_reader.h"
#include "oci/parse.h"

namespace agentrun::oci {

// What containerd, CRI-O and Podman look at (features.md).
struct Enabled {
  bool enabled = false;
};
static Result<void> from_json(const JsonReader& in, Enabled& feature) { return in.require("enabled", feature.enabled); }

struct SeccompFeatures {
  bool enabled = false;
  std::vector<std::string> actions, operators, archs, known_flags, supported_flags;
};
static Result<void> from_json(const JsonReader& in, SeccompFeatures& seccomp) {
  TRY(in.require("enabled", seccomp.enabled));
  TRY(in.require("actions", seccomp.actions));
  TRY(in.require("operators", seccomp.operators));
  TRY(in.require("archs", seccomp.archs));
  TRY(in.require("knownFlags", seccomp.known_flags));
  TRY(in.require("supportedFlags", seccomp.supported_flags));
  return ok();
}

struct MemoryFeatures {
  std::vector<std::string> modes, flags;
};
static Result<void> from_json(const JsonReader& in, MemoryFeatures& memory) {
  TRY(in.require("modes", memory.modes));
  TRY(in.require("flags", memory.flags));
  return ok();
}

struct LinuxFeatures {
  std::vector<std::string> namespaces, capabilities;
  std::map<std::string, bool> cgroup;
  SeccompFeatures seccomp;
  Enabled apparmor, selinux, intel_rdt, net_devices;
  MemoryFeatures memory_policy;
  std::map<std::string, Enabled> mount_extensions;
};
static Result<void> from_json(const JsonReader& in, LinuxFeatures& linux) {
  TRY(in.require("namespaces", linux.namespaces));
  TRY(in.require("capabilities", linux.capabilities));
  TRY(in.require("cgroup", linux.cgroup));
  TRY(in.require("seccomp", linux.seccomp));
  TRY(in.require("apparmor", linux.apparmor));
  TRY(in.require("selinux", linux.selinux));
  TRY(in.require("intelRdt", linux.intel_rdt));
  TRY(in.require("netDevices", linux.net_devices));
  TRY(in.require("memoryPolicy", linux.memory_policy));
  TRY(in.require("mountExtensions", linux.mount_extensions));
  return ok();
}

struct Features {
  std::string minimum, maximum;
  std::vector<std::string> hooks, mount_options, unsafe;
  std::map<std::string, std::string> annotations;
  LinuxFeatures linux;
};
static Result<void> from_json(const JsonReader& in, Features& features) {
  TRY(in.require("ociVersionMin", features.minimum));
  TRY(in.require("ociVersionMax", features.maximum));
  TRY(in.require("hooks", features.hooks));
  TRY(in.require("mountOptions", features.mount_options));
  TRY(in.require("annotations", features.annotations));
  TRY(in.require("potentiallyUnsafeConfigAnnotations", features.unsafe));
  TRY(in.require("linux", features.linux));
  return ok();
}

namespace {

bool has(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

TEST(Features, HasWhatEnginesAskFor) {
  // Refusing unknown keys: nothing is printed that features.md does not have.
  const auto document = JsonDocument::parse(print_features(), "features", 1u << 20, UnknownKeys::refused);
  ASSERT_TRUE(document.has_value()) << document.error().message();
  Features features;
  const auto read = document->read(features);
  ASSERT_TRUE(read.has_value()) << read.error().message();

  EXPECT_EQ(features.minimum, "1.0.0");
  EXPECT_EQ(features.maximum, "1.3.0");
  EXPECT_EQ(features.hooks, (std::vector<std::string>{"prestart", "createRuntime", "createContainer", "startContainer",
                                                      "poststart", "poststop"}));
  for (const char* option : {"ro", "rro", "rbind", "idmap", "ridmap", "tmpcopyup", "copy-symlink", "src-nofollow",
                             "rnosymfollow", "rprivate"}) {
    EXPECT_TRUE(has(features.mount_options, option)) << option;
  }
  EXPECT_TRUE(std::is_sorted(features.mount_options.begin(), features.mount_options.end()));
  EXPECT_EQ(features.linux.namespaces.size(), 8u);
  EXPECT_TRUE(has(features.linux.namespaces, "user"));
  EXPECT_TRUE(has(features.linux.namespaces, "time"));
  EXPECT_EQ(features.linux.capabilities.size(), 41u);
  EXPECT_EQ(features.linux.cgroup,
            (std::map<std::string, bool>{
                {"v1", true}, {"v2", true}, {"systemd", true}, {"systemdUser", true}, {"rdma", true}}));
  EXPECT_TRUE(features.linux.seccomp.enabled);
  EXPECT_EQ(features.linux.seccomp.actions.size(), 9u);
  EXPECT_EQ(features.linux.seccomp.operators.size(), 7u);
  EXPECT_TRUE(has(features.linux.seccomp.archs, "SCMP_ARCH_X86_64"));
  EXPECT_EQ(features.linux.seccomp.known_flags.size(), 4u);
  EXPECT_TRUE(features.linux.apparmor.enabled && features.linux.selinux.enabled);
  EXPECT_FALSE(features.linux.intel_rdt.enabled);
  EXPECT_TRUE(features.linux.net_devices.enabled);
  EXPECT_EQ(features.linux.memory_policy.modes.size(), 7u);
  EXPECT_TRUE(features.linux.mount_extensions.at("idmap").enabled);
  EXPECT_EQ(features.annotations.at("org.agentrun.version"), AGENTRUN_VERSION);
  EXPECT_TRUE(has(features.unsafe, "org.agentrun."));
}

TEST(SpecTemplate, IsAConfigThatRuns) {
  const auto config = parse_config(spec_template(false, 0, 0), "config.json");
  ASSERT_TRUE(config.has_value()) << config.error().message();
  EXPECT_EQ(config->process->args, std::vector<std::string>{"sh"});
  EXPECT_TRUE(config->process->terminal);
  EXPECT_TRUE(config->process->no_new_privileges);
  EXPECT_EQ(config->process->capabilities->bounding.size(), 3u);
  EXPECT_TRUE(config->process->capabilities->inheritable.empty());
  EXPECT_EQ(config->process->rlimits.at(0).soft, 1024u);
  EXPECT_TRUE(config->root.readonly);
  EXPECT_EQ(config->mounts.size(), 7u);
  EXPECT_NE(find_namespace(*config, NamespaceType::network), nullptr);
  EXPECT_EQ(find_namespace(*config, NamespaceType::user), nullptr);
  EXPECT_FALSE(config->linux.resources->devices.at(0).allow);
  EXPECT_EQ(config->linux.resources->devices.at(0).access, "rwm");
}

TEST(SpecTemplate, IsRootlessWhereAsked) {
  const auto config = parse_config(spec_template(true, 1000, 1001), "config.json");
  ASSERT_TRUE(config.has_value()) << config.error().message();
  EXPECT_NE(find_namespace(*config, NamespaceType::user), nullptr);
  EXPECT_EQ(find_namespace(*config, NamespaceType::network), nullptr);
  EXPECT_EQ(config->linux.uid_mappings.at(0).host_id, 1000u);
  EXPECT_EQ(config->linux.gid_mappings.at(0).host_id, 1001u);
  EXPECT_FALSE(config->linux.resources.has_value());
  for (const Mount& mount : config->mounts) {
    EXPECT_NE(mount.type, "cgroup");
    EXPECT_FALSE(has(mount.options, "gid=5")) << mount.destination;
  }
}

}  // namespace
}  // namespace agentrun::oci
