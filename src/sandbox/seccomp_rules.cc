#include "sandbox/seccomp_rules.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>

#include "base/text.h"

namespace agentrun::sandbox {
namespace {

using Program = std::vector<sock_filter>;

constexpr std::uint32_t kX32Bit = 0x40000000;
constexpr std::size_t kFarthest = 255;  // of a conditional jump

sock_filter statement(unsigned code, std::uint32_t k) { return {static_cast<std::uint16_t>(code), 0, 0, k}; }

sock_filter jump(unsigned code, std::uint32_t k, std::size_t if_true, std::size_t if_false) {
  return {static_cast<std::uint16_t>(BPF_JMP | code | BPF_K), static_cast<std::uint8_t>(if_true),
          static_cast<std::uint8_t>(if_false), k};
}

sock_filter load(std::size_t offset) { return statement(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)); }

Program result(std::uint32_t action) { return {statement(BPF_RET | BPF_K, action)}; }

void append(Program& program, const Program& more) { program.insert(program.end(), more.begin(), more.end()); }

Result<void> check_test(const ArgumentTest& test) {
  const auto wrong = [](const char* reason) { return refusal("seccomp rule", {}, reason); };
  if (test.argument > 5) return wrong("there are six arguments, 0 to 5");
  if (test.mask == 0) return wrong("a mask without a bit");
  if (test.any_bit != test.values.empty()) return wrong("either bits or values");
  if (std::any_of(test.values.begin(), test.values.end(), [&](auto value) { return (value & ~test.mask) != 0; })) {
    return wrong("a value that has bits outside of its mask is never met");
  }
  return ok();
}

// Falls through where the test holds; else skips `rest` instructions after its own.
Result<Program> test_block(const ArgumentTest& test, std::size_t rest) {
  TRY(check_test(test));
  if (rest + test.values.size() > kFarthest) return refusal("seccomp rule", {}, "too many values for one rule");
  // Little endian on both architectures: the low half comes first.
  Program program{load(offsetof(seccomp_data, args) + 8 * test.argument)};
  if (test.any_bit) {
    program.push_back(jump(BPF_JSET, test.mask, 0, rest));
    return program;
  }
  if (test.mask != UINT32_MAX) program.push_back(statement(BPF_ALU | BPF_AND | BPF_K, test.mask));
  for (std::size_t i = 0; i < test.values.size(); ++i) {
    const std::size_t left = test.values.size() - 1 - i;
    program.push_back(jump(BPF_JEQ, test.values[i], left, left == 0 ? rest : 0));
  }
  return program;
}

Result<Program> call_block(const std::vector<CallRule>& rules, std::uint32_t otherwise) {
  Program block;
  for (const CallRule& rule : rules) {
    // Backwards: how far a test jumps when it does not hold depends on what follows it.
    Program entry = result(rule.action);
    for (auto test = rule.tests.rbegin(); test != rule.tests.rend(); ++test) {
      Program head = TRY(test_block(*test, entry.size()));
      append(head, entry);
      entry = std::move(head);
    }
    append(block, entry);
    if (rule.tests.empty()) return block;  // it always decides
    if (block.size() > BPF_MAXINSNS) break;
  }
  append(block, result(otherwise));
  return block;
}

// From `first` up to the next segment's first, every call number ends the same way.
struct Segment {
  std::uint32_t first = 0;
  Program body{};
};

bool same(const Program& left, const Program& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](const auto& a, const auto& b) {
    return a.code == b.code && a.jt == b.jt && a.jf == b.jf && a.k == b.k;
  });
}

void add_segment(std::vector<Segment>& segments, std::uint32_t first, const Program& body) {
  if (segments.back().first == first) {
    segments.back().body = body;
    if (segments.size() > 1 && same(segments[segments.size() - 2].body, body)) segments.pop_back();
  } else if (!same(segments.back().body, body)) {
    segments.push_back({first, body});
  }
}

bool looks_at_arguments(const std::vector<CallRule>& rules) {
  return std::any_of(rules.begin(), rules.end(), [](const CallRule& rule) { return !rule.tests.empty(); });
}

// Of the calls whose answer does not depend on their arguments.
Result<std::vector<Segment>> segments_of(const CallRules& rules) {
  const Program otherwise = result(rules.otherwise);
  std::vector<Segment> segments{{0, otherwise}};
  for (const auto& [number, list] : rules.calls) {
    if (looks_at_arguments(list)) continue;
    add_segment(segments, number, TRY(call_block(list, rules.otherwise)));
    if (number != UINT32_MAX) add_segment(segments, number + 1, otherwise);
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
  if (low.size() <= kFarthest) {
    tree.push_back(jump(BPF_JGE, segments[middle].first, low.size(), 0));
  } else {
    tree.push_back(jump(BPF_JGE, segments[middle].first, 0, 1));
    tree.push_back(statement(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(low.size())));
  }
  append(tree, low);
  append(tree, high);
  return tree;
}

// The calls whose arguments are looked at come first: the kernel (Linux 5.11) remembers where the answer is "allow"
// whatever the arguments, and does not ask the filter again, so that these are the ones that run it.
Result<Program> argument_part(const CallRules& rules) {
  std::vector<Segment> calls;
  for (const auto& [number, list] : rules.calls) {
    if (looks_at_arguments(list)) calls.push_back({number, TRY(call_block(list, rules.otherwise))});
  }
  Program program;
  for (const Segment& call : calls) {
    if (call.body.size() <= kFarthest) {
      program.push_back(jump(BPF_JEQ, call.first, 0, call.body.size()));
    } else {
      program.push_back(jump(BPF_JEQ, call.first, 1, 0));
      program.push_back(statement(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(call.body.size())));
    }
    append(program, call.body);
  }
  return program;
}

// CVE-2021-22555 came in by the 32-bit compat layer.
Program architecture_part(CallAbi abi) {
  return {load(offsetof(seccomp_data, arch)),
          jump(BPF_JEQ, abi == CallAbi::x86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64, 1, 0),
          statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS), load(offsetof(seccomp_data, nr))};
}

Program x32_part(const Program& minus_one) {
  // -1 is what a program asks for that wants ENOSYS, and has the bit of x32 too.
  Program program{jump(BPF_JGE, kX32Bit, 0, 2 + minus_one.size()), jump(BPF_JEQ, UINT32_MAX, 1, 0),
                  statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  append(program, minus_one);
  return program;
}

struct NamedNumber {
  std::string_view name;
  std::uint32_t number;
};

// Calls that are younger than the oldest libseccomp that we build with; one number on all architectures.
constexpr NamedNumber kYoungCalls[] = {{"futex_waitv", 449},       {"set_mempolicy_home_node", 450},
                                       {"cachestat", 451},         {"fchmodat2", 452},
                                       {"map_shadow_stack", 453},  {"futex_wake", 454},
                                       {"futex_wait", 455},        {"futex_requeue", 456},
                                       {"statmount", 457},         {"listmount", 458},
                                       {"lsm_get_self_attr", 459}, {"lsm_set_self_attr", 460},
                                       {"lsm_list_modules", 461},  {"mseal", 462},
                                       {"setxattrat", 463},        {"getxattrat", 464},
                                       {"listxattrat", 465},       {"removexattrat", 466},
                                       {"open_tree_attr", 467},    {"file_getattr", 468},
                                       {"file_setattr", 469}};

constexpr NamedNumber kErrnos[] = {{"EPERM", EPERM},
                                   {"EACCES", EACCES},
                                   {"EAFNOSUPPORT", EAFNOSUPPORT},
                                   {"EAGAIN", EAGAIN},
                                   {"EBUSY", EBUSY},
                                   {"EFAULT", EFAULT},
                                   {"EINVAL", EINVAL},
                                   {"EIO", EIO},
                                   {"ENODEV", ENODEV},
                                   {"ENOENT", ENOENT},
                                   {"ENOMEM", ENOMEM},
                                   {"ENOPROTOOPT", ENOPROTOOPT},
                                   {"ENOSYS", ENOSYS},
                                   {"ENOTTY", ENOTTY},
                                   {"EOPNOTSUPP", EOPNOTSUPP},
                                   {"EPROTONOSUPPORT", EPROTONOSUPPORT},
                                   {"ESOCKTNOSUPPORT", ESOCKTNOSUPPORT},
                                   {"EXDEV", EXDEV}};

template <std::size_t size>
std::optional<std::uint32_t> find_name(const NamedNumber (&list)[size], std::string_view name) {
  const auto* found = std::find_if(list, list + size, [&](const NamedNumber& entry) { return entry.name == name; });
  if (found == list + size) return std::nullopt;
  return found->number;
}

}  // namespace

Result<std::vector<sock_filter>> assemble(const CallRules& rules, CallAbi abi) {
  const auto last = rules.calls.rbegin();
  if (last != rules.calls.rend() && last->first >= kX32Bit) return refusal("seccomp rule", {}, "no such system call");
  Program program = architecture_part(abi);
  append(program, TRY(argument_part(rules)));
  if (abi == CallAbi::x86_64) append(program, x32_part(result(rules.otherwise)));
  const std::vector<Segment> segments = TRY(segments_of(rules));
  append(program, tree_of(segments, 0, segments.size()));
  if (program.size() > BPF_MAXINSNS) return refusal("seccomp rules", {}, "more than the kernel takes for one filter");
  return program;
}

Result<std::optional<std::uint32_t>> call_number(const std::string& name, CallAbi abi) {
  using Number = std::optional<std::uint32_t>;
  if (const auto number = text::parse_unsigned(name)) {
    if (*number >= kX32Bit) return refusal("system call", name, "there is none of that number");
    return Number(static_cast<std::uint32_t>(*number));
  }
  const int found =
      seccomp_syscall_resolve_name_arch(abi == CallAbi::x86_64 ? SCMP_ARCH_X86_64 : SCMP_ARCH_AARCH64, name.c_str());
  if (found >= 0) return Number(static_cast<std::uint32_t>(found));
  if (const auto young = find_name(kYoungCalls, name)) return young;
  if (found == __NR_SCMP_ERROR) return refusal("system call", name, "unknown");
  return Number();
}

std::optional<std::uint32_t> errno_action(std::string_view name) {
  const auto code = find_name(kErrnos, name);
  if (!code) return std::nullopt;
  return SECCOMP_RET_ERRNO | *code;
}

std::optional<std::uint32_t> parse_call_value(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text.front() == '0') {
    base = 8;
  }
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace agentrun::sandbox
