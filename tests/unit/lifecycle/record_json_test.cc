#include "lifecycle/record_json.h"

#include <gtest/gtest.h>

namespace agentrun::lifecycle {
namespace {

Record full_record() {
  Record record;
  record.id = "web-1";
  record.bundle = "/bundles/\xff\xfe";  // a path is bytes
  record.rootfs = "/bundles/rootfs";
  record.created = "2026-01-02T03:04:05.678901Z";
  record.owner = "root";
  record.annotations = {{"a", "1"}, {"b\n", "\"quoted\""}};
  record.process = {1234, 18446744073709551615ULL, "boot"};
  record.supervisor = {1235, 7, "boot"};
  record.cgroup.manager = sandbox::CgroupManager::systemd;
  record.cgroup.v2 = "/sys/fs/cgroup/x";
  record.cgroup.v1 = {{"cpu,cpuacct", "/sys/fs/cgroup/cpu/x"}, {"pids", "/sys/fs/cgroup/pids/x"}};
  record.cgroup.parents = {"/sys/fs/cgroup/pids/top", "/sys/fs/cgroup/pids/top/below"};
  record.cgroup.unit = "agentrun-web-1.scope";
  record.cgroup.slice = "machine.slice";
  record.cgroup.inode = 9007199254740993ULL;  // a double would lose the last bit
  record.started = true;
  record.policy = "strict";
  record.backend = "runsc";
  record.audit = true;
  record.deadline = {111, 222, 333, "boot"};
  record.exit_reason = "deadline";
  record.kill_pending = true;
  record.console = "/dev/pts/0";
  record.private_ids = policy::PrivateIds{1'000'000, 4'294'900'000, 65'536};
  return record;
}

TEST(RecordJson, EveryFieldComesBack) {
  const Record record = full_record();
  const std::string text = print_record(record);
  const auto back = parse_record(text, "state.json");
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->id, record.id);
  EXPECT_EQ(back->bundle, record.bundle);
  EXPECT_EQ(back->rootfs, record.rootfs);
  EXPECT_EQ(back->created, record.created);
  EXPECT_EQ(back->owner, record.owner);
  EXPECT_EQ(back->annotations, record.annotations);
  EXPECT_EQ(back->process.pid, record.process.pid);
  EXPECT_EQ(back->process.start_time, record.process.start_time);
  EXPECT_EQ(back->process.boot_id, record.process.boot_id);
  EXPECT_EQ(back->supervisor.pid, record.supervisor.pid);
  EXPECT_EQ(back->supervisor.start_time, record.supervisor.start_time);
  EXPECT_EQ(back->supervisor.boot_id, record.supervisor.boot_id);
  EXPECT_EQ(back->cgroup.manager, record.cgroup.manager);
  EXPECT_EQ(back->cgroup.v2, record.cgroup.v2);
  EXPECT_EQ(back->cgroup.v1, record.cgroup.v1);
  EXPECT_EQ(back->cgroup.parents, record.cgroup.parents);
  EXPECT_EQ(back->cgroup.unit, record.cgroup.unit);
  EXPECT_EQ(back->cgroup.slice, record.cgroup.slice);
  EXPECT_EQ(back->cgroup.inode, record.cgroup.inode);
  EXPECT_EQ(back->private_ids, record.private_ids);
  EXPECT_EQ(back->started, record.started);
  EXPECT_EQ(back->policy, record.policy);
  EXPECT_EQ(back->backend, record.backend);
  EXPECT_EQ(back->audit, record.audit);
  EXPECT_EQ(back->deadline.at_us, record.deadline.at_us);
  EXPECT_EQ(back->deadline.length_us, record.deadline.length_us);
  EXPECT_EQ(back->deadline.created_us, record.deadline.created_us);
  EXPECT_EQ(back->deadline.boot_id, record.deadline.boot_id);
  EXPECT_EQ(back->exit_reason, record.exit_reason);
  EXPECT_EQ(back->kill_pending, record.kill_pending);
  EXPECT_EQ(back->console, record.console);
  // And none was forgotten above: what is printed of the one and of the other is the same text.
  EXPECT_EQ(print_record(*back), text);
}

TEST(RecordJson, EveryTruncationIsAnError) {
  const std::string text = print_record(full_record());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(parse_record(std::string_view(text).substr(0, length), "state.json")) << length;
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(RecordJson, WrongTypesNameTheField) {
  const std::string text = print_record(full_record());
  const struct {
    const char *from, *to, *pointer;
  } cases[] = {
      {"\"id\":\"web-1\"", "\"id\":1", "/id"},
      {"\"id\":\"web-1\"", "\"id\":\"../x\"", "container id"},
      {"\"pid\":1234", "\"pid\":-1", "/process/pid"},
      {"\"pid\":1234", "\"pid\":\"1234\"", "/process/pid"},
      {"\"pid\":1234", "\"pid\":4294967297", "/process/pid"},
      {"\"start_time\":7", "\"start_time\":-7", "/supervisor/start_time"},
      {"\"started\":true", "\"started\":1", "/started"},
      {"\"at_us\":111", "\"at_us\":1.5", "/deadline/at_us"},
      {"\"manager\":\"systemd\"", "\"manager\":\"other\"", "/cgroup/manager"},
      {"\"annotations\":{\"a\":\"1\"", "\"annotations\":{\"a\":1", "/annotations"},
      {"\"process\":{", "\"process\":7,\"x\":{", "/process"},
      {"\"process\":{", "\"processes\":{", "/process"},
      {"\"cgroup\":{", "\"cgroups\":{", "/cgroup"},
      {"\"console\":\"", "\"console\":\"\\u0000", "/console"},
      {"\"format\":1", "\"formats\":1", "/format"},
      {"\"format\":1", "\"format\":0", "/format"},
      {"\"format\":1", "\"format\":\"1\"", "/format"},
  };
  for (const auto& test : cases) {
    const auto parsed = parse_record(replaced(text, test.from, test.to), "state.json");
    ASSERT_FALSE(parsed) << test.to;
    EXPECT_NE(parsed.error().message().find(test.pointer), std::string::npos) << parsed.error().message();
  }
}

TEST(RecordJson, NewerFormatIsRefusedWithASentence) {
  const auto parsed = parse_record(replaced(print_record(full_record()), "\"format\":1", "\"format\":2"), "state.json");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().message(),
            "read state.json: format 2 is newer than this agentrun's (1): use the release that made the container");
}

TEST(RecordJson, DeepNestingIsRefused) {
  EXPECT_FALSE(parse_record(std::string(100000, '['), "state.json"));
  EXPECT_FALSE(parse_record("[]", "state.json"));
  EXPECT_FALSE(parse_record("", "state.json"));
}

TEST(RecordJson, IntentComesBack) {
  Intent intent;
  intent.id = "a";
  intent.creator = {77, 88, "boot"};
  intent.cgroup.v2 = "/sys/fs/cgroup/a";
  const auto back = parse_intent(print_intent(intent), "intent.json");
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(back->id, "a");
  EXPECT_EQ(back->creator.pid, 77);
  EXPECT_EQ(back->creator.start_time, 88u);
  EXPECT_EQ(back->cgroup.v2, "/sys/fs/cgroup/a");
  EXPECT_FALSE(parse_intent("{\"format\":1,\"id\":\"a\"}", "intent.json"));
}

TEST(RecordJson, ExitNoteComesBack) {
  ExitNote note{"deadline", true, 9};
  const auto back = parse_exit_note(print_exit_note(note), "exit.json");
  ASSERT_TRUE(back);
  EXPECT_EQ(back->reason, "deadline");
  EXPECT_TRUE(back->kill_pending);
  EXPECT_EQ(back->status, 9);
  note.status.reset();
  EXPECT_EQ(parse_exit_note(print_exit_note(note), "exit.json")->status, std::nullopt);
}

TEST(RecordJson, PrivateIdsAreIds) {
  Record record = full_record();
  record.private_ids.reset();
  EXPECT_FALSE(parse_record(print_record(record), "state.json")->private_ids);
  Intent intent;
  intent.id = "x";
  intent.private_ids = policy::PrivateIds{7, 8, 9};
  EXPECT_EQ(parse_intent(print_intent(intent), "intent.json")->private_ids, intent.private_ids);
  for (const char* bad :
       {R"("private_ids":{"uid":0,"gid":8,"size":9})", R"("private_ids":{"uid":4294967296,"gid":8,"size":9})",
        R"("private_ids":{"uid":1})", R"("private_ids":7)"}) {
    const std::string text = std::string(R"({"format":1,"id":"x","creator":{},"cgroup":{},)") + bad + "}";
    EXPECT_FALSE(parse_intent(text, "intent.json")) << bad;
  }
}

}  // namespace
}  // namespace agentrun::lifecycle
