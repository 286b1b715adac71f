// What the kernel would make of a filter and a system call: classic BPF, as much of it as seccomp has.
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace agentrun::sandbox::test {

#if defined(__x86_64__)
constexpr std::uint32_t kNative = AUDIT_ARCH_X86_64;
#else
constexpr std::uint32_t kNative = AUDIT_ARCH_AARCH64;
#endif

inline std::uint32_t run_bpf(const std::vector<sock_filter>& program, const seccomp_data& data) {
  std::uint32_t a = 0, x = 0;
  std::array<std::uint32_t, BPF_MEMWORDS> memory{};
  for (std::size_t pc = 0; pc < program.size(); ++pc) {
    const sock_filter& row = program[pc];
    const std::uint32_t operand = BPF_SRC(row.code) == BPF_X ? x : row.k;
    const auto branch = [&](bool taken) { pc += taken ? row.jt : row.jf; };
    switch (BPF_CLASS(row.code)) {
      case BPF_LD:
        if (BPF_MODE(row.code) == BPF_ABS) {
          if (row.k + 4 > sizeof data || row.k % 4 != 0) throw std::runtime_error("a load outside of the data");
          std::memcpy(&a, reinterpret_cast<const char*>(&data) + row.k, 4);
        } else {
          a = BPF_MODE(row.code) == BPF_MEM ? memory.at(row.k) : row.k;
        }
        break;
      case BPF_LDX:
        x = BPF_MODE(row.code) == BPF_MEM ? memory.at(row.k) : row.k;
        break;
      case BPF_ST:
        memory.at(row.k) = a;
        break;
      case BPF_STX:
        memory.at(row.k) = x;
        break;
      case BPF_ALU:
        if (BPF_OP(row.code) != BPF_AND) throw std::runtime_error("arithmetic that is not expected");
        a &= operand;
        break;
      case BPF_JMP:
        switch (BPF_OP(row.code)) {
          case BPF_JA:
            pc += row.k;
            break;
          case BPF_JEQ:
            branch(a == operand);
            break;
          case BPF_JGT:
            branch(a > operand);
            break;
          case BPF_JGE:
            branch(a >= operand);
            break;
          case BPF_JSET:
            branch((a & operand) != 0);
            break;
          default:
            throw std::runtime_error("an unknown jump");
        }
        break;
      case BPF_RET:
        return BPF_RVAL(row.code) == BPF_A ? a : row.k;
      default:
        throw std::runtime_error("an unknown instruction");
    }
  }
  throw std::runtime_error("the end was passed");
}

inline std::uint32_t ask(const std::vector<sock_filter>& program, long number,
                         const std::array<std::uint64_t, 6>& arguments = {}, std::uint32_t arch = kNative) {
  seccomp_data data{};
  data.nr = static_cast<int>(number);
  data.arch = arch;
  for (std::size_t i = 0; i < arguments.size(); ++i) data.args[i] = arguments[i];
  return run_bpf(program, data);
}

// What the kernel makes of several, in the order in which they were loaded (kernel/seccomp.c, seccomp_run_filters): the
// strictest action; of equal ones the last loaded filter's, with its data.
inline std::uint32_t run_stack(const std::vector<std::vector<sock_filter>>& programs, const seccomp_data& data) {
  const auto action = [](std::uint32_t value) { return static_cast<std::int32_t>(value & SECCOMP_RET_ACTION_FULL); };
  std::uint32_t result = SECCOMP_RET_ALLOW;
  for (auto program = programs.rbegin(); program != programs.rend(); ++program) {
    const std::uint32_t one = run_bpf(*program, data);
    if (action(one) < action(result)) result = one;
  }
  return result;
}

constexpr std::uint32_t errno_of(int code) { return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(code); }

}  // namespace agentrun::sandbox::test
