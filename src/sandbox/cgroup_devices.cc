#include "sandbox/cgroup_devices.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/unique_fd.h"
#include "sandbox/cgroup_file.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

// The program's name, by which an update finds the one it replaces.
constexpr char kProgramName[] = "agentrun_dev";

// Far above any real list, far below what would make a jump or the verifier overflow.
constexpr std::size_t kMostRules = 1024;

constexpr std::uint32_t kMknod = BPF_DEVCG_ACC_MKNOD;
constexpr std::uint32_t kRead = BPF_DEVCG_ACC_READ;
constexpr std::uint32_t kWrite = BPF_DEVCG_ACC_WRITE;
constexpr std::uint32_t kAll = kMknod | kRead | kWrite;

oci::DeviceRule allow(char type, std::optional<std::int64_t> major, std::optional<std::int64_t> minor,
                      const char* access) {
  return {true, type, major, minor, access};
}

std::vector<oci::DeviceRule> standard_rules() {
  return {
      allow('c', std::nullopt, std::nullopt, "m"),
      allow('b', std::nullopt, std::nullopt, "m"),
      allow('c', 1, 3, "rwm"),               // null
      allow('c', 1, 5, "rwm"),               // zero
      allow('c', 1, 7, "rwm"),               // full
      allow('c', 1, 8, "rwm"),               // random
      allow('c', 1, 9, "rwm"),               // urandom
      allow('c', 5, 0, "rwm"),               // tty
      allow('c', 5, 1, "rwm"),               // console
      allow('c', 5, 2, "rwm"),               // ptmx
      allow('c', 136, std::nullopt, "rwm"),  // pts
  };
}

std::uint32_t access_bits(const oci::DeviceRule& rule) {
  std::uint32_t bits = 0;
  for (const char c : rule.access) bits |= c == 'r' ? kRead : c == 'w' ? kWrite : kMknod;
  return bits;
}

bool is_everything(const oci::DeviceRule& rule) {
  return rule.type == 'a' && !rule.major && !rule.minor && access_bits(rule) == kAll;
}

Result<void> check_rule(const oci::DeviceRule& rule) {
  const auto no = [&](const char* reason) { return refusal("use linux.resources.devices", rule.access, reason); };
  if (rule.type != 'a' && rule.type != 'b' && rule.type != 'c') return no("a type is a, b or c");
  if (rule.access.find_first_not_of("rwm") != std::string::npos) return no("access is made of r, w and m");
  for (const std::optional<std::int64_t>& number : {rule.major, rule.minor}) {
    if (number && (*number < 0 || *number > std::numeric_limits<std::int32_t>::max())) return no("no device number");
  }
  return ok();
}

// -1 is how engines write "all" in place of leaving the number out, and no access at all means every access where the
// type is left out too (the deny-everything rule of old configs).
oci::DeviceRule normalize(oci::DeviceRule rule) {
  if (rule.major == -1) rule.major.reset();
  if (rule.minor == -1) rule.minor.reset();
  if (rule.access.empty() && rule.type == 'a') rule.access = "rwm";
  return rule;
}

// ---- the program

class Program {
 public:
  void add(std::uint8_t code, std::uint8_t destination, std::uint8_t source, std::int16_t offset, std::int32_t value) {
    bpf_insn instruction{};
    instruction.code = code;
    instruction.dst_reg = destination & 0xf;
    instruction.src_reg = source & 0xf;
    instruction.off = offset;
    instruction.imm = value;
    code_.push_back(instruction);
  }
  void load_word(std::uint8_t destination, std::int16_t offset) {
    add(BPF_LDX | BPF_MEM | BPF_W, destination, BPF_REG_1, offset, 0);
  }
  void leave(std::int32_t value) {
    add(BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, value);
    add(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
  }
  std::size_t size() const { return code_.size(); }
  void land(std::size_t jump) { code_[jump].off = static_cast<std::int16_t>(code_.size() - jump - 1); }
  // Jumps to what `land` says later where the register has another value.
  std::size_t jump_unless(std::uint8_t reg, std::int64_t value) {
    add(BPF_JMP32 | BPF_JNE | BPF_K, reg, 0, 0, static_cast<std::int32_t>(value));
    return code_.size() - 1;
  }
  std::vector<bpf_insn> take() { return std::move(code_); }

 private:
  std::vector<bpf_insn> code_;
};

// Registers: 2 type, 3 the accesses that no rule has decided yet, 4 major, 5 minor.
void load_context(Program& program) {
  program.load_word(BPF_REG_2, offsetof(bpf_cgroup_dev_ctx, access_type));
  program.add(BPF_ALU | BPF_MOV | BPF_X, BPF_REG_3, BPF_REG_2, 0, 0);
  program.add(BPF_ALU | BPF_RSH | BPF_K, BPF_REG_3, 0, 0, 16);
  program.add(BPF_ALU | BPF_AND | BPF_K, BPF_REG_2, 0, 0, 0xffff);
  program.load_word(BPF_REG_4, offsetof(bpf_cgroup_dev_ctx, major));
  program.load_word(BPF_REG_5, offsetof(bpf_cgroup_dev_ctx, minor));
}

// Rules come last first. One that denies any undecided access ends it with "no"; one that allows takes its accesses off
// the list, and an empty list is "yes". Matching by "all asked accesses are in this rule", the usual way, would let an
// O_RDWR open pass a rule that denies only w.
void add_rule(Program& program, const oci::DeviceRule& rule) {
  const std::uint32_t bits = access_bits(rule);
  if (bits == 0) return;
  std::vector<std::size_t> misses;
  if (rule.type != 'a') {
    misses.push_back(program.jump_unless(BPF_REG_2, rule.type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR));
  }
  if (rule.major) misses.push_back(program.jump_unless(BPF_REG_4, *rule.major));
  if (rule.minor) misses.push_back(program.jump_unless(BPF_REG_5, *rule.minor));
  if (rule.allow) {
    program.add(BPF_ALU | BPF_AND | BPF_K, BPF_REG_3, 0, 0, static_cast<std::int32_t>(~bits & kAll));
    misses.push_back(program.jump_unless(BPF_REG_3, 0));
    program.leave(1);
  } else {
    program.add(BPF_ALU | BPF_MOV | BPF_X, BPF_REG_0, BPF_REG_3, 0, 0);
    program.add(BPF_ALU | BPF_AND | BPF_K, BPF_REG_0, 0, 0, static_cast<std::int32_t>(bits));
    program.add(BPF_JMP32 | BPF_JEQ | BPF_K, BPF_REG_0, 0, 0, 0);
    misses.push_back(program.size() - 1);
    program.leave(0);
  }
  for (const std::size_t jump : misses) program.land(jump);
}

// ---- the system call

int bpf(int command, bpf_attr& attributes) {
  return static_cast<int>(syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

std::uint64_t pointer(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

Result<UniqueFd> load_program(const std::vector<bpf_insn>& code) {
  bpf_attr attributes{};
  attributes.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
  attributes.insns = pointer(code.data());
  attributes.insn_cnt = static_cast<std::uint32_t>(code.size());
  attributes.license = pointer("Apache-2.0");
  attributes.expected_attach_type = BPF_CGROUP_DEVICE;
  std::memcpy(attributes.prog_name, kProgramName, sizeof kProgramName);
  UniqueFd program(bpf(BPF_PROG_LOAD, attributes));
  if (!program) return errno_error("load the device program");
  return program;
}

Result<std::vector<std::uint32_t>> attached_programs(int cgroup, const std::string& directory) {
  std::array<std::uint32_t, 128> ids{};  // BPF_CGROUP_MAX_PROGS is 64
  bpf_attr attributes{};
  attributes.query.target_fd = static_cast<std::uint32_t>(cgroup);
  attributes.query.attach_type = BPF_CGROUP_DEVICE;
  attributes.query.prog_ids = pointer(ids.data());
  attributes.query.prog_cnt = ids.size();
  if (bpf(BPF_PROG_QUERY, attributes) != 0) return errno_error("list the device programs of", directory);
  return std::vector<std::uint32_t>(ids.begin(),
                                    ids.begin() + std::min<std::size_t>(attributes.query.prog_cnt, ids.size()));
}

// An fd of the program with that id where it is ours, an invalid one where it is not.
Result<UniqueFd> open_ours(std::uint32_t id) {
  bpf_attr attributes{};
  attributes.prog_id = id;
  UniqueFd program(bpf(BPF_PROG_GET_FD_BY_ID, attributes));
  if (!program) return errno_error("open the device program", std::to_string(id));
  bpf_prog_info info{};
  attributes = {};
  attributes.info.bpf_fd = static_cast<std::uint32_t>(program.get());
  attributes.info.info_len = sizeof info;
  attributes.info.info = pointer(&info);
  if (bpf(BPF_OBJ_GET_INFO_BY_FD, attributes) != 0) return errno_error("read the device program", std::to_string(id));
  if (std::strcmp(info.name, kProgramName) != 0) program.reset();
  return program;
}

Result<void> change_attachment(int command, int cgroup, int program, std::uint32_t flags,
                               const std::string& directory) {
  bpf_attr attributes{};
  attributes.target_fd = static_cast<std::uint32_t>(cgroup);
  attributes.attach_bpf_fd = static_cast<std::uint32_t>(program);
  attributes.attach_type = BPF_CGROUP_DEVICE;
  attributes.attach_flags = flags;
  if (bpf(command, attributes) != 0) {
    return errno_error(command == BPF_PROG_ATTACH ? "attach the device program to" : "detach the device program from",
                       directory);
  }
  return ok();
}

// ---- v1

// A rule of the type 'a' that is not about everything becomes two: the kernel's 'a' ignores numbers and access.
std::vector<oci::DeviceRule> split_types(const oci::DeviceRule& rule) {
  if (rule.type != 'a') return {rule};
  std::vector<oci::DeviceRule> both{rule, rule};
  both[0].type = 'c';
  both[1].type = 'b';
  return both;
}

bool overlaps(const oci::DeviceRule& a, const oci::DeviceRule& b) {
  const auto meet = [](std::optional<std::int64_t> x, std::optional<std::int64_t> y) { return !x || !y || *x == *y; };
  return a.type == b.type && meet(a.major, b.major) && meet(a.minor, b.minor) && (access_bits(a) & access_bits(b)) != 0;
}

bool same_numbers(const oci::DeviceRule& a, const oci::DeviceRule& b) {
  return a.type == b.type && a.major == b.major && a.minor == b.minor;
}

std::string print_rule(const oci::DeviceRule& rule) {
  const auto number = [](std::optional<std::int64_t> value) { return value ? std::to_string(*value) : "*"; };
  return std::string(1, rule.type) + " " + number(rule.major) + ":" + number(rule.minor) + " " + rule.access;
}

}  // namespace

Result<std::vector<oci::DeviceRule>> complete_rules(const std::vector<oci::DeviceRule>& rules) {
  if (rules.size() > kMostRules) {
    return refusal("use linux.resources.devices", {}, "more than " + std::to_string(kMostRules) + " rules");
  }
  std::vector<oci::DeviceRule> complete{{false, 'a', std::nullopt, std::nullopt, "rwm"}};
  bool open = false;
  for (const oci::DeviceRule& given : rules) {
    const oci::DeviceRule rule = normalize(given);
    TRY(check_rule(rule));
    if (rule.access.empty()) continue;
    if (is_everything(rule)) {  // what was before it has no say
      open = rule.allow;
      complete.assign(1, rule);
    } else {
      complete.push_back(rule);
    }
  }
  if (!open) {
    for (oci::DeviceRule& rule : standard_rules()) complete.push_back(std::move(rule));
  }
  return complete;
}

Result<std::vector<bpf_insn>> device_program(const std::vector<oci::DeviceRule>& complete) {
  Program program;
  load_context(program);
  for (auto rule = complete.rbegin(); rule != complete.rend(); ++rule) add_rule(program, *rule);
  program.leave(0);
  return program.take();
}

Result<std::vector<DeviceWrite>> device_writes(const std::vector<oci::DeviceRule>& complete) {
  std::vector<DeviceWrite> writes;
  std::vector<oci::DeviceRule> exceptions;
  bool open = false;
  for (const oci::DeviceRule& rule : complete) {
    if (is_everything(rule)) {
      open = rule.allow;
      exceptions.clear();
      writes.assign(1, {rule.allow, "a"});
      continue;
    }
    for (const oci::DeviceRule& part : split_types(rule)) {
      if (part.allow != open) {
        exceptions.push_back(part);
      } else {
        // Back to the default: only an exception of the very same numbers can be taken back.
        for (const oci::DeviceRule& exception : exceptions) {
          if (overlaps(exception, part) && !same_numbers(exception, part)) {
            return refusal("use the device rule", print_rule(part),
                           "cgroup v1 cannot take it out of the wider or narrower \"" + print_rule(exception) + "\"");
          }
        }
        if (std::none_of(exceptions.begin(), exceptions.end(),
                         [&](const oci::DeviceRule& exception) { return overlaps(exception, part); })) {
          continue;  // nothing to take back
        }
      }
      writes.push_back({part.allow, print_rule(part)});
    }
  }
  return writes;
}

Result<void> limit_devices_v2(const std::string& directory, const std::vector<oci::DeviceRule>& rules) {
  const std::vector<oci::DeviceRule> complete = TRY(complete_rules(rules));
  const std::vector<bpf_insn> code = TRY(device_program(complete));
  const UniqueFd cgroup = TRY(sys::open(directory, O_RDONLY | O_DIRECTORY));
  const std::vector<std::uint32_t> before = TRY(attached_programs(cgroup.get(), directory));
  const UniqueFd program = TRY(load_program(code));
  TRY(change_attachment(BPF_PROG_ATTACH, cgroup.get(), program.get(), BPF_F_ALLOW_MULTI, directory));
  for (const std::uint32_t id : before) {
    const UniqueFd old = TRY(open_ours(id));
    if (old) TRY(change_attachment(BPF_PROG_DETACH, cgroup.get(), old.get(), 0, directory));
  }
  return ok();
}

Result<void> limit_devices_v1(const std::string& directory, const std::vector<oci::DeviceRule>& rules) {
  const std::vector<oci::DeviceRule> complete = TRY(complete_rules(rules));
  const std::vector<DeviceWrite> writes = TRY(device_writes(complete));
  for (const DeviceWrite& write : writes) {
    TRY(write_limit(directory, write.allow ? "devices.allow" : "devices.deny", write.line));
  }
  return ok();
}

}  // namespace agentrun::sandbox
