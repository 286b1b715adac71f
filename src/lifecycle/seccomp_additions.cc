#include "lifecycle/seccomp_additions.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "lifecycle/trusted_file.h"
#include "oci/json_reader.h"
#include "sys/file.h"

namespace agentrun::lifecycle {

using oci::JsonReader;

namespace {

constexpr std::size_t kFileSizeLimit = 64 * 1024;
constexpr std::size_t kMostFiles = 256;

std::string check_cve(const std::string& cve) {
  const auto fits = [](char c) { return (c >= '0' && c <= '9') || c == '-'; };
  constexpr std::string_view kPrefix = "CVE-";
  if (cve.size() <= 32 && cve.starts_with(kPrefix) && std::all_of(cve.begin() + kPrefix.size(), cve.end(), fits)) {
    return {};
  }
  return "expected one like \"CVE-2026-12345\"";
}

std::string check_why(const std::string& why) {
  // It is shown on terminals and in reports.
  const bool plain = std::all_of(why.begin(), why.end(), [](char c) { return static_cast<unsigned char>(c) >= ' '; });
  return plain ? std::string() : "a control character";
}

std::string check_syscall(const std::string& name) {
  // Without these no container starts or ends: that would be no hardening.
  for (const std::string_view needed : {"execve", "exit", "exit_group", "rt_sigreturn"}) {
    const auto number = sandbox::call_number(std::string(needed), sandbox::kNativeCallAbi);
    const auto given = sandbox::call_number(name, sandbox::kNativeCallAbi);
    if (!given) return given.error().message() + "; a call that is too young to have a name here goes by its number";
    if (number && *number && *given == *number) return "no program can do without " + std::string(needed);
  }
  return {};
}

std::string check_errno(const std::string& name) {
  return sandbox::errno_action(name) ? std::string() : "expected the name of an errno, such as \"EPERM\"";
}

// A number, or text of one: JSON has no hexadecimal.
Result<std::uint32_t> value_of(const JsonReader& in) {
  if (const auto number = in.unsigned_integer(UINT32_MAX)) return static_cast<std::uint32_t>(*number);
  const auto text = in.string();
  const auto value = text ? sandbox::parse_call_value(*text) : std::nullopt;
  if (!value) return in.error("expected a number of at most 32 bits, or text such as \"0x10\"");
  return *value;
}

}  // namespace

// Types of our own, in the namespace where the reader looks for their from_json.
struct AdditionValue {
  std::uint32_t number = 0;
};
struct AdditionTest : sandbox::ArgumentTest {};

static Result<void> from_json(const JsonReader& in, AdditionValue& out) {
  out.number = TRY(value_of(in));
  return ok();
}

static Result<void> from_json(const JsonReader& in, AdditionTest& out) {
  TRY(in.require("index", out.argument, [](unsigned index) {
    return index <= 5 ? std::string() : std::string("there are six arguments, 0 to 5");
  }));
  std::optional<AdditionValue> mask, any_bit;
  std::vector<AdditionValue> values;
  TRY(in.read("mask", mask));
  TRY(in.read("any_bit", any_bit));
  TRY(in.read("is", values));
  if (any_bit.has_value() == in.has("is") || (any_bit && mask)) {
    return in.error("expected \"is\", with or without \"mask\", or \"any_bit\"");
  }
  if (any_bit) out.any_bit = true;
  if (any_bit || mask) out.mask = (any_bit ? any_bit : mask)->number;
  if (out.mask == 0) return in.error("a mask without a bit");
  if (!any_bit && values.empty()) return in.error_at("is", "no value");
  if (values.size() > 64) return in.error_at("is", "more than 64 values");
  for (const AdditionValue& value : values) {
    if ((value.number & ~out.mask) != 0) return in.error_at("is", "a value with bits outside of the mask");
    out.values.push_back(value.number);
  }
  return ok();
}

static Result<void> from_json(const JsonReader& in, SeccompDenial& out) {
  std::string code = "EPERM";
  TRY(in.require("syscalls", out.syscalls, check_syscall));
  std::vector<AdditionTest> tests;
  TRY(in.read("args", tests));
  TRY(in.read("errno", code, check_errno));
  if (out.syscalls.empty()) return in.error_at("syscalls", "no system call");
  // Of tests on one argument each six is enough, and a program of bounded size can be made.
  if (tests.size() > 6) return in.error_at("args", "more than 6 tests");
  out.args.assign(tests.begin(), tests.end());
  out.action = *sandbox::errno_action(code);
  return ok();
}

static Result<void> from_json(const JsonReader& in, SeccompAddition& out) {
  TRY(in.read("cve", out.cve, check_cve));
  TRY(in.read("why", out.why, check_why));
  TRY(in.require("deny", out.deny));
  if (out.deny.empty()) return in.error_at("deny", "nothing to deny");
  return ok();
}

namespace {

Result<SeccompAddition> read_addition(int directory, const std::string& name, const std::string& path) {
  // O_NONBLOCK: a FIFO would hold us for ever.
  auto opened = sys::open_at(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (!opened && opened.error().code == ELOOP) return refusal("seccomp addition", path, "a symbolic link");
  if (!opened) return os_error(opened.error().code, "open", path);
  const UniqueFd file = *std::move(opened);
  const struct stat status = TRY(sys::stat_fd(file.get(), path));
  if (!S_ISREG(status.st_mode)) return refusal("seccomp addition", path, "not a regular file");
  TRY(check_administrators("seccomp addition", path, TRY(sys::path_of(file.get())), status));
  return parse_seccomp_addition(TRY(sys::read_fd(file.get(), path, kFileSizeLimit)), path);
}

// For seccomp(SECCOMP_SET_MODE_FILTER, 0, pointer). What is asked about the pointer may be so.
bool may_hold(const sandbox::ArgumentTest& test) {
  constexpr std::array<std::uint32_t, 2> kArguments = {SECCOMP_SET_MODE_FILTER, 0};
  if (test.argument >= kArguments.size()) return true;
  const std::uint32_t bits = kArguments[test.argument] & test.mask;
  return test.any_bit ? bits != 0 : std::find(test.values.begin(), test.values.end(), bits) != test.values.end();
}

}  // namespace

Result<SeccompAddition> parse_seccomp_addition(std::string_view json, const std::string& name) {
  const auto document = TRY(oci::JsonDocument::parse(json, name, kFileSizeLimit, oci::UnknownKeys::refused));
  SeccompAddition addition;
  addition.file = name;
  TRY(document.read(addition));
  for (const SeccompDenial& denial : addition.deny) {
    for (const std::string& call : denial.syscalls) {
      auto& all = addition.syscalls;
      if (std::find(all.begin(), all.end(), call) == all.end()) all.push_back(call);
    }
  }
  return addition;
}

Result<std::vector<SeccompAddition>> read_seccomp_additions(const std::string& directory) {
  std::vector<SeccompAddition> additions;
  // To read: the names are listed through it.
  auto opened = sys::open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!opened && opened.error().code == ENOENT) return additions;
  const UniqueFd fd = TRY(std::move(opened));
  const struct stat status = TRY(sys::stat_fd(fd.get(), directory));
  TRY(check_administrators("seccomp addition", directory, TRY(sys::path_of(fd.get())), status));
  std::vector<std::string> names = TRY(sys::list_directory(fd.get(), "."));
  std::erase_if(names, [](const std::string& name) { return name.starts_with('.') || !name.ends_with(".json"); });
  if (names.size() > kMostFiles) return refusal("seccomp additions", directory, "more than 256 files");
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    additions.push_back(TRY(read_addition(fd.get(), name, directory + "/" + name)));
  }
  return additions;
}

Result<std::vector<sandbox::SeccompProgram>> compile_additions(const std::vector<SeccompAddition>& additions) {
  std::vector<sandbox::SeccompProgram> programs;
  if (additions.empty()) return programs;
  sandbox::CallRules rules;
  rules.otherwise = SECCOMP_RET_ALLOW;
  for (const SeccompAddition& addition : additions) {
    for (const SeccompDenial& denial : addition.deny) {
      for (const std::string& name : denial.syscalls) {
        const auto number = TRY(sandbox::call_number(name, sandbox::kNativeCallAbi));
        if (number) rules.calls[*number].push_back({denial.args, denial.action});
      }
    }
  }
  auto instructions = sandbox::assemble(rules, sandbox::kNativeCallAbi);
  if (!instructions) return refusal("seccomp additions", kSeccompAdditions, instructions.error().reason);
  programs.emplace_back().instructions = *std::move(instructions);
  return programs;
}

bool deny_seccomp_call(const std::vector<SeccompAddition>& additions) {
  const auto seccomp = sandbox::call_number("seccomp", sandbox::kNativeCallAbi);
  const auto names_it = [&](const std::string& name) {
    const auto number = sandbox::call_number(name, sandbox::kNativeCallAbi);
    return number && *number && *number == *seccomp;
  };
  return std::any_of(additions.begin(), additions.end(), [&](const SeccompAddition& addition) {
    return std::any_of(addition.deny.begin(), addition.deny.end(), [&](const SeccompDenial& denial) {
      return std::any_of(denial.syscalls.begin(), denial.syscalls.end(), names_it) &&
             std::all_of(denial.args.begin(), denial.args.end(), may_hold);
    });
  });
}

}  // namespace agentrun::lifecycle
