// The names that the specification lists, 1.3.0: what parse accepts and what `features` tells are one list.
#pragma once

#include <array>
#include <string_view>

namespace agentrun::oci::names {

using namespace std::string_view_literals;

// config-linux.md, seccomp: the lists of libseccomp 2.6.0.
inline constexpr std::array kSeccompActions = {
    "SCMP_ACT_ALLOW"sv, "SCMP_ACT_ERRNO"sv,  "SCMP_ACT_KILL"sv,  "SCMP_ACT_KILL_PROCESS"sv, "SCMP_ACT_KILL_THREAD"sv,
    "SCMP_ACT_LOG"sv,   "SCMP_ACT_NOTIFY"sv, "SCMP_ACT_TRACE"sv, "SCMP_ACT_TRAP"sv,
};
inline constexpr std::array kSeccompOperators = {
    "SCMP_CMP_EQ"sv, "SCMP_CMP_GE"sv,        "SCMP_CMP_GT"sv, "SCMP_CMP_LE"sv,
    "SCMP_CMP_LT"sv, "SCMP_CMP_MASKED_EQ"sv, "SCMP_CMP_NE"sv,
};
inline constexpr std::array kSeccompArchitectures = {
    "SCMP_ARCH_AARCH64"sv,  "SCMP_ARCH_ARM"sv,         "SCMP_ARCH_LOONGARCH64"sv, "SCMP_ARCH_M68K"sv,
    "SCMP_ARCH_MIPS"sv,     "SCMP_ARCH_MIPS64"sv,      "SCMP_ARCH_MIPS64N32"sv,   "SCMP_ARCH_MIPSEL"sv,
    "SCMP_ARCH_MIPSEL64"sv, "SCMP_ARCH_MIPSEL64N32"sv, "SCMP_ARCH_PARISC"sv,      "SCMP_ARCH_PARISC64"sv,
    "SCMP_ARCH_PPC"sv,      "SCMP_ARCH_PPC64"sv,       "SCMP_ARCH_PPC64LE"sv,     "SCMP_ARCH_RISCV64"sv,
    "SCMP_ARCH_S390"sv,     "SCMP_ARCH_S390X"sv,       "SCMP_ARCH_SH"sv,          "SCMP_ARCH_SHEB"sv,
    "SCMP_ARCH_X32"sv,      "SCMP_ARCH_X86"sv,         "SCMP_ARCH_X86_64"sv,
};
inline constexpr std::array kSeccompFlags = {
    "SECCOMP_FILTER_FLAG_LOG"sv,
    "SECCOMP_FILTER_FLAG_SPEC_ALLOW"sv,
    "SECCOMP_FILTER_FLAG_TSYNC"sv,
    "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"sv,
};

// getrlimit(2).
inline constexpr std::array kRlimits = {
    "RLIMIT_AS"sv,     "RLIMIT_CORE"sv,   "RLIMIT_CPU"sv,        "RLIMIT_DATA"sv,
    "RLIMIT_FSIZE"sv,  "RLIMIT_LOCKS"sv,  "RLIMIT_MEMLOCK"sv,    "RLIMIT_MSGQUEUE"sv,
    "RLIMIT_NICE"sv,   "RLIMIT_NOFILE"sv, "RLIMIT_NPROC"sv,      "RLIMIT_RSS"sv,
    "RLIMIT_RTPRIO"sv, "RLIMIT_RTTIME"sv, "RLIMIT_SIGPENDING"sv, "RLIMIT_STACK"sv,
};

inline constexpr std::array kSchedulerPolicies = {
    "SCHED_OTHER"sv, "SCHED_FIFO"sv, "SCHED_RR"sv, "SCHED_BATCH"sv, "SCHED_ISO"sv, "SCHED_IDLE"sv, "SCHED_DEADLINE"sv,
};
inline constexpr std::array kSchedulerFlags = {
    "SCHED_FLAG_RESET_ON_FORK"sv,  "SCHED_FLAG_RECLAIM"sv,     "SCHED_FLAG_DL_OVERRUN"sv,
    "SCHED_FLAG_KEEP_POLICY"sv,    "SCHED_FLAG_KEEP_PARAMS"sv, "SCHED_FLAG_UTIL_CLAMP_MIN"sv,
    "SCHED_FLAG_UTIL_CLAMP_MAX"sv,
};
inline constexpr std::array kIoClasses = {"IOPRIO_CLASS_RT"sv, "IOPRIO_CLASS_BE"sv, "IOPRIO_CLASS_IDLE"sv};

inline constexpr std::array kMemoryModes = {
    "MPOL_DEFAULT"sv,   "MPOL_BIND"sv,           "MPOL_INTERLEAVE"sv, "MPOL_WEIGHTED_INTERLEAVE"sv,
    "MPOL_PREFERRED"sv, "MPOL_PREFERRED_MANY"sv, "MPOL_LOCAL"sv,
};
inline constexpr std::array kMemoryFlags = {
    "MPOL_F_NUMA_BALANCING"sv,
    "MPOL_F_RELATIVE_NODES"sv,
    "MPOL_F_STATIC_NODES"sv,
};

// The specification has the four without r; runc and crun take all, and tests and engines write them.
inline constexpr std::array kPropagations = {
    "private"sv, "rprivate"sv, "slave"sv, "rslave"sv, "shared"sv, "rshared"sv, "unbindable"sv, "runbindable"sv,
};

inline constexpr std::array kPersonalities = {"LINUX"sv, "LINUX32"sv};
inline constexpr std::array kClocks = {"boottime"sv, "monotonic"sv};

// In the order of runtime.md's lifecycle.
inline constexpr std::array kHooks = {
    "prestart"sv, "createRuntime"sv, "createContainer"sv, "startContainer"sv, "poststart"sv, "poststop"sv,
};

}  // namespace agentrun::oci::names
