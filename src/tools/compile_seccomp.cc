// Compiles a seccomp program of policies/seccomp/*.json into the rows of a C array of sock_filter, when agentrun is
// built. It runs on the machine that builds, for the architecture of that machine.
//
// The language:
//   "default"  what every other system call answers with
//   "allow"    names that are allowed whatever their arguments
//   "rules"    name -> list, the first entry whose conditions all hold decides; the last entry has none
//              {"arg": N, "is": [values]}            one of them
//              {"arg": N, "mask": M, "is": [values]}  one of them, of the bits of M
//              {"arg": N, "any_bit": M}               at least one bit of M is set
//   "why"      in an entry: for the reader
//   actions    "allow", "success" (does nothing and returns 0) or the name of an errno
//
// Arguments are compared by their low 32 bits. The kernel truncates `int` arguments, a filter sees the whole register:
// a rule on all 64 bits is passed by whoever sets bit 32. A value in the language can therefore not be larger than 32
// bits, and no argument that the kernel takes as 64 bits may get a rule (clone's flags: the kernel reads the low half
// only).
//
// libseccomp is asked only for the numbers of the calls: its own filters cannot say "first match", so that the same
// rules would take two programs of four times the size.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace json = boost::json;
using Program = std::vector<sock_filter>;

#if defined(__x86_64__)
constexpr std::uint32_t kAuditArch = AUDIT_ARCH_X86_64;
constexpr bool kHasX32 = true;
#elif defined(__aarch64__)
constexpr std::uint32_t kAuditArch = AUDIT_ARCH_AARCH64;
constexpr bool kHasX32 = false;
#else
#error "the strict seccomp program knows x86-64 and aarch64 only"
#endif
constexpr std::uint32_t kX32Bit = 0x40000000;

[[noreturn]] void fail(const std::string& reason) { throw std::runtime_error(reason); }

sock_filter statement(unsigned code, std::uint32_t k) { return {static_cast<std::uint16_t>(code), 0, 0, k}; }

sock_filter jump(unsigned code, std::uint32_t k, std::size_t if_true, std::size_t if_false) {
  if (if_true > 255 || if_false > 255) fail("a conditional jump is too far");
  return {static_cast<std::uint16_t>(BPF_JMP | code | BPF_K), static_cast<std::uint8_t>(if_true),
          static_cast<std::uint8_t>(if_false), k};
}

sock_filter load(std::size_t offset) { return statement(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)); }

void append(Program& program, const Program& more) { program.insert(program.end(), more.begin(), more.end()); }

std::uint32_t action_of(const std::string& name) {
  static const std::map<std::string, int> errnos = {{"EPERM", EPERM},
                                                    {"EACCES", EACCES},
                                                    {"EINVAL", EINVAL},
                                                    {"ENOSYS", ENOSYS},
                                                    {"EOPNOTSUPP", EOPNOTSUPP},
                                                    {"EAFNOSUPPORT", EAFNOSUPPORT},
                                                    {"ENOPROTOOPT", ENOPROTOOPT},
                                                    {"EPROTONOSUPPORT", EPROTONOSUPPORT},
                                                    {"success", 0}};
  if (name == "allow") return SECCOMP_RET_ALLOW;
  const auto found = errnos.find(name);
  if (found == errnos.end()) fail("unknown action " + name);
  return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(found->second);
}

// The number of a call; -1 where this architecture has no such call. A name that nobody knows is a mistake in the file.
int number_of(const std::string& name) {
  // Calls that are younger than the oldest libseccomp that we build with; one number for all architectures.
  static const std::map<std::string, int> young = {{"futex_waitv", 449}, {"cachestat", 451},  {"fchmodat2", 452},
                                                   {"futex_wake", 454},  {"futex_wait", 455}, {"futex_requeue", 456},
                                                   {"mseal", 462}};
  const int number = seccomp_syscall_resolve_name(name.c_str());
  if (number >= 0) return number;
  if (const auto found = young.find(name); found != young.end()) return found->second;
  if (number == __NR_SCMP_ERROR) fail("unknown system call " + name);
  return -1;
}

std::uint32_t value_of(const json::value& value) {
  const std::string text(value.as_string());
  std::size_t used = 0;
  const unsigned long long number = std::stoull(text, &used, 0);
  if (used != text.size() || number > UINT32_MAX) fail("not a number of 32 bits: " + text);
  return static_cast<std::uint32_t>(number);
}

// Falls through where the condition holds; else skips `rest` instructions after its own.
Program condition_of(const json::object& condition, std::size_t rest) {
  const auto argument = static_cast<std::size_t>(condition.at("arg").as_int64());
  if (argument > 5) fail("no such argument");
  // Little endian on both architectures: the low half comes first.
  Program program{load(offsetof(seccomp_data, args) + 8 * argument)};
  std::size_t keys = 1;
  if (const auto* mask = condition.if_contains("any_bit")) {
    program.push_back(jump(BPF_JSET, value_of(*mask), 0, rest));
    keys += 1;
  } else {
    if (const auto* bits = condition.if_contains("mask")) {
      program.push_back(statement(BPF_ALU | BPF_AND | BPF_K, value_of(*bits)));
      keys += 1;
    }
    const json::array& values = condition.at("is").as_array();
    keys += 1;
    if (values.empty()) fail("an empty \"is\"");
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t left = values.size() - 1 - i;
      program.push_back(jump(BPF_JEQ, value_of(values[i]), left, left == 0 ? rest : 0));
    }
  }
  if (keys != condition.size()) fail("an unknown key in a condition");
  return program;
}

Program rule_block(const json::array& rules) {
  Program block;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const json::object& rule = rules[i].as_object();
    const auto* conditions = rule.if_contains("if");
    const std::size_t known = 1 + rule.contains("why") + rule.contains("if");
    if (rule.size() != known) fail("an unknown key in a rule");
    if ((conditions == nullptr) != (i + 1 == rules.size())) fail("the last rule, and only it, has no condition");
    // Backwards: how far a condition jumps when it does not hold depends on what follows it.
    Program entry{statement(BPF_RET | BPF_K, action_of(std::string(rule.at("then").as_string())))};
    if (conditions != nullptr) {
      const json::array& list = conditions->as_array();
      for (auto condition = list.rbegin(); condition != list.rend(); ++condition) {
        Program head = condition_of(condition->as_object(), entry.size());
        append(head, entry);
        entry = std::move(head);
      }
    }
    append(block, entry);
  }
  return block;
}

// From `first` up to the next segment's first, every call number ends the same way.
struct Segment {
  std::uint32_t first = 0;
  Program body;
};

bool same(const Program& left, const Program& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](const auto& a, const auto& b) {
    return a.code == b.code && a.jt == b.jt && a.jf == b.jf && a.k == b.k;
  });
}

std::vector<Segment> segments_of(const std::map<std::uint32_t, Program>& bodies, const Program& otherwise) {
  std::vector<Segment> segments{{0, otherwise}};
  const auto add = [&](std::uint32_t first, const Program& body) {
    if (segments.back().first == first) {
      segments.back().body = body;
      if (segments.size() > 1 && same(segments[segments.size() - 2].body, body)) segments.pop_back();
    } else if (!same(segments.back().body, body)) {
      segments.push_back({first, body});
    }
  };
  for (const auto& [number, body] : bodies) {
    add(number, body);
    add(number + 1, otherwise);
  }
  return segments;
}

// A binary tree over the segments: some eight comparisons for a call, in place of the hundreds of a list.
Program tree_of(const std::vector<Segment>& segments, std::size_t begin, std::size_t end) {
  if (end - begin == 1) return segments[begin].body;
  const std::size_t middle = begin + (end - begin) / 2;
  const Program low = tree_of(segments, begin, middle);
  const Program high = tree_of(segments, middle, end);
  Program tree;
  if (low.size() <= 255) {
    tree.push_back(jump(BPF_JGE, segments[middle].first, low.size(), 0));
  } else {
    tree.push_back(jump(BPF_JGE, segments[middle].first, 0, 1));
    tree.push_back(statement(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(low.size())));
  }
  append(tree, low);
  append(tree, high);
  return tree;
}

Program prologue(const Program& otherwise) {
  // A call by another ABI (int 0x80, x32) has other numbers and other structs: the whole list would be about the wrong
  // calls. Killed with SIGSYS (CVE-2021-22555 came in by the 32-bit compat layer).
  Program program{load(offsetof(seccomp_data, arch)), jump(BPF_JEQ, kAuditArch, 1, 0),
                  statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS), load(offsetof(seccomp_data, nr))};
  if (kHasX32) {
    // -1 is what a program asks for that wants ENOSYS, and has the bit of x32 too.
    program.push_back(jump(BPF_JGE, kX32Bit, 0, 2 + otherwise.size()));
    program.push_back(jump(BPF_JEQ, UINT32_MAX, 1, 0));
    program.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    append(program, otherwise);
  }
  return program;
}

Program compile(const json::object& file) {
  if (file.at("format").as_int64() != 1) fail("unknown format");
  if (file.size() != 4) fail("an unknown key in the file");
  const Program otherwise{statement(BPF_RET | BPF_K, action_of(std::string(file.at("default").as_string())))};
  std::map<std::uint32_t, Program> bodies;
  const auto add = [&](const std::string& name, const Program& body) {
    const int number = number_of(name);
    if (number < 0) return;
    if (!bodies.emplace(static_cast<std::uint32_t>(number), body).second) fail(name + " is there twice");
  };
  for (const json::value& name : file.at("allow").as_array()) {
    add(std::string(name.as_string()), {statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)});
  }
  for (const auto& [name, rules] : file.at("rules").as_object()) add(std::string(name), rule_block(rules.as_array()));
  Program program = prologue(otherwise);
  const std::vector<Segment> segments = segments_of(bodies, otherwise);
  append(program, tree_of(segments, 0, segments.size()));
  if (program.size() > BPF_MAXINSNS) fail("more instructions than the kernel takes");
  return program;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) fail("usage: compile_seccomp PROGRAM.json OUTPUT");
    std::ifstream input(argv[1]);
    std::stringstream text;
    text << input.rdbuf();
    if (!input) fail("cannot be read");
    const Program program = compile(json::parse(text.str()).as_object());
    std::ofstream output(argv[2], std::ios::trunc);
    for (const sock_filter& row : program) {
      output << '{' << row.code << ", " << unsigned{row.jt} << ", " << unsigned{row.jf} << ", " << row.k << "u},\n";
    }
    output.flush();
    if (!output) fail("the output cannot be written");
    return 0;
  } catch (const std::exception& problem) {
    std::cerr << "compile_seccomp: " << (argc > 1 ? argv[1] : "") << ": " << problem.what() << '\n';
    return 1;
  }
}
