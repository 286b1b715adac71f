// parse(print(x)) is x, for generated configs in which every field takes part. Two configs are equal where their prints
// are; that print leaves nothing out is what the last test sees to.
#include "oci/print.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>

#include "oci/json_reader.h"
#include "oci/names.h"
#include "oci/parse.h"

namespace agentrun::oci {
namespace {

// Deterministic: the numbers of mt19937 are fixed by the standard, those of the distributions are not and not used.
class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  Config config();
  Process process();
  Resources resources();

 private:
  std::uint64_t number(std::uint64_t limit) { return limit == 0 ? 0 : random_() % limit; }
  bool flip() { return number(2) == 0; }

  // Both ends come often: that is where parsers break.
  template <typename T>
  T integer(T minimum, T maximum) {
    switch (number(4)) {
      case 0:
        return minimum;
      case 1:
        return maximum;
      default:
        const auto span = static_cast<std::uint64_t>(maximum) - static_cast<std::uint64_t>(minimum);
        return static_cast<T>(static_cast<std::uint64_t>(minimum) +
                              (span == UINT64_MAX ? random_() : number(span + 1)));
    }
  }
  template <typename T>
  T any() {
    return integer(std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  }
  std::uint32_t id() { return integer<std::uint32_t>(0, 0xfffffffe); }
  std::int64_t limit() { return integer<std::int64_t>(-1, INT64_MAX); }

  std::string text() {
    static const std::vector<std::string> pieces = {
        "a",  "Z", "0", " ", "\"", "\\", "\n", "/", "\x7f", "\x01", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
        "\t", "=", ":"};
    std::string result;
    for (std::uint64_t count = number(12); count > 0; --count) result += pieces[number(pieces.size())];
    return result;
  }
  std::string word() {
    std::string result;
    for (std::uint64_t count = 1 + number(8); count > 0; --count) result += static_cast<char>('a' + number(26));
    return result;
  }
  std::string path() { return "/" + text(); }
  std::string list() { return std::to_string(number(100)) + "-" + std::to_string(100 + number(100)) + ",7"; }
  template <typename Names>
  std::string name(const Names& names) {
    return std::string(names[number(names.size())]);
  }

  template <typename Make>
  auto maybe(Make make) {
    std::optional<decltype(make())> result;
    if (flip()) result = make();
    return result;
  }
  template <typename Make>
  auto several(Make make) {
    std::vector<decltype(make())> result;
    for (std::uint64_t count = number(4); count > 0; --count) result.push_back(make());
    return result;
  }
  template <typename Make>
  auto mapped(Make make) {
    std::map<std::string, decltype(make())> result;
    for (std::uint64_t count = number(4); count > 0; --count) result.emplace(word(), make());
    return result;
  }
  // Some of `names`, none twice.
  template <typename Names>
  std::vector<std::string> some(const Names& names) {
    std::vector<std::string> result;
    for (const auto& candidate : names) {
      if (flip()) result.emplace_back(candidate);
    }
    return result;
  }

  std::vector<std::string> texts() {
    return several([this] { return text(); });
  }
  std::vector<std::string> paths() {
    return several([this] { return path(); });
  }
  std::vector<std::string> env() {
    return several([this] { return word() + "=" + text(); });
  }
  std::vector<std::string> capability_names() { return some(std::array{"CAP_KILL", "CAP_SYS_ADMIN", "CAP_FUTURE_2"}); }

  IdMapping id_mapping() {
    IdMapping mapping{any<std::uint32_t>() / 2, any<std::uint32_t>() / 2, 1};
    mapping.size = integer<std::uint32_t>(1, 0xffffffff - std::max(mapping.container_id, mapping.host_id));
    return mapping;
  }
  std::vector<IdMapping> id_mappings() {
    return several([this] { return id_mapping(); });
  }
  Mount mount() { return {word() + text(), text(), text(), texts(), id_mappings(), id_mappings()}; }
  std::vector<Hook> hooks() {
    return several([this] {
      return Hook{path(), texts(), env(), maybe([this] { return integer<std::int32_t>(1, INT32_MAX); })};
    });
  }
  Device device();
  DeviceRule device_rule();
  Seccomp seccomp();
  Linux linux_part();
  std::vector<ThrottleDevice> throttles() {
    return several([this] {
      return ThrottleDevice{integer<std::int64_t>(0, 4095), integer<std::int64_t>(0, 1048575), any<std::uint64_t>()};
    });
  }

  std::mt19937_64 random_;
};

Process Generator::process() {
  Process process;
  process.terminal = flip();
  process.console_size = maybe([this] { return ConsoleSize{any<std::uint16_t>(), any<std::uint16_t>()}; });
  process.user = {id(), id(), maybe([this] { return integer<std::uint32_t>(0, 0777); }),
                  several([this] { return id(); })};
  process.args = texts();
  process.args.push_back(text());
  process.env = env();
  process.cwd = path();
  process.capabilities = maybe([this] {
    return Capabilities{capability_names(), capability_names(), capability_names(), capability_names(),
                        capability_names()};
  });
  for (const std::string& type : some(names::kRlimits)) {
    const auto hard = any<std::uint64_t>();
    process.rlimits.push_back({type, hard, integer<std::uint64_t>(0, hard)});
  }
  process.no_new_privileges = flip();
  process.apparmor_profile = text();
  process.oom_score_adj = maybe([this] { return integer<std::int32_t>(-1000, 1000); });
  process.scheduler = maybe([this] {
    return Scheduler{name(names::kSchedulerPolicies),
                     integer<std::int32_t>(-20, 19),
                     any<std::int32_t>(),
                     some(names::kSchedulerFlags),
                     any<std::uint64_t>(),
                     any<std::uint64_t>(),
                     any<std::uint64_t>()};
  });
  process.selinux_label = text();
  process.io_priority = maybe([this] { return IoPriority{name(names::kIoClasses), integer<std::int32_t>(0, 7)}; });
  process.exec_cpu_affinity = maybe([this] { return ExecCpuAffinity{list(), flip() ? list() : ""}; });
  return process;
}

DeviceRule Generator::device_rule() {
  DeviceRule rule;
  rule.allow = flip();
  rule.type = "abc"[number(3)];
  rule.major = maybe([this] { return integer<std::int64_t>(0, 4095); });
  rule.minor = maybe([this] { return integer<std::int64_t>(0, 1048575); });
  rule.access = flip() ? "rwm" : "r";
  return rule;
}

Resources Generator::resources() {
  Resources resources;
  resources.devices = several([this] { return device_rule(); });
  const auto maybe_limit = [this] { return maybe([this] { return limit(); }); };
  const auto maybe_unsigned = [this] { return maybe([this] { return any<std::uint64_t>(); }); };
  const auto maybe_signed = [this] { return maybe([this] { return any<std::int64_t>(); }); };
  const auto maybe_bool = [this] { return maybe([this] { return flip(); }); };
  const auto maybe_weight = [this] { return maybe([this] { return any<std::uint16_t>(); }); };
  const auto maybe_count = [this] { return maybe([this] { return any<std::uint32_t>(); }); };
  resources.memory = maybe([&] {
    return MemoryResources{maybe_limit(),    maybe_limit(), maybe_limit(), maybe_limit(), maybe_limit(),
                           maybe_unsigned(), maybe_bool(),  maybe_bool(),  maybe_bool()};
  });
  resources.cpu = maybe([&] {
    return CpuResources{maybe_unsigned(), maybe_limit(), maybe_unsigned(),     maybe_unsigned(), maybe_signed(),
                        maybe_unsigned(), list(),        flip() ? list() : "", maybe_signed()};
  });
  resources.pids_limit = maybe_limit();
  resources.block_io = maybe([&] {
    return BlockIoResources{maybe_weight(),
                            maybe_weight(),
                            several([&] {
                              return WeightDevice{integer<std::int64_t>(0, 4095), integer<std::int64_t>(0, 1048575),
                                                  maybe_weight(), maybe_weight()};
                            }),
                            throttles(),
                            throttles(),
                            throttles(),
                            throttles()};
  });
  resources.hugepage_limits = several([this] { return HugepageLimit{flip() ? "2MB" : "64KB", any<std::uint64_t>()}; });
  resources.network = maybe([&] {
    return NetworkResources{maybe_count(), several([this] { return NetworkPriority{word(), any<std::uint32_t>()}; })};
  });
  resources.rdma = mapped([&] { return RdmaLimit{maybe_count(), maybe_count()}; });
  for (const std::string& key : several([this] { return word() + "." + word(); })) resources.unified[key] = text();
  return resources;
}

Device Generator::device() {
  Device device;
  device.type = "cbup"[number(4)];
  device.path = path();
  if (device.type != 'p') {
    device.major = integer<std::int64_t>(0, 4095);
    device.minor = integer<std::int64_t>(0, 1048575);
  }
  device.file_mode = maybe([this] { return integer<std::uint32_t>(0, 07777); });
  device.uid = maybe([this] { return id(); });
  device.gid = maybe([this] { return id(); });
  return device;
}

Seccomp Generator::seccomp() {
  Seccomp seccomp;
  const auto takes_errno = [](const std::string& action) {
    return action == "SCMP_ACT_ERRNO" || action == "SCMP_ACT_TRACE";
  };
  const auto maybe_errno = [this] { return maybe([this] { return integer<std::uint32_t>(0, 65535); }); };
  seccomp.default_action = name(names::kSeccompActions);
  if (takes_errno(seccomp.default_action)) seccomp.default_errno_ret = maybe_errno();
  seccomp.architectures = some(names::kSeccompArchitectures);
  seccomp.flags = some(names::kSeccompFlags);
  if (flip()) {
    seccomp.listener_path = path();
    seccomp.listener_metadata = text();
  }
  seccomp.syscalls = several([&] {
    SeccompRule rule;
    rule.names = several([this] { return word(); });
    rule.names.push_back(word());
    rule.action = name(names::kSeccompActions);
    if (takes_errno(rule.action)) rule.errno_ret = maybe_errno();
    rule.args = several([this] {
      return SeccompArg{integer<std::uint32_t>(0, 5), any<std::uint64_t>(), any<std::uint64_t>(),
                        name(names::kSeccompOperators)};
    });
    return rule;
  });
  return seccomp;
}

Linux Generator::linux_part() {
  Linux linux;
  for (const NamespaceType type :
       {NamespaceType::pid, NamespaceType::network, NamespaceType::mount, NamespaceType::ipc, NamespaceType::uts,
        NamespaceType::user, NamespaceType::cgroup, NamespaceType::time}) {
    if (flip()) linux.namespaces.push_back({type, flip() ? path() : ""});
  }
  linux.uid_mappings = id_mappings();
  linux.gid_mappings = id_mappings();
  for (const std::string& clock : some(names::kClocks)) {
    linux.time_offsets[clock] = {any<std::int64_t>(), integer<std::uint32_t>(0, 999999999)};
  }
  linux.devices = several([this] { return device(); });
  linux.net_devices = mapped([this] { return NetDevice{flip() ? word() : ""}; });
  linux.cgroups_path = text();
  linux.resources = maybe([this] { return resources(); });
  linux.intel_rdt = maybe([this] { return IntelRdt{word(), text(), text(), texts(), flip()}; });
  linux.memory_policy = maybe([this] {
    return MemoryPolicy{"MPOL_BIND", flip() ? list() : "", some(names::kMemoryFlags)};
  });
  linux.sysctl = mapped([this] { return text(); });
  linux.seccomp = maybe([this] { return seccomp(); });
  linux.rootfs_propagation = flip() ? name(names::kPropagations) : "";
  linux.masked_paths = paths();
  linux.readonly_paths = paths();
  linux.mount_label = text();
  linux.personality = maybe([this] { return Personality{name(names::kPersonalities), {}}; });
  return linux;
}

Config Generator::config() {
  Config config;
  config.oci_version = flip() ? "1.3.0" : "1.0.2-dev+x";
  config.root = {word() + text(), flip()};
  config.process = maybe([this] { return process(); });
  config.hostname = word();
  config.domainname = flip() ? word() : "";
  config.mounts = several([this] { return mount(); });
  config.hooks = {hooks(), hooks(), hooks(), hooks(), hooks(), hooks()};
  config.annotations = mapped([this] { return text(); });
  config.linux = linux_part();
  return config;
}

TEST(Print, ParsesBackToTheSameConfig) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    const Config config = Generator(seed).config();
    for (const Layout layout : {Layout::compact, Layout::indented}) {
      const std::string text = print_config(config, layout);
      const auto back = parse_config(text, "config.json");
      ASSERT_TRUE(back.has_value()) << "seed " << seed << ": " << back.error().message() << "\n" << text;
      ASSERT_EQ(print_config(*back, layout), text) << "seed " << seed;
    }
  }
}

TEST(Print, ParsesBackToTheSameProcess) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    const std::string text = print_process(Generator(seed).process(), Layout::compact);
    const auto back = parse_process(text, "process.json");
    ASSERT_TRUE(back.has_value()) << back.error().message() << "\n" << text;
    ASSERT_EQ(print_process(*back, Layout::compact), text);
  }
}

TEST(Print, ParsesBackToTheSameResources) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    const std::string text = print_resources(Generator(seed).resources(), Layout::compact);
    const auto back = parse_resources(text, "resources.json");
    ASSERT_TRUE(back.has_value()) << back.error().message() << "\n" << text;
    ASSERT_EQ(print_resources(*back, Layout::compact), text);
  }
}

// Every pointer of a document, with "#" for an index.
void collect(const JsonReader& in, const std::string& pointer, std::set<std::string>& pointers) {
  pointers.insert(pointer);
  if (const auto array = in.array_size(); array.has_value()) {
    for (std::size_t index = 0; index < *array; ++index) collect(in.element(index), pointer + "/#", pointers);
  } else if (const auto object = in.object_size(); object.has_value()) {
    for (std::size_t index = 0; index < *object; ++index) {
      const JsonReader member = in.member(index);
      collect(member, pointer + "/" + std::string(member.name()), pointers);
    }
  }
}

// Two prints could be equal because both leave a field out: every field has to have been in one of them.
TEST(Print, LeavesNothingOut) {
  std::set<std::string> pointers;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const auto document = JsonDocument::parse(print_config(Generator(seed).config(), Layout::compact), "config.json",
                                              kConfigSizeLimit, UnknownKeys::ignored);
    ASSERT_TRUE(document.has_value());
    collect(document->root(), "", pointers);
  }
  // Counted in specs-go/config.go: one line for each field of the structures that Linux has.
  const std::vector<std::string> expected = {
      "/ociVersion",
      "/root/path",
      "/root/readonly",
      "/hostname",
      "/domainname",
      "/mounts/#/destination",
      "/mounts/#/type",
      "/mounts/#/source",
      "/mounts/#/options/#",
      "/mounts/#/uidMappings/#/containerID",
      "/mounts/#/uidMappings/#/hostID",
      "/mounts/#/uidMappings/#/size",
      "/mounts/#/gidMappings/#/size",
      "/process/terminal",
      "/process/consoleSize/height",
      "/process/consoleSize/width",
      "/process/user/uid",
      "/process/user/gid",
      "/process/user/umask",
      "/process/user/additionalGids/#",
      "/process/args/#",
      "/process/env/#",
      "/process/cwd",
      "/process/capabilities/bounding/#",
      "/process/capabilities/effective/#",
      "/process/capabilities/inheritable/#",
      "/process/capabilities/permitted/#",
      "/process/capabilities/ambient/#",
      "/process/rlimits/#/type",
      "/process/rlimits/#/hard",
      "/process/rlimits/#/soft",
      "/process/noNewPrivileges",
      "/process/apparmorProfile",
      "/process/oomScoreAdj",
      "/process/scheduler/policy",
      "/process/scheduler/nice",
      "/process/scheduler/priority",
      "/process/scheduler/flags/#",
      "/process/scheduler/runtime",
      "/process/scheduler/deadline",
      "/process/scheduler/period",
      "/process/selinuxLabel",
      "/process/ioPriority/class",
      "/process/ioPriority/priority",
      "/process/execCPUAffinity/initial",
      "/process/execCPUAffinity/final",
      "/hooks/prestart/#/path",
      "/hooks/prestart/#/args/#",
      "/hooks/prestart/#/env/#",
      "/hooks/prestart/#/timeout",
      "/hooks/createRuntime/#/path",
      "/hooks/createContainer/#/path",
      "/hooks/startContainer/#/path",
      "/hooks/poststart/#/path",
      "/hooks/poststop/#/path",
      "/linux/namespaces/#/type",
      "/linux/namespaces/#/path",
      "/linux/uidMappings/#/size",
      "/linux/gidMappings/#/size",
      "/linux/timeOffsets/boottime/secs",
      "/linux/timeOffsets/monotonic/nanosecs",
      "/linux/devices/#/type",
      "/linux/devices/#/path",
      "/linux/devices/#/major",
      "/linux/devices/#/minor",
      "/linux/devices/#/fileMode",
      "/linux/devices/#/uid",
      "/linux/devices/#/gid",
      "/linux/cgroupsPath",
      "/linux/resources/devices/#/allow",
      "/linux/resources/devices/#/type",
      "/linux/resources/devices/#/major",
      "/linux/resources/devices/#/minor",
      "/linux/resources/devices/#/access",
      "/linux/resources/memory/limit",
      "/linux/resources/memory/reservation",
      "/linux/resources/memory/swap",
      "/linux/resources/memory/kernel",
      "/linux/resources/memory/kernelTCP",
      "/linux/resources/memory/swappiness",
      "/linux/resources/memory/disableOOMKiller",
      "/linux/resources/memory/useHierarchy",
      "/linux/resources/memory/checkBeforeUpdate",
      "/linux/resources/cpu/shares",
      "/linux/resources/cpu/quota",
      "/linux/resources/cpu/burst",
      "/linux/resources/cpu/period",
      "/linux/resources/cpu/realtimeRuntime",
      "/linux/resources/cpu/realtimePeriod",
      "/linux/resources/cpu/cpus",
      "/linux/resources/cpu/mems",
      "/linux/resources/cpu/idle",
      "/linux/resources/pids/limit",
      "/linux/resources/blockIO/weight",
      "/linux/resources/blockIO/leafWeight",
      "/linux/resources/blockIO/weightDevice/#/major",
      "/linux/resources/blockIO/weightDevice/#/minor",
      "/linux/resources/blockIO/weightDevice/#/weight",
      "/linux/resources/blockIO/weightDevice/#/leafWeight",
      "/linux/resources/blockIO/throttleReadBpsDevice/#/rate",
      "/linux/resources/blockIO/throttleWriteBpsDevice/#/rate",
      "/linux/resources/blockIO/throttleReadIOPSDevice/#/major",
      "/linux/resources/blockIO/throttleWriteIOPSDevice/#/minor",
      "/linux/resources/hugepageLimits/#/pageSize",
      "/linux/resources/hugepageLimits/#/limit",
      "/linux/resources/network/classID",
      "/linux/resources/network/priorities/#/name",
      "/linux/resources/network/priorities/#/priority",
      "/linux/intelRdt/closID",
      "/linux/intelRdt/schemata/#",
      "/linux/intelRdt/l3CacheSchema",
      "/linux/intelRdt/memBwSchema",
      "/linux/intelRdt/enableMonitoring",
      "/linux/memoryPolicy/mode",
      "/linux/memoryPolicy/nodes",
      "/linux/memoryPolicy/flags/#",
      "/linux/seccomp/defaultAction",
      "/linux/seccomp/defaultErrnoRet",
      "/linux/seccomp/architectures/#",
      "/linux/seccomp/flags/#",
      "/linux/seccomp/listenerPath",
      "/linux/seccomp/listenerMetadata",
      "/linux/seccomp/syscalls/#/names/#",
      "/linux/seccomp/syscalls/#/action",
      "/linux/seccomp/syscalls/#/errnoRet",
      "/linux/seccomp/syscalls/#/args/#/index",
      "/linux/seccomp/syscalls/#/args/#/value",
      "/linux/seccomp/syscalls/#/args/#/valueTwo",
      "/linux/seccomp/syscalls/#/args/#/op",
      "/linux/rootfsPropagation",
      "/linux/maskedPaths/#",
      "/linux/readonlyPaths/#",
      "/linux/mountLabel",
      "/linux/personality/domain",
  };
  for (const std::string& pointer : expected) EXPECT_TRUE(pointers.contains(pointer)) << pointer;
  // Maps with names of their own.
  for (const char* prefix : {"/annotations/", "/linux/sysctl/", "/linux/netDevices/", "/linux/resources/rdma/",
                             "/linux/resources/unified/"}) {
    EXPECT_TRUE(std::any_of(pointers.begin(), pointers.end(), [prefix](const std::string& pointer) {
      return pointer.starts_with(prefix);
    })) << prefix;
  }
}

}  // namespace
}  // namespace agentrun::oci
