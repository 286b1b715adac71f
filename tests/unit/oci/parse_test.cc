#include "oci/parse.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "parse_helpers.h"

namespace agentrun::oci {
namespace {

TEST(ParseConfig, TakesTheSmallest) {
  const auto config = parse_config(R"({"ociVersion":"1.0.0","root":{"path":"/r"}})", "config.json");
  ASSERT_TRUE(config.has_value()) << config.error().message();
  EXPECT_EQ(config->root.path, "/r");
  EXPECT_FALSE(config->root.readonly);
  EXPECT_FALSE(config->process.has_value());
  EXPECT_EQ(find_namespace(*config, NamespaceType::pid), nullptr);
}

TEST(ParseConfig, ReadsProcess) {
  const auto config = parse_config(R"({"ociVersion":"1.3.0","root":{"path":"rootfs","readonly":true},"process":{
    "terminal":true,"consoleSize":{"height":25,"width":65535},
    "user":{"uid":1000,"gid":4294967294,"umask":18,"additionalGids":[5,6]},
    "args":["/bin/sh","","a b"],"env":["PATH=/bin","EMPTY=","A=1","A=2","X=y=z"],"cwd":"/tmp",
    "capabilities":{"bounding":["CAP_KILL"],"effective":[],"inheritable":["CAP_CHOWN"],"permitted":["CAP_KILL"],"ambient":["CAP_BPF"]},
    "rlimits":[{"type":"RLIMIT_NOFILE","hard":18446744073709551615,"soft":1024},{"type":"RLIMIT_CORE","hard":0,"soft":0}],
    "noNewPrivileges":true,"apparmorProfile":"p","oomScoreAdj":-1000,
    "scheduler":{"policy":"SCHED_DEADLINE","nice":-20,"priority":3,"flags":["SCHED_FLAG_RECLAIM"],"runtime":1,"deadline":2,"period":18446744073709551615},
    "selinuxLabel":"l","ioPriority":{"class":"IOPRIO_CLASS_BE","priority":7},
    "execCPUAffinity":{"initial":"0-3,7","final":"1"}},
    "hostname":"h","domainname":"d","annotations":{"a":"b","c":""}})",
                                   "config.json");
  ASSERT_TRUE(config.has_value()) << config.error().message();
  EXPECT_EQ(config->oci_version, "1.3.0");
  EXPECT_TRUE(config->root.readonly);
  const Process& process = *config->process;
  EXPECT_TRUE(process.terminal);
  EXPECT_EQ(process.console_size->height, 25);
  EXPECT_EQ(process.console_size->width, 65535);
  EXPECT_EQ(process.user.uid, 1000u);
  EXPECT_EQ(process.user.gid, 4294967294u);
  EXPECT_EQ(process.user.umask, 18u);
  EXPECT_EQ(process.user.additional_gids, (std::vector<std::uint32_t>{5, 6}));
  EXPECT_EQ(process.args, (std::vector<std::string>{"/bin/sh", "", "a b"}));
  EXPECT_EQ(process.env, (std::vector<std::string>{"PATH=/bin", "EMPTY=", "A=1", "A=2", "X=y=z"}));
  EXPECT_EQ(process.cwd, "/tmp");
  EXPECT_EQ(process.capabilities->bounding, std::vector<std::string>{"CAP_KILL"});
  EXPECT_TRUE(process.capabilities->effective.empty());
  EXPECT_EQ(process.capabilities->inheritable, std::vector<std::string>{"CAP_CHOWN"});
  EXPECT_EQ(process.capabilities->ambient, std::vector<std::string>{"CAP_BPF"});
  ASSERT_EQ(process.rlimits.size(), 2u);
  EXPECT_EQ(process.rlimits[0].hard, UINT64_MAX);
  EXPECT_EQ(process.rlimits[0].soft, 1024u);
  EXPECT_TRUE(process.no_new_privileges);
  EXPECT_EQ(process.apparmor_profile, "p");
  EXPECT_EQ(process.oom_score_adj, -1000);
  EXPECT_EQ(process.scheduler->nice, -20);
  EXPECT_EQ(process.scheduler->period, UINT64_MAX);
  EXPECT_EQ(process.selinux_label, "l");
  EXPECT_EQ(process.io_priority->priority, 7);
  EXPECT_EQ(process.exec_cpu_affinity->initial, "0-3,7");
  EXPECT_EQ(config->hostname, "h");
  EXPECT_EQ(config->domainname, "d");
  EXPECT_EQ(config->annotations, (Annotations{{"a", "b"}, {"c", ""}}));
}

TEST(ParseConfig, ReadsMountsAndHooks) {
  const auto config = parse_config(
      config_text("", "", R"(,"mounts":[{"destination":"/proc","type":"proc"},{"destination":"data","source":"/d",
        "options":["rbind","ro"],"uidMappings":[{"containerID":0,"hostID":100000,"size":65536}],"gidMappings":[]}],
        "hooks":{"prestart":[{"path":"/h","args":["h","x"],"env":["A=b"],"timeout":5}],"createRuntime":[{"path":"/a"}],
        "createContainer":[{"path":"/b"}],"startContainer":[{"path":"/c"}],"poststart":[{"path":"/d"}],"poststop":[{"path":"/e"},{"path":"/f"}]})"),
      "config.json");
  ASSERT_TRUE(config.has_value()) << config.error().message();
  ASSERT_EQ(config->mounts.size(), 2u);
  EXPECT_EQ(config->mounts[0].type, "proc");
  EXPECT_EQ(config->mounts[1].destination, "data");
  EXPECT_EQ(config->mounts[1].options, (std::vector<std::string>{"rbind", "ro"}));
  EXPECT_EQ(config->mounts[1].uid_mappings.at(0).host_id, 100000u);
  EXPECT_EQ(config->hooks.prestart.at(0).timeout, 5);
  EXPECT_EQ(config->hooks.prestart.at(0).env, std::vector<std::string>{"A=b"});
  EXPECT_EQ(config->hooks.create_container.at(0).path, "/b");
  EXPECT_FALSE(config->hooks.create_runtime.at(0).timeout.has_value());
  EXPECT_EQ(config->hooks.poststop.at(1).path, "/f");
}

TEST(ParseConfig, IgnoresUnknownFields) {
  EXPECT_EQ(message_of(config_text(R"(,"future":{"a":[1.5,null]})", R"(,"landlock":true)", R"(,"vm":{},"x":"y")")),
            "no error");
}

TEST(ParseConfig, WantsAVersionThatItKnows) {
  const auto with_version = [](std::string_view version) {
    return message_of(R"({"ociVersion":")" + std::string(version) + R"(","root":{"path":"r"}})");
  };
  for (const char* version : {"1.0.0", "1.0.2-dev", "1.2.0+x", "1.3.0-rc.1+a.b-c", "1.99.0", "1.0.0-rc5-dev"}) {
    EXPECT_EQ(with_version(version), "no error") << version;
  }
  for (const char* version : {"", "1", "1.0", "1.0.0.0", "v1.0.0", "01.0.0", "1.00.0", "1.0.0-", "1.0.0+", "1.0.0-a..b",
                              "1.0.x", " 1.0.0", "1.0.0 ", "1.0.-1", "1.0.0-_"}) {
    EXPECT_EQ(with_version(version), at("/ociVersion", "invalid version \"" + std::string(version) + "\"")) << version;
  }
  EXPECT_EQ(with_version("2.0.0"), at("/ociVersion", "invalid version (1.x is understood) \"2.0.0\""));
  EXPECT_EQ(with_version("0.2.0"), at("/ociVersion", "invalid version (1.x is understood) \"0.2.0\""));
  EXPECT_EQ(message_of(R"({"root":{"path":"r"}})"), at("/ociVersion", "missing"));
  EXPECT_EQ(message_of(R"({"ociVersion":1,"root":{"path":"r"}})"), at("/ociVersion", "expected a string"));
}

TEST(ParseConfig, WantsARoot) {
  EXPECT_EQ(message_of(R"({"ociVersion":"1.0.0"})"), at("/root", "missing"));
  EXPECT_EQ(message_of(R"({"ociVersion":"1.0.0","root":{}})"), at("/root/path", "missing"));
  EXPECT_EQ(message_of(R"({"ociVersion":"1.0.0","root":{"path":""}})"), at("/root/path", "must not be empty"));
  EXPECT_EQ(message_of(R"({"ociVersion":"1.0.0","root":{"path":"r","readonly":1}})"),
            at("/root/readonly", "expected true or false"));
  EXPECT_EQ(message_of(R"({"ociVersion":"1.0.0","root":"r"})"), at("/root", "expected an object"));
}

TEST(ParseConfig, ChecksIds) {
  const auto with_uid = [](std::string_view uid) {
    return message_of(
        R"({"ociVersion":"1.0.0","root":{"path":"r"},"process":{"cwd":"/","args":["a"],"user":{"gid":0,"uid":)" +
        std::string(uid) + "}}}");
  };
  EXPECT_EQ(with_uid("4294967294"), "no error");
  // setresuid(-1) changes nothing: the process would stay root.
  EXPECT_EQ(with_uid("4294967295"),
            at("/process/user/uid", "expected an integer from 0 to 4294967294: 4294967295 means no id"));
  const std::string range = at("/process/user/uid", "expected an integer from 0 to 4294967295");
  EXPECT_EQ(with_uid("4294967296"), range);
  EXPECT_EQ(with_uid("-1"), range);
  EXPECT_EQ(with_uid("18446744073709551616"), range);
  EXPECT_EQ(with_uid("1.5"), at("/process/user/uid", "expected an integer"));
  EXPECT_EQ(with_uid("\"0\""), at("/process/user/uid", "expected an integer"));
  EXPECT_EQ(with_uid("null"), at("/process/user/uid", "missing"));
  EXPECT_EQ(process_message(R"(,"x":0)"), "no error");
}

TEST(ParseConfig, WantsUserArgsAndCwd) {
  const auto with_process = [](std::string_view process) {
    return message_of(R"({"ociVersion":"1.0.0","root":{"path":"r"},"process":)" + std::string(process) + "}");
  };
  const std::string user = R"("user":{"uid":0,"gid":0})";
  EXPECT_EQ(with_process(R"({"cwd":"/","args":["a"]})"), at("/process/user", "missing"));
  EXPECT_EQ(with_process("{" + user + R"(,"args":["a"]})"), at("/process/cwd", "missing"));
  EXPECT_EQ(with_process("{" + user + R"(,"args":["a"],"cwd":"tmp"})"),
            at("/process/cwd", "invalid absolute path \"tmp\""));
  const std::string empty = at("/process/args", "process.args must not be empty");
  EXPECT_EQ(with_process("{" + user + R"(,"args":[],"cwd":"/"})"), empty);
  EXPECT_EQ(with_process("{" + user + R"(,"cwd":"/"})"), empty);
  EXPECT_EQ(with_process("{" + user + R"(,"args":[1],"cwd":"/"})"), at("/process/args/0", "expected a string"));
  EXPECT_EQ(with_process("{" + user + R"(,"args":["a\u0000b"],"cwd":"/"})"),
            at("/process/args/0", "a string with a NUL character"));
}

struct Case {
  const char* members;
  const char* pointer;
  const char* reason;
};

TEST(ParseConfig, RefusesBadProcesses) {
  const std::vector<Case> cases = {
      {R"(,"env":["A"])", "/process/env/0", "expected KEY=VALUE"},
      {R"(,"env":["A=b","=b"])", "/process/env/1", "expected KEY=VALUE"},
      {R"(,"env":{"A":"b"})", "/process/env", "expected an array"},
      {R"(,"env":["A=\u0000"])", "/process/env/0", "a string with a NUL character"},
      {R"(,"terminal":"yes")", "/process/terminal", "expected true or false"},
      {R"(,"consoleSize":{"height":65536,"width":1})", "/process/consoleSize/height",
       "expected an integer from 0 to 65535"},
      {R"(,"consoleSize":{"height":1})", "/process/consoleSize/width", "missing"},
      {R"(,"oomScoreAdj":1001)", "/process/oomScoreAdj", "expected an integer from -1000 to 1000"},
      {R"(,"capabilities":{"bounding":["CAP_KILL","cap kill"]})", "/process/capabilities/bounding/1",
       "invalid capability \"cap kill\""},
      {R"(,"capabilities":[])", "/process/capabilities", "expected an object"},
      {R"(,"rlimits":[{"type":"RLIMIT_FOO","hard":1,"soft":1}])", "/process/rlimits/0/type",
       "invalid rlimit \"RLIMIT_FOO\""},
      {R"(,"rlimits":[{"type":"RLIMIT_AS","hard":1,"soft":2}])", "/process/rlimits/0/soft", "larger than hard"},
      {R"(,"rlimits":[{"type":"RLIMIT_AS","hard":-1,"soft":2}])", "/process/rlimits/0/hard",
       "expected an integer from 0 to 18446744073709551615"},
      {R"(,"rlimits":[{"type":"RLIMIT_AS","hard":1,"soft":1},{"type":"RLIMIT_AS","hard":1,"soft":1}])",
       "/process/rlimits", "the same type twice"},
      {R"(,"scheduler":{"policy":"SCHED_X"})", "/process/scheduler/policy", "invalid scheduler policy \"SCHED_X\""},
      {R"(,"scheduler":{})", "/process/scheduler/policy", "missing"},
      {R"(,"scheduler":{"policy":"SCHED_RR","flags":["X"]})", "/process/scheduler/flags/0",
       "invalid scheduler flag \"X\""},
      {R"(,"scheduler":{"policy":"SCHED_RR","nice":2147483648})", "/process/scheduler/nice",
       "expected an integer from -2147483648 to 2147483647"},
      {R"(,"ioPriority":{"class":"IOPRIO_CLASS_NONE","priority":1})", "/process/ioPriority/class",
       "invalid I/O priority class \"IOPRIO_CLASS_NONE\""},
      {R"(,"ioPriority":{"class":"IOPRIO_CLASS_BE","priority":8})", "/process/ioPriority/priority",
       "expected an integer from 0 to 7"},
      {R"(,"execCPUAffinity":{"initial":"3-1"})", "/process/execCPUAffinity/initial", "invalid CPU list \"3-1\""},
      {R"(,"execCPUAffinity":{"final":"a"})", "/process/execCPUAffinity/final", "invalid CPU list \"a\""},
      {R"(,"execCPUAffinity":{"final":"0-65536"})", "/process/execCPUAffinity/final", "invalid CPU list \"0-65536\""},
  };
  for (const Case& entry : cases) EXPECT_EQ(process_message(entry.members), at(entry.pointer, entry.reason));
}

TEST(ParseConfig, RefusesBadUsers) {
  const auto with_user = [](std::string_view members) {
    return message_of(
        R"({"ociVersion":"1.0.0","root":{"path":"r"},"process":{"cwd":"/","args":["a"],"user":{"uid":0,"gid":0,)" +
        std::string(members) + "}}}");
  };
  EXPECT_EQ(with_user(R"("umask":512)"), at("/process/user/umask", "expected an integer from 0 to 511"));
  EXPECT_EQ(with_user(R"("additionalGids":[1,-1])"),
            at("/process/user/additionalGids/1", "expected an integer from 0 to 4294967295"));
  EXPECT_EQ(with_user(R"("additionalGids":[4294967295])"),
            at("/process/user/additionalGids/0", "expected an integer from 0 to 4294967294: 4294967295 means no id"));
}

TEST(ParseConfig, RefusesBadTopMembers) {
  const std::vector<Case> cases = {
      {R"(,"hooks":{"prestart":[{"path":"h"}]})", "/hooks/prestart/0/path", "invalid absolute path \"h\""},
      {R"(,"hooks":{"poststop":[{}]})", "/hooks/poststop/0/path", "missing"},
      {R"(,"hooks":{"poststop":[{"path":"/h","timeout":0}]})", "/hooks/poststop/0/timeout",
       "expected an integer from 1 to 2147483647"},
      {R"(,"hooks":{"poststop":[{"path":"/h","env":["x"]}]})", "/hooks/poststop/0/env/0", "expected KEY=VALUE"},
      {R"(,"mounts":[{"type":"proc"}])", "/mounts/0/destination", "missing"},
      {R"(,"mounts":[{"destination":""}])", "/mounts/0/destination", "must not be empty"},
      {R"(,"mounts":[{"destination":"/a\u0000"}])", "/mounts/0/destination", "a string with a NUL character"},
      {R"(,"mounts":[{"destination":"/a","options":"ro"}])", "/mounts/0/options", "expected an array"},
      {R"(,"mounts":{"destination":"/a"})", "/mounts", "expected an array"},
      {R"(,"mounts":[{"destination":"/a","uidMappings":[{"containerID":1,"hostID":0,"size":0}]}])",
       "/mounts/0/uidMappings/0/size", "expected an integer from 1 to 4294967295"},
      {R"(,"annotations":{"a":1})", "/annotations/a", "expected a string"},
      {R"(,"annotations":{"":"x"})", "/annotations/", "must not be empty"},
      {R"(,"hostname":"0123456789012345678901234567890123456789012345678901234567890123x")", "/hostname",
       "longer than 64 bytes"},
  };
  for (const Case& entry : cases) {
    EXPECT_EQ(message_of(config_text("", "", entry.members)), at(entry.pointer, entry.reason));
  }
}

TEST(ParseConfig, SurvivesHostileTexts) {
  EXPECT_EQ(message_of(""), "parse config.json line 1, column 1: the text ends in the middle of a value");
  EXPECT_EQ(message_of("{\"ociVersion\":"),
            "parse config.json line 1, column 15: the text ends in the middle of a value");
  EXPECT_EQ(message_of("null"), "parse config.json: expected an object");
  EXPECT_NE(message_of(config_text("", ",\"x\":" + std::string(10000, '['))).find("deeper than 64"), std::string::npos);
  EXPECT_EQ(message_of(config_text("", ",\"x\":\"" + std::string(64u << 20, 'x') + "\"")),
            "parse config.json: larger than 16777216 bytes");
  EXPECT_NE(message_of("{\"ociVersion\":\"1.0.0\xc3\"}").find("not JSON"), std::string::npos);
  EXPECT_EQ(message_of(config_text("", "", R"(,"root":{"path":"/"})")),
            at("/root", "the same key twice in one object"));
  // Every beginning of a good text is an error, none is a crash.
  const std::string whole = config_text(R"(,"env":["A=b"])", R"(,"namespaces":[{"type":"pid"}])");
  EXPECT_EQ(message_of(whole), "no error");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(message_of(whole.substr(0, size)), "no error") << size;
  }
}

TEST(ParseConfig, PutsHostileTextIntoMessagesSafely) {
  const std::string text = process_message(R"(,"execCPUAffinity":{"final":"\u001b[2J\n"})");
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const std::string secret = process_message(R"(,"env":["hunter2"])");
  EXPECT_EQ(secret.find("hunter2"), std::string::npos);
}

TEST(ParseProcess, IsTheProcessOfAConfig) {
  const auto process = parse_process(R"({"user":{"uid":7,"gid":8},"args":["ls"],"cwd":"/"})", "process.json");
  ASSERT_TRUE(process.has_value()) << process.error().message();
  EXPECT_EQ(process->user.uid, 7u);
  const auto bad = parse_process(R"({"user":{"uid":7,"gid":8},"args":[],"cwd":"/"})", "process.json");
  ASSERT_TRUE(bad.has_error());
  EXPECT_EQ(bad.error().message(), "parse process.json /args: process.args must not be empty");
}

}  // namespace
}  // namespace agentrun::oci
