#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "oci/parse.h"
#include "parse_helpers.h"

namespace agentrun::oci {
namespace {

TEST(ParseLinux, ReadsEverything) {
  const auto config = parse_config(config_text("", R"(,
    "namespaces":[{"type":"pid"},{"type":"network","path":"/proc/1/ns/net"},{"type":"mount"},{"type":"ipc","path":""},{"type":"uts"},{"type":"user"},{"type":"cgroup"},{"type":"time"}],
    "uidMappings":[{"containerID":0,"hostID":1000,"size":4294966295}],"gidMappings":[{"containerID":1,"hostID":2,"size":3}],
    "timeOffsets":{"boottime":{"secs":-5,"nanosecs":999999999},"monotonic":{}},
    "devices":[{"type":"c","path":"/dev/fuse","major":10,"minor":229,"fileMode":8630,"uid":0,"gid":5},{"type":"p","path":"pipe"}],
    "netDevices":{"eth0":{"name":"net0"},"eth1":{}},
    "intelRdt":{"closID":"guaranteed","schemata":["L3:0=f"],"l3CacheSchema":"a","memBwSchema":"b","enableMonitoring":true},
    "memoryPolicy":{"mode":"MPOL_BIND","nodes":"0-1,3","flags":["MPOL_F_STATIC_NODES"]},
    "sysctl":{"net.ipv4.ip_forward":"1"},
    "rootfsPropagation":"rslave","maskedPaths":["/proc/kcore"],"readonlyPaths":["/proc/sys"],"mountLabel":"m",
    "personality":{"domain":"LINUX32","flags":[]})"),
                                   "config.json");
  ASSERT_TRUE(config.has_value()) << config.error().message();
  const Linux& linux = config->linux;
  ASSERT_EQ(linux.namespaces.size(), 8u);
  EXPECT_EQ(find_namespace(*config, NamespaceType::network)->path, "/proc/1/ns/net");
  EXPECT_NE(find_namespace(*config, NamespaceType::time), nullptr);
  EXPECT_EQ(linux.uid_mappings.at(0).size, 4294966295u);
  EXPECT_EQ(linux.gid_mappings.at(0).host_id, 2u);
  EXPECT_EQ(linux.time_offsets.at("boottime").secs, -5);
  EXPECT_EQ(linux.time_offsets.at("boottime").nanosecs, 999999999u);
  EXPECT_EQ(linux.devices.at(0).minor, 229);
  EXPECT_EQ(linux.devices.at(0).file_mode, 0666u);  // 8630 is 0020666: with the file type
  EXPECT_EQ(linux.devices.at(0).gid, 5u);
  EXPECT_EQ(linux.devices.at(1).type, 'p');
  EXPECT_EQ(linux.net_devices.at("eth0").name, "net0");
  EXPECT_EQ(linux.net_devices.at("eth1").name, "");
  EXPECT_EQ(linux.intel_rdt->clos_id, "guaranteed");
  EXPECT_TRUE(linux.intel_rdt->enable_monitoring);
  EXPECT_EQ(linux.memory_policy->nodes, "0-1,3");
  EXPECT_EQ(linux.sysctl.at("net.ipv4.ip_forward"), "1");
  EXPECT_EQ(linux.rootfs_propagation, "rslave");
  EXPECT_EQ(linux.masked_paths, std::vector<std::string>{"/proc/kcore"});
  EXPECT_EQ(linux.readonly_paths, std::vector<std::string>{"/proc/sys"});
  EXPECT_EQ(linux.mount_label, "m");
  EXPECT_EQ(linux.personality->domain, "LINUX32");
}

TEST(ParseLinux, ReadsSeccomp) {
  const auto config = parse_config(config_text("", R"(,"seccomp":{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":38,
    "architectures":["SCMP_ARCH_X86_64","SCMP_ARCH_LOONGARCH64"],"flags":["SECCOMP_FILTER_FLAG_LOG"],
    "listenerPath":"/run/l.sock","listenerMetadata":"m","syscalls":[
    {"names":["read","write"],"action":"SCMP_ACT_ALLOW"},
    {"names":["clone"],"action":"SCMP_ACT_TRACE","errnoRet":65535,"args":[{"index":5,"value":18446744073709551615,"valueTwo":1,"op":"SCMP_CMP_MASKED_EQ"}]}]})"),
                                   "config.json");
  ASSERT_TRUE(config.has_value()) << config.error().message();
  const Seccomp& seccomp = *config->linux.seccomp;
  EXPECT_EQ(seccomp.default_action, "SCMP_ACT_ERRNO");
  EXPECT_EQ(seccomp.default_errno_ret, 38u);
  EXPECT_EQ(seccomp.architectures.size(), 2u);
  EXPECT_EQ(seccomp.flags, std::vector<std::string>{"SECCOMP_FILTER_FLAG_LOG"});
  EXPECT_EQ(seccomp.listener_path, "/run/l.sock");
  EXPECT_EQ(seccomp.syscalls.at(0).names, (std::vector<std::string>{"read", "write"}));
  EXPECT_EQ(seccomp.syscalls.at(1).errno_ret, 65535u);
  EXPECT_EQ(seccomp.syscalls.at(1).args.at(0).value, UINT64_MAX);
  EXPECT_EQ(seccomp.syscalls.at(1).args.at(0).value_two, 1u);
}

struct Case {
  const char* members;
  const char* pointer;
  const char* reason;
};

TEST(ParseLinux, RefusesBadNamespacesAndIds) {
  const std::vector<Case> cases = {
      {R"(,"namespaces":[{"type":"pid"},{"type":"foo"}])", "/linux/namespaces/1/type",
       "invalid namespace type \"foo\""},
      {R"(,"namespaces":[{}])", "/linux/namespaces/0/type", "missing"},
      {R"(,"namespaces":[{"type":"pid"},{"type":"pid"}])", "/linux/namespaces", "the same type twice"},
      {R"(,"namespaces":[{"type":"pid","path":"ns"}])", "/linux/namespaces/0/path", "invalid absolute path \"ns\""},
      {R"(,"uidMappings":[{"containerID":0,"hostID":-1,"size":1}])", "/linux/uidMappings/0/hostID",
       "expected an integer from 0 to 4294967295"},
      {R"(,"uidMappings":[{"containerID":0,"hostID":0,"size":0}])", "/linux/uidMappings/0/size",
       "expected an integer from 1 to 4294967295"},
      {R"(,"uidMappings":[{"containerID":0,"hostID":1,"size":4294967295}])", "/linux/uidMappings/0/size",
       "reaches beyond the last id"},
      {R"(,"gidMappings":[{"containerID":4294967295,"hostID":1,"size":1}])", "/linux/gidMappings/0/size",
       "reaches beyond the last id"},
      {R"(,"gidMappings":[{"hostID":1,"size":1}])", "/linux/gidMappings/0/containerID", "missing"},
      {R"(,"timeOffsets":{"realtime":{"secs":1}})", "/linux/timeOffsets/realtime", "invalid clock \"realtime\""},
      {R"(,"timeOffsets":{"boottime":{"nanosecs":1000000000}})", "/linux/timeOffsets/boottime/nanosecs",
       "expected an integer from 0 to 999999999"},
  };
  for (const Case& entry : cases) EXPECT_EQ(linux_message(entry.members), at(entry.pointer, entry.reason));
}

TEST(ParseLinux, RefusesBadDevicesAndPaths) {
  const std::vector<Case> cases = {
      {R"(,"devices":[{"path":"/dev/x","major":1,"minor":3}])", "/linux/devices/0/type", "missing"},
      {R"(,"devices":[{"type":"a","path":"/dev/x","major":1,"minor":3}])", "/linux/devices/0/type",
       "invalid device type \"a\""},
      {R"(,"devices":[{"type":"","path":"/dev/x","major":1,"minor":3}])", "/linux/devices/0/type",
       "invalid device type \"\""},
      {R"(,"devices":[{"type":"c","path":"","major":1,"minor":3}])", "/linux/devices/0/path", "must not be empty"},
      {R"(,"devices":[{"type":"c","path":"/dev/x","minor":3}])", "/linux/devices/0/major", "missing"},
      // 8:0 by way of a number that the kernel cuts.
      {R"(,"devices":[{"type":"b","path":"/dev/x","major":4104,"minor":0}])", "/linux/devices/0/major",
       "expected an integer from 0 to 4095"},
      {R"(,"devices":[{"type":"b","path":"/dev/x","major":8,"minor":1048576}])", "/linux/devices/0/minor",
       "expected an integer from 0 to 1048575"},
      {R"(,"devices":[{"type":"p","path":"/x","uid":4294967295}])", "/linux/devices/0/uid",
       "expected an integer from 0 to 4294967294: 4294967295 means no id"},
      {R"(,"netDevices":{"et/h0":{}})", "/linux/netDevices/et~1h0", "invalid network interface name \"et/h0\""},
      {R"(,"netDevices":{"eth0":{"name":"0123456789abcdef"}})", "/linux/netDevices/eth0/name",
       "invalid network interface name \"0123456789abcdef\""},
      {R"(,"maskedPaths":["proc"])", "/linux/maskedPaths/0", "invalid absolute path \"proc\""},
      {R"(,"readonlyPaths":["/a",""])", "/linux/readonlyPaths/1", "invalid absolute path \"\""},
      {R"(,"rootfsPropagation":"public")", "/linux/rootfsPropagation", "invalid rootfs propagation \"public\""},
      {R"(,"sysctl":{"a b":"1"})", "/linux/sysctl/a b", "invalid name \"a b\""},
      {R"(,"sysctl":{"a":1})", "/linux/sysctl/a", "expected a string"},
      {R"(,"intelRdt":{"closID":"../x"})", "/linux/intelRdt/closID", "invalid name \"../x\""},
      {R"(,"personality":{"domain":"BSD"})", "/linux/personality/domain", "invalid personality \"BSD\""},
      {R"(,"personality":{"domain":"LINUX","flags":["ADDR_NO_RANDOMIZE"]})", "/linux/personality/flags/0",
       "invalid personality flag \"ADDR_NO_RANDOMIZE\""},
      {R"(,"cgroupsPath":"x")", "/linux/cgroupsPath", "the same key twice in one object"},
  };
  for (const Case& entry : cases) EXPECT_EQ(linux_message(entry.members), at(entry.pointer, entry.reason));
}

TEST(ParseLinux, RefusesBadMemoryPolicies) {
  const std::vector<Case> cases = {
      {R"(,"memoryPolicy":{})", "/linux/memoryPolicy/mode", "invalid memory policy mode \"\""},
      {R"(,"memoryPolicy":{"mode":"INTERLEAVE"})", "/linux/memoryPolicy/mode",
       "invalid memory policy mode \"INTERLEAVE\""},
      {R"(,"memoryPolicy":{"mode":"MPOL_BIND","nodes":"bad"})", "/linux/memoryPolicy/nodes",
       "invalid memory policy nodes \"bad\""},
      {R"(,"memoryPolicy":{"mode":"MPOL_BIND","nodes":"0-9876543210"})", "/linux/memoryPolicy/nodes",
       "invalid memory policy nodes \"0-9876543210\""},
      {R"(,"memoryPolicy":{"mode":"MPOL_BIND","nodes":"0","flags":["MPOL_F_STATIC_NODES","x"]})",
       "/linux/memoryPolicy/flags/1", "invalid memory policy flag \"x\""},
      {R"(,"memoryPolicy":{"mode":"MPOL_DEFAULT","nodes":"0-7"})", "/linux/memoryPolicy/nodes",
       "MPOL_DEFAULT mode requires 0 nodes but got 8"},
  };
  for (const Case& entry : cases) EXPECT_EQ(linux_message(entry.members), at(entry.pointer, entry.reason));
}

TEST(ParseLinux, RefusesBadSeccomp) {
  const auto rule = [](std::string_view members) {
    return linux_message(R"(,"seccomp":{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{)" + std::string(members) +
                         "}]}");
  };
  const std::string at_rule = "/linux/seccomp/syscalls/0";
  EXPECT_EQ(rule(R"("names":["x"],"action":"SCMP_ACT_KILL")"), "no error");
  EXPECT_EQ(rule(R"("action":"SCMP_ACT_KILL")"), at(at_rule + "/names", "must not be empty"));
  EXPECT_EQ(rule(R"("names":[],"action":"SCMP_ACT_KILL")"), at(at_rule + "/names", "must not be empty"));
  EXPECT_EQ(rule(R"("names":["x"])"), at(at_rule + "/action", "missing"));
  EXPECT_EQ(rule(R"("names":["x"],"action":"SCMP_ACT_X")"),
            at(at_rule + "/action", "invalid seccomp action \"SCMP_ACT_X\""));
  EXPECT_EQ(rule(R"("names":["x"],"action":"SCMP_ACT_ALLOW","errnoRet":1)"),
            at(at_rule + "/errnoRet", "SCMP_ACT_ALLOW has no errno"));
  // libseccomp keeps 16 bits: this would be errno 0, success.
  EXPECT_EQ(rule(R"("names":["x"],"action":"SCMP_ACT_ERRNO","errnoRet":65536)"),
            at(at_rule + "/errnoRet", "expected an integer from 0 to 65535"));
  EXPECT_EQ(rule(R"("names":["x"],"action":"SCMP_ACT_KILL","args":[{"index":6,"value":0,"op":"SCMP_CMP_EQ"}])"),
            at(at_rule + "/args/0/index", "expected an integer from 0 to 5"));
  EXPECT_EQ(rule(R"("names":["x"],"action":"SCMP_ACT_KILL","args":[{"index":0,"value":-1,"op":"SCMP_CMP_EQ"}])"),
            at(at_rule + "/args/0/value", "expected an integer from 0 to 18446744073709551615"));
  EXPECT_EQ(rule(R"("names":["x"],"action":"SCMP_ACT_KILL","args":[{"index":0,"value":1,"op":"="}])"),
            at(at_rule + "/args/0/op", "invalid seccomp operator \"=\""));

  const std::vector<Case> cases = {
      {R"(,"seccomp":{})", "/linux/seccomp/defaultAction", "missing"},
      {R"(,"seccomp":{"defaultAction":"SCMP_ACT_ALLOW","defaultErrnoRet":1})", "/linux/seccomp/defaultErrnoRet",
       "SCMP_ACT_ALLOW has no errno"},
      {R"(,"seccomp":{"defaultAction":"SCMP_ACT_ALLOW","architectures":["X"]})", "/linux/seccomp/architectures/0",
       "invalid seccomp architecture \"X\""},
      {R"(,"seccomp":{"defaultAction":"SCMP_ACT_ALLOW","flags":["SECCOMP_FILTER_FLAG_NEW_LISTENER"]})",
       "/linux/seccomp/flags/0", "invalid seccomp flag \"SECCOMP_FILTER_FLAG_NEW_LISTENER\""},
      {R"(,"seccomp":{"defaultAction":"SCMP_ACT_ALLOW","listenerMetadata":"m"})", "/linux/seccomp/listenerMetadata",
       "without listenerPath"},
      {R"(,"seccomp":{"defaultAction":"SCMP_ACT_ALLOW","listenerPath":"@x"})", "/linux/seccomp/listenerPath",
       "invalid absolute path \"@x\""},
  };
  for (const Case& entry : cases) EXPECT_EQ(linux_message(entry.members), at(entry.pointer, entry.reason));
}

}  // namespace
}  // namespace agentrun::oci
