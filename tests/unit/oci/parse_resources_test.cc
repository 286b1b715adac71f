#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "oci/parse.h"
#include "parse_helpers.h"

namespace agentrun::oci {
namespace {

TEST(ParseResources, ReadsEverything) {
  const auto resources = parse_resources(R"({
    "devices":[{"allow":false},{"allow":false,"type":"","access":""},{"allow":true,"type":"c","major":10,"minor":229,"access":"rw"},
      {"allow":true,"type":"b","major":-1,"minor":-1,"access":"m"}],
    "memory":{"limit":9223372036854775807,"reservation":1,"swap":-1,"kernel":2,"kernelTCP":3,"swappiness":60,
      "disableOOMKiller":false,"useHierarchy":true,"checkBeforeUpdate":true},
    "cpu":{"shares":1024,"quota":-1,"burst":5,"period":100000,"realtimeRuntime":-7,"realtimePeriod":8,"cpus":"0-3","mems":"0","idle":1},
    "pids":{"limit":-1},
    "blockIO":{"weight":10,"leafWeight":20,"weightDevice":[{"major":8,"minor":0,"weight":500,"leafWeight":300}],
      "throttleReadBpsDevice":[{"major":8,"minor":0,"rate":600}],"throttleWriteBpsDevice":[{"major":8,"minor":1,"rate":601}],
      "throttleReadIOPSDevice":[{"major":8,"minor":2,"rate":602}],"throttleWriteIOPSDevice":[{"major":8,"minor":3,"rate":18446744073709551615}]},
    "hugepageLimits":[{"pageSize":"2MB","limit":209715200}],
    "network":{"classID":1048577,"priorities":[{"name":"eth0","priority":500}]},
    "rdma":{"mlx5_1":{"hcaHandles":3,"hcaObjects":10000}},
    "unified":{"memory.high":"max","io.max":"8:0 rbps=1"}})",
                                         "resources.json");
  ASSERT_TRUE(resources.has_value()) << resources.error().message();
  ASSERT_EQ(resources->devices.size(), 4u);
  EXPECT_EQ(resources->devices[0].type, 'a');
  EXPECT_EQ(resources->devices[0].access, "rwm");
  EXPECT_EQ(resources->devices[1].type, 'a');
  EXPECT_EQ(resources->devices[2].minor, 229);
  EXPECT_FALSE(resources->devices[3].major.has_value());
  EXPECT_EQ(resources->memory->limit, INT64_MAX);
  EXPECT_EQ(resources->memory->swap, -1);
  EXPECT_EQ(resources->memory->kernel_tcp, 3);
  EXPECT_EQ(resources->memory->disable_oom_killer, false);
  EXPECT_EQ(resources->memory->check_before_update, true);
  EXPECT_EQ(resources->cpu->quota, -1);
  EXPECT_EQ(resources->cpu->realtime_runtime, -7);
  EXPECT_EQ(resources->cpu->cpus, "0-3");
  EXPECT_EQ(resources->cpu->idle, 1);
  EXPECT_EQ(resources->pids_limit, -1);
  EXPECT_EQ(resources->block_io->weight_devices.at(0).leaf_weight, 300);
  EXPECT_EQ(resources->block_io->read_bps.at(0).rate, 600u);
  EXPECT_EQ(resources->block_io->write_bps.at(0).minor, 1);
  EXPECT_EQ(resources->block_io->read_iops.at(0).rate, 602u);
  EXPECT_EQ(resources->block_io->write_iops.at(0).rate, UINT64_MAX);
  EXPECT_EQ(resources->hugepage_limits.at(0).page_size, "2MB");
  EXPECT_EQ(resources->network->class_id, 1048577u);
  EXPECT_EQ(resources->network->priorities.at(0).priority, 500u);
  EXPECT_EQ(resources->rdma.at("mlx5_1").hca_objects, 10000u);
  EXPECT_EQ(resources->unified.at("io.max"), "8:0 rbps=1");
}

TEST(ParseResources, TakesNothingForNothing) {
  const auto resources = parse_resources("{}", "-");
  ASSERT_TRUE(resources.has_value());
  EXPECT_FALSE(resources->memory.has_value());
  EXPECT_FALSE(resources->pids_limit.has_value());
  EXPECT_FALSE(parse_resources(R"({"pids":{}})", "-")->pids_limit.has_value());
}

struct Case {
  const char* members;
  const char* pointer;
  const char* reason;
};

TEST(ParseResources, RefusesBadValues) {
  const std::vector<Case> cases = {
      {R"("memory":{"limit":"1G"})", "/memory/limit", "expected an integer"},
      {R"("memory":{"limit":1.5})", "/memory/limit", "expected an integer"},
      {R"("memory":{"limit":-2})", "/memory/limit", "expected -1 or more"},
      {R"("memory":{"swappiness":-1})", "/memory/swappiness", "expected an integer from 0 to 18446744073709551615"},
      {R"("memory":[])", "/memory", "expected an object"},
      {R"("cpu":{"shares":18446744073709551616})", "/cpu/shares", "expected an integer from 0 to 18446744073709551615"},
      {R"("cpu":{"cpus":"0-"})", "/cpu/cpus", "invalid CPU list \"0-\""},
      {R"("cpu":{"mems":"0\n1"})", "/cpu/mems", "invalid CPU list \"0\\x0a1\""},
      {R"("pids":{"limit":1e2})", "/pids/limit", "expected an integer"},
      {R"("pids":7)", "/pids", "expected an object"},
      {R"("devices":[{"type":"c"}])", "/devices/0/allow", "missing"},
      {R"("devices":[{"allow":true,"type":"c","major":1,"minor":3}])", "/devices/0/access", "missing"},
      {R"("devices":[{"allow":true,"type":"p","access":"r"}])", "/devices/0/type", "invalid device type \"p\""},
      {R"("devices":[{"allow":true,"access":"rx"}])", "/devices/0/access", "invalid device access \"rx\""},
      {R"("devices":[{"allow":true,"major":-2,"access":"r"}])", "/devices/0/major",
       "expected an integer from -1 to 4095"},
      {R"("devices":[{"allow":true,"minor":1048576,"access":"r"}])", "/devices/0/minor",
       "expected an integer from -1 to 1048575"},
      {R"("blockIO":{"weight":65536})", "/blockIO/weight", "expected an integer from 0 to 65535"},
      {R"("blockIO":{"throttleReadBpsDevice":[{"major":8,"rate":1}]})", "/blockIO/throttleReadBpsDevice/0/minor",
       "missing"},
      {R"("hugepageLimits":[{"pageSize":"../../x","limit":1}])", "/hugepageLimits/0/pageSize",
       "invalid page size \"../../x\""},
      {R"("hugepageLimits":[{"pageSize":"2MB"}])", "/hugepageLimits/0/limit", "missing"},
      {R"("network":{"classID":4294967296})", "/network/classID", "expected an integer from 0 to 4294967295"},
      {R"("network":{"priorities":[{"name":"a b","priority":1}]})", "/network/priorities/0/name",
       "invalid network interface name \"a b\""},
      {R"("rdma":{"a b":{}})", "/rdma/a b", "invalid name \"a b\""},
      {R"("rdma":{"mlx":{"hcaHandles":-1}})", "/rdma/mlx/hcaHandles", "expected an integer from 0 to 4294967295"},
      {R"("unified":{"../cgroup.procs":"1"})", "/unified/..~1cgroup.procs",
       "invalid cgroup file name \"../cgroup.procs\""},
      {R"("unified":{"a.b/../../cgroup.procs":"1"})", "/unified/a.b~1..~1..~1cgroup.procs",
       "invalid cgroup file name \"a.b/../../cgroup.procs\""},
      {R"("unified":{"memory":"1"})", "/unified/memory", "invalid cgroup file name \"memory\""},
      {R"("unified":{"memory.high":1})", "/unified/memory.high", "expected a string"},
  };
  for (const Case& entry : cases) {
    const auto resources = parse_resources("{" + std::string(entry.members) + "}", "r.json");
    ASSERT_TRUE(resources.has_error()) << entry.members;
    EXPECT_EQ(resources.error().message(), "parse r.json " + std::string(entry.pointer) + ": " + entry.reason);
    // And where it stands in a config.json.
    EXPECT_EQ(linux_message(",\"resources\":{" + std::string(entry.members) + "}"),
              at("/linux/resources" + std::string(entry.pointer), entry.reason));
  }
}

}  // namespace
}  // namespace agentrun::oci
