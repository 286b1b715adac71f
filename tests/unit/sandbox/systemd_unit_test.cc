#include "sandbox/systemd_unit.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace agentrun::sandbox {
namespace {

const UnitProperty* find(const std::vector<UnitProperty>& properties, const std::string& name) {
  const auto found = std::find_if(properties.begin(), properties.end(), [&](const auto& p) { return p.name == name; });
  return found == properties.end() ? nullptr : &*found;
}

std::string value(const std::vector<UnitProperty>& properties, const std::string& name) {
  const UnitProperty* property = find(properties, name);
  return property == nullptr || property->values.empty() ? "(none)" : property->type + " " + property->values[0];
}

TEST(UnitName, FollowsTheForm) {
  EXPECT_EQ(parse_unit_name("", "a+b", false)->unit, "agentrun-a\\x2bb.scope");
  EXPECT_EQ(parse_unit_name("", "a", false)->slice, "system.slice");
  EXPECT_EQ(parse_unit_name("", "a", true)->slice, "user.slice");
  const UnitName name = *parse_unit_name("machine-x.slice:libpod:1234", "a", false);
  EXPECT_EQ(name.slice, "machine-x.slice");
  EXPECT_EQ(name.unit, "libpod-1234.scope");
  EXPECT_EQ(parse_unit_name("-:p:n", "a", false)->slice, "-.slice");
  EXPECT_EQ(parse_unit_name(":p/..:n@x", "a", false)->unit, "p\\x2f..-n\\x40x.scope");
  for (const char* bad : {"/a/b", "a:b", "a.slice:b:c:d", "a:b:c", "a.slice::", "::x.slice", "a/b.slice:x:y",
                          "a--b.slice:x:y", "-a.slice:x:y", "..slice/../:x:y"}) {
    EXPECT_FALSE(parse_unit_name(bad, "a", false)) << bad;
  }
  EXPECT_FALSE(parse_unit_name("::" + std::string(300, 'a'), "a", false));
}

TEST(ExpandSlice, NestsByDashes) {
  EXPECT_EQ(*expand_slice("a-b-c.slice"), "/a.slice/a-b.slice/a-b-c.slice");
  EXPECT_EQ(*expand_slice("system.slice"), "/system.slice");
  EXPECT_EQ(*expand_slice("-.slice"), "");
  for (const char* bad : {"", ".slice", "a", "a-.slice", "-a.slice", "a/b.slice"})
    EXPECT_FALSE(expand_slice(bad)) << bad;
}

TEST(ManagerPrefix, IsTheUsersService) {
  EXPECT_EQ(manager_prefix("/x", false, 0), "");
  EXPECT_EQ(manager_prefix("/user.slice/user-7.slice/user@7.service/app.slice/x.scope", true, 7),
            "/user.slice/user-7.slice/user@7.service");
  EXPECT_EQ(manager_prefix("/user.slice/user-7.slice/session-1.scope", true, 7),
            "/user.slice/user-7.slice/user@7.service");
  EXPECT_EQ(manager_prefix("/a/user@7.service", true, 7), "/a/user@7.service");
  EXPECT_EQ(manager_prefix("/a/user@7.servicex", true, 7), "/user.slice/user-7.slice/user@7.service");
}

TEST(ScopeProperties, DeadlineAndFirstProcess) {
  const auto properties = scope_properties("abc", "machine.slice", 42, 5'000'000);
  EXPECT_EQ(value(properties, "PIDs"), "au 42");
  EXPECT_EQ(value(properties, "Slice"), "s machine.slice");
  EXPECT_EQ(value(properties, "Delegate"), "b true");
  EXPECT_EQ(value(properties, "RuntimeMaxUSec"), "t 5000000");
  EXPECT_EQ(value(properties, "TimeoutStopUSec"), "t 1000000");
  EXPECT_EQ(find(scope_properties("abc", "s", 42, {}), "RuntimeMaxUSec"), nullptr);
}

TEST(LimitProperties, V2) {
  oci::Resources resources;
  resources.memory.emplace();
  resources.memory->limit = 1000;
  resources.memory->swap = 1500;
  resources.memory->reservation = -1;
  resources.cpu.emplace();
  resources.cpu->shares = 1024;
  resources.cpu->quota = 150'000;
  resources.cpu->period = 100'000;
  resources.cpu->cpus = "0-1";
  resources.pids_limit = -1;
  const auto properties = *limit_properties(resources, true);
  EXPECT_EQ(value(properties, "MemoryMax"), "t 1000");
  EXPECT_EQ(value(properties, "MemorySwapMax"), "t 500");
  EXPECT_EQ(value(properties, "MemoryLow"), "t 18446744073709551615");
  EXPECT_EQ(value(properties, "CPUWeight"), "t 100");
  EXPECT_EQ(value(properties, "CPUQuotaPerSecUSec"), "t 1500000");
  EXPECT_EQ(value(properties, "CPUQuotaPeriodUSec"), "t 100000");
  EXPECT_EQ(value(properties, "AllowedCPUs"), "ay 3");
  EXPECT_EQ(value(properties, "TasksMax"), "t 18446744073709551615");
}

TEST(LimitProperties, UnifiedOverridesAndV1HasItsNames) {
  oci::Resources resources;
  resources.memory.emplace();
  resources.memory->limit = 1000;
  resources.pids_limit = 0;
  EXPECT_EQ(value(*limit_properties(resources, false), "MemoryLimit"), "t 1000");
  EXPECT_EQ(value(*limit_properties(resources, false), "TasksMax"), "t 1");
  resources.unified = {{"memory.max", "2000"}, {"pids.max", "99"}, {"cpu.max", "5000 50000"}, {"io.max", "8:0 rbps=1"}};
  const auto properties = *limit_properties(resources, true);
  EXPECT_EQ(value(properties, "MemoryMax"), "t 2000");
  EXPECT_EQ(value(properties, "TasksMax"), "t 99");
  EXPECT_EQ(value(properties, "CPUQuotaPerSecUSec"), "t 100000");
  resources.unified = {{"memory.max", "many"}};
  EXPECT_FALSE(limit_properties(resources, true));
}

// What systemd is not told it overwrites with its default at its next reload.
TEST(LimitProperties, TheWeightOfBlockIo) {
  oci::Resources resources;
  resources.block_io.emplace();
  resources.block_io->weight = 505;
  EXPECT_EQ(value(*limit_properties(resources, true), "IOWeight"), "t 5000");
  EXPECT_EQ(find(*limit_properties(resources, false), "IOWeight"), nullptr);
  resources.unified = {{"io.weight", "default 77"}};
  EXPECT_EQ(value(*limit_properties(resources, true), "IOWeight"), "t 77");
  resources.unified = {{"io.weight", "8:0 77"}};
  EXPECT_EQ(value(*limit_properties(resources, true), "IOWeight"), "t 5000");
  resources.unified = {{"io.weight", "many"}};
  EXPECT_FALSE(limit_properties(resources, true));
}

TEST(LimitProperties, AHugeQuotaDoesNotOverflow) {
  oci::Resources resources;
  resources.cpu.emplace();
  resources.cpu->quota = INT64_MAX;
  resources.cpu->period = 1'000'000;
  EXPECT_EQ(value(*limit_properties(resources, true), "CPUQuotaPerSecUSec"), "t 9223372036854000000");
}

TEST(AnnotationProperties, ReadGVariantText) {
  const std::string prefix = "org.systemd.property.";
  const auto properties = *annotation_properties({{prefix + "CollectMode", "'inactive-or-failed'"},
                                                  {prefix + "TimeoutStopUSec", "uint64 123"},
                                                  {prefix + "TimeoutStartSec", "3"},
                                                  {prefix + "SendSIGHUP", "true"},
                                                  {prefix + "KillSignal", "int32 -3"},
                                                  {prefix + "After", "['a.service', \"b.service\"]"},
                                                  {"io.other", "x"}});
  EXPECT_EQ(properties.size(), 6u);
  EXPECT_EQ(value(properties, "CollectMode"), "s inactive-or-failed");
  EXPECT_EQ(value(properties, "TimeoutStopUSec"), "t 123");
  EXPECT_EQ(value(properties, "TimeoutStartUSec"), "t 3000000");
  EXPECT_EQ(value(properties, "SendSIGHUP"), "b true");
  EXPECT_EQ(value(properties, "KillSignal"), "i -3");
  EXPECT_EQ(find(properties, "After")->values, (std::vector<std::string>{"a.service", "b.service"}));
}

TEST(AnnotationProperties, RefuseNonsenseAndWhatWouldUndoTheScope) {
  const std::string prefix = "org.systemd.property.";
  for (const auto& [name, text] : std::map<std::string, std::string>{{"Slice", "'-.slice'"},
                                                                     {"PIDs", "[1]"},
                                                                     {"Delegate", "false"},
                                                                     {"RuntimeMaxUSec", "uint64 1"},
                                                                     {"RuntimeMaxSec", "uint64 1"},
                                                                     {"MemoryMax", "uint64 1"},
                                                                     {"DevicePolicy", "'auto'"},
                                                                     {"TasksMax", "uint64 9"},
                                                                     {"A", "'x'"},
                                                                     {"Desc/ription", "'x'"},
                                                                     {"Description", "x"},
                                                                     {"Description", "'x"},
                                                                     {"KillSignal", "uint32 -1"},
                                                                     {"Nice", "uint32 4294967296"},
                                                                     {"TimeoutStopSec", "'x'"},
                                                                     {"After", "['a' 'b']"}}) {
    EXPECT_FALSE(annotation_properties({{prefix + name, text}})) << name << " " << text;
  }
}

TEST(Protocol, GoesThereAndBack) {
  const UnitRequest sent{"start", "a b%\n.scope", {{"Slice", "s", {""}}, {"PIDs", "au", {"1", "2"}}, {"X", "as", {}}}};
  UnitRequest received;
  const std::string text = print_request(sent);
  std::size_t begin = 0;
  bool done = false;
  while (!done) {
    const std::size_t end = text.find('\n', begin);
    ASSERT_NE(end, std::string::npos);
    const auto parsed = parse_request_line(std::string_view(text).substr(begin, end - begin), received);
    ASSERT_TRUE(parsed);
    done = *parsed;
    begin = end + 1;
  }
  EXPECT_EQ(begin, text.size());
  EXPECT_EQ(received, sent);
}

TEST(Protocol, RefusesWhatIsNotOfIt) {
  UnitRequest request;
  for (const char* bad : {"", "go", "start", "start x", "start =%4", "property a s =1", "stop =a =b"}) {
    EXPECT_FALSE(parse_request_line(bad, request)) << bad;
  }
  ASSERT_TRUE(parse_request_line("start =a", request));
  for (const char* bad : {"property", "property a", "property a s", "property a s =1 =2", "property a v =1",
                          "property a a(ss) =1", "property a s 1"}) {
    EXPECT_FALSE(parse_request_line(bad, request)) << bad;
  }
  EXPECT_FALSE(parse_reply("ok"));
  EXPECT_FALSE(parse_reply("maybe =x"));
  EXPECT_EQ(parse_reply("error =a%20b")->text, "a b");
}

}  // namespace
}  // namespace agentrun::sandbox
