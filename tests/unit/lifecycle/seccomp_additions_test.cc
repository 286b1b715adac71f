#include "lifecycle/seccomp_additions.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "../sandbox/bpf.h"
#include "sys/file.h"

namespace agentrun::lifecycle {
namespace {

using sandbox::test::ask;
using sandbox::test::errno_of;

constexpr const char* kGood = R"({
  "cve": "CVE-2026-31431", "why": "AF_ALG and splice",
  "deny": [
    {"syscalls": ["socket", "socketpair"], "args": [{"index": 0, "is": [38]}], "errno": "EAFNOSUPPORT"},
    {"syscalls": ["mremap", "socket"], "args": [{"index": 3, "any_bit": "0x4"}, {"index": 1, "mask": "0xf", "is": ["0x1", 2]}]},
    {"syscalls": ["470", "getppid"]}
  ]})";

std::string refused(const std::string& text) {
  const auto addition = parse_seccomp_addition(text, "x.json");
  return addition ? "" : addition.error().message();
}

std::vector<sock_filter> program_of(std::initializer_list<std::string> texts) {
  std::vector<SeccompAddition> additions;
  for (const std::string& text : texts) additions.push_back(*parse_seccomp_addition(text, "x.json"));
  return compile_additions(additions)->at(0).instructions;
}

TEST(SeccompAdditions, WhatIsRead) {
  const auto addition = parse_seccomp_addition(kGood, "/etc/x.json");
  ASSERT_TRUE(addition) << addition.error().message();
  EXPECT_EQ(addition->file, "/etc/x.json");
  EXPECT_EQ(addition->cve, "CVE-2026-31431");
  EXPECT_EQ(addition->why, "AF_ALG and splice");
  EXPECT_EQ(addition->syscalls, (std::vector<std::string>{"socket", "socketpair", "mremap", "470", "getppid"}));
}

TEST(SeccompAdditions, TheyDenyAndNothingElse) {
  const auto program = program_of({kGood});
  constexpr std::uint64_t kHigh = std::uint64_t{1} << 32;
  EXPECT_EQ(ask(program, SYS_socket, {38}), errno_of(EAFNOSUPPORT));
  EXPECT_EQ(ask(program, SYS_socket, {kHigh | 38}), errno_of(EAFNOSUPPORT));
  EXPECT_EQ(ask(program, SYS_socketpair, {38}), errno_of(EAFNOSUPPORT));
  EXPECT_EQ(ask(program, SYS_socket, {2, 1, 0}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(ask(program, SYS_socket, {2, 1, 0, kHigh | 4}), errno_of(EPERM));
  EXPECT_EQ(ask(program, SYS_mremap, {0, 0xf2, 0, 0xc}), errno_of(EPERM));
  EXPECT_EQ(ask(program, SYS_mremap, {0, 3, 0, 4}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(ask(program, SYS_mremap, {0, 2, 0, 3}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(ask(program, 470), errno_of(EPERM));
  EXPECT_EQ(ask(program, SYS_getppid), errno_of(EPERM));
  EXPECT_EQ(ask(program, SYS_getpid), SECCOMP_RET_ALLOW);
  for (long number = 0; number < 500; ++number) {
    if (number == SYS_getppid || number == 470) continue;
    EXPECT_EQ(ask(program, number), SECCOMP_RET_ALLOW) << number;
  }
  EXPECT_TRUE(compile_additions({})->empty());
}

// What agentrun-seccomp.d(5) shows.
TEST(SeccompAdditions, TheExampleOfTheManPage) {
  const std::string page = *sys::read_file(SOURCE_DIR "/man/agentrun-seccomp.d.5");
  const std::size_t begin = page.find("\n{\n");
  ASSERT_NE(begin, std::string::npos);
  const std::string example = page.substr(begin, page.find("\n.Ed", begin) - begin);
  const auto addition = parse_seccomp_addition(example, "example.json");
  ASSERT_TRUE(addition) << addition.error().message();
  const auto program = program_of({example});
  EXPECT_EQ(ask(program, SYS_socket, {1, 02000001, 0}), errno_of(EAFNOSUPPORT));
  EXPECT_EQ(ask(program, SYS_socket, {1, 2, 0}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(ask(program, SYS_readahead), errno_of(EPERM));
}

// A file cannot undo what another one denies, whatever their names.
TEST(SeccompAdditions, SeveralFilesAddUp) {
  const std::string narrow = R"({"deny": [{"syscalls": ["kill"], "args": [{"index": 1, "is": [9]}], "errno": "EIO"}]})";
  const std::string wide = R"({"deny": [{"syscalls": ["kill"]}]})";
  EXPECT_EQ(ask(program_of({narrow, wide}), SYS_kill, {1, 9}), errno_of(EIO));
  EXPECT_EQ(ask(program_of({narrow, wide}), SYS_kill, {1, 1}), errno_of(EPERM));
  EXPECT_EQ(ask(program_of({wide, narrow}), SYS_kill, {1, 9}), errno_of(EPERM));
  EXPECT_EQ(ask(program_of({wide, narrow}), SYS_kill, {1, 1}), errno_of(EPERM));
}

TEST(SeccompAdditions, MalformedOnesAreRefusedWithFileAndPointer) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "x.json"},
      {"{", "x.json"},
      {"[]", "x.json"},
      {"{}", "/deny: missing"},
      {R"({"deny": []})", "/deny: nothing"},
      {R"({"deny": [{}]})", "/deny/0/syscalls: missing"},
      {R"({"deny": [{"syscalls": []}]})", "/deny/0/syscalls: no system call"},
      {R"({"deny": [{"syscalls": ["sokket"]}]})", "/deny/0/syscalls/0: system call sokket: unknown"},
      {R"({"deny": [{"syscalls": ["kill", 3]}]})", "/deny/0/syscalls/1"},
      {R"({"deny": [{"syscalls": ["kill"], "errno": "ENOTHING"}]})", "/deny/0/errno"},
      {R"({"deny": [{"syscalls": ["kill"], "errno": "allow"}]})", "/deny/0/errno"},
      {R"({"deny": [{"syscalls": ["kill"], "action": "allow"}]})", "/deny/0/action"},
      {R"({"allow": ["mount"], "deny": [{"syscalls": ["kill"]}]})", "/allow"},
      {R"({"cve": "today's", "deny": [{"syscalls": ["kill"]}]})", "/cve"},
      {R"({"why": "a\u001b[2J", "deny": [{"syscalls": ["kill"]}]})", "/why"},
      {R"({"deny": [{"syscalls": ["kill"], "args": [{"is": [1]}]}]})", "/deny/0/args/0/index: missing"},
      {R"({"deny": [{"syscalls": ["kill"], "args": [{"index": 6, "is": [1]}]}]})", "/deny/0/args/0/index"},
      {R"({"deny": [{"syscalls": ["kill"], "args": [{"index": 0}]}]})", "/deny/0/args/0: expected"},
      {R"({"deny": [{"syscalls": ["kill"], "args": [{"index": 0, "is": []}]}]})", "/deny/0/args/0/is: no value"},
      {R"({"deny": [{"syscalls": ["kill"], "args": [{"index": 0, "is": [1], "any_bit": 1}]}]})", "/deny/0/args/0"},
      {R"({"deny": [{"syscalls": ["kill"], "args": [{"index": 0, "mask": 1, "any_bit": 1}]}]})", "/deny/0/args/0"},
      {R"({"deny": [{"syscalls": ["kill"], "args": [{"index": 0, "any_bit": 0}]}]})", "without a bit"},
      {R"({"deny": [{"syscalls": ["kill"], "args": [{"index": 0, "mask": 1, "is": [2]}]}]})", "/deny/0/args/0/is"},
      {R"({"deny": [{"syscalls": ["kill"], "args": [{"index": 0, "is": [4294967296]}]}]})", "/deny/0/args/0/is/0"},
      {R"({"deny": [{"syscalls": ["kill"], "args": [{"index": 0, "is": [-1]}]}]})", "/deny/0/args/0/is/0"},
      {R"({"deny": [{"syscalls": ["kill"], "args": [{"index": 0, "is": ["0x"]}]}]})", "/deny/0/args/0/is/0"},
      {R"({"deny": [{"syscalls": ["execve"]}]})", "/deny/0/syscalls/0: no program can do without execve"},
      {R"({"deny": [{"syscalls": [")" + std::to_string(SYS_exit_group) + R"("]}]})", "no program can do without"},
      {std::string(65 * 1024, ' ') + R"({"deny": [{"syscalls": ["kill"]}]})", "x.json"},
  };
  for (const auto& [text, reason] : cases) {
    const std::string message = refused(text);
    EXPECT_NE(message.find("x.json"), std::string::npos) << text.substr(0, 80) << ": " << message;
    EXPECT_NE(message.find(reason), std::string::npos) << text.substr(0, 80) << ": " << message;
  }
  // More than one program can hold.
  std::string many = R"({"deny": [)";
  for (int i = 0; i < 200; ++i) {
    many += R"({"syscalls":["kill"],"args":[{"index":0,"is":[)";
    for (int j = 0; j < 10; ++j) many += std::to_string(i * 10 + j) + (j < 9 ? "," : "]}]},");
  }
  const auto large = parse_seccomp_addition(many + R"({"syscalls": ["mkdir"]}]})", "x.json");
  ASSERT_TRUE(large) << large.error().message();
  EXPECT_TRUE(compile_additions({*large}));
  const auto more = compile_additions(std::vector<SeccompAddition>(20, *large));
  ASSERT_FALSE(more);
  EXPECT_NE(more.error().message().find("more than the kernel takes"), std::string::npos);
}

TEST(SeccompAdditions, WhetherTheyDenyTheLoadingOfFilters) {
  const auto deny = [](const std::string& text) {
    return deny_seccomp_call({*parse_seccomp_addition(text, "x.json")});
  };
  const auto with = [&](const std::string& test) {
    return deny(R"({"deny": [{"syscalls": ["seccomp"], "args": [)" + test + "]}]}");
  };
  EXPECT_FALSE(deny(kGood));
  EXPECT_TRUE(deny(R"({"deny": [{"syscalls": ["kill"]}, {"syscalls": ["seccomp"]}]})"));
  EXPECT_TRUE(deny(R"({"deny": [{"syscalls": [")" + std::to_string(SYS_seccomp) + R"("]}]})"));
  EXPECT_TRUE(with(R"({"index": 0, "is": [1]})"));
  EXPECT_FALSE(with(R"({"index": 0, "is": [2]})"));
  EXPECT_FALSE(with(R"({"index": 1, "any_bit": 8})"));
  EXPECT_TRUE(with(R"({"index": 1, "is": [0]})"));
  EXPECT_TRUE(with(R"({"index": 2, "is": [7]})"));
  EXPECT_FALSE(with(R"({"index": 2, "is": [7]}, {"index": 1, "is": [8]})"));
}

class SeccompAdditionsDirectory : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "not root";
    path_ = testing::TempDir() + "agentrun-additions-XXXXXX";
    ASSERT_NE(mkdtemp(path_.data()), nullptr);
    fd_ = *sys::open(path_, O_RDONLY | O_DIRECTORY);
  }
  void TearDown() override {
    if (path_.empty()) return;
    const auto parent = sys::open(testing::TempDir(), O_PATH | O_DIRECTORY);
    ASSERT_TRUE(sys::remove_tree_at(parent->get(), path_.substr(testing::TempDir().size())));
  }
  void put(const std::string& name, const std::string& text, mode_t mode = 0644) {
    ASSERT_TRUE(sys::replace_file_at(fd_.get(), name, text, mode));
    ASSERT_EQ(fchmodat(fd_.get(), name.c_str(), mode, 0), 0);
  }
  std::string error() {
    const auto read = read_seccomp_additions(path_);
    return read ? "" : read.error().message();
  }

  std::string path_;
  UniqueFd fd_;
};

TEST_F(SeccompAdditionsDirectory, FilesByNameAndNoOthers) {
  EXPECT_TRUE(read_seccomp_additions(path_)->empty());
  EXPECT_TRUE(read_seccomp_additions(path_ + "/none")->empty());
  put("b.json", R"({"deny": [{"syscalls": ["kill"]}]})");
  put("a.json", R"({"cve": "CVE-2026-1", "deny": [{"syscalls": ["mkdir"]}]})");
  put("a.json~", "{");
  put(".c.json", "{");
  put("README", "words");
  const auto read = read_seccomp_additions(path_);
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ(read->at(0).file, path_ + "/a.json");
  EXPECT_EQ(read->at(0).cve, "CVE-2026-1");
  EXPECT_EQ(read->at(1).syscalls, std::vector<std::string>{"kill"});
}

TEST_F(SeccompAdditionsDirectory, WhatOthersCouldHaveWrittenIsRefused) {
  const std::string good = R"({"deny": [{"syscalls": ["kill"]}]})";
  put("a.json", good, 0664);
  EXPECT_EQ(error(), "seccomp addition " + path_ + "/a.json: others can write to it");
  put("a.json", good, 0646);
  EXPECT_NE(error(), "");
  put("a.json", good);
  EXPECT_EQ(error(), "");
  ASSERT_EQ(fchownat(fd_.get(), "a.json", 1234, 0, 0), 0);
  EXPECT_EQ(error(), "seccomp addition " + path_ + "/a.json: owned by uid 1234");
  put("a.json", good);
  ASSERT_EQ(fchmod(fd_.get(), 0777), 0);
  EXPECT_EQ(error(), "seccomp addition " + path_ + ": others can write to it");
  ASSERT_EQ(fchmod(fd_.get(), 0755), 0);
  ASSERT_EQ(fchown(fd_.get(), 1234, 0), 0);
  EXPECT_EQ(error(), "seccomp addition " + path_ + ": owned by uid 1234");
  ASSERT_EQ(fchown(fd_.get(), 0, 0), 0);
  EXPECT_EQ(error(), "");
}

TEST_F(SeccompAdditionsDirectory, OnlyFiles) {
  put("good", R"({"deny": [{"syscalls": ["kill"]}]})");
  ASSERT_EQ(symlinkat("good", fd_.get(), "a.json"), 0);
  EXPECT_EQ(error(), "seccomp addition " + path_ + "/a.json: a symbolic link");
  ASSERT_EQ(unlinkat(fd_.get(), "a.json", 0), 0);
  ASSERT_EQ(mkfifoat(fd_.get(), "a.json", 0644), 0);
  EXPECT_NE(error().find("not a regular file"), std::string::npos);
  ASSERT_EQ(unlinkat(fd_.get(), "a.json", 0), 0);
  ASSERT_EQ(mkdirat(fd_.get(), "a.json", 0755), 0);
  EXPECT_NE(error().find("not a regular file"), std::string::npos);
  ASSERT_EQ(symlinkat(path_.c_str(), fd_.get(), "link"), 0);
  EXPECT_FALSE(read_seccomp_additions(path_ + "/link"));
  EXPECT_FALSE(read_seccomp_additions(path_ + "/good"));
}

}  // namespace
}  // namespace agentrun::lifecycle
