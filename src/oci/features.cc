// The lists are those of names.h wherever parse has one: what is told is what is taken.
#include "oci/features.h"

#include <seccomp.h>

#include <array>
#include <span>
#include <string_view>

#include "oci/json_writer.h"
#include "oci/names.h"
#include "oci/state.h"

namespace agentrun::oci {

namespace {

using namespace std::string_view_literals;

// Flags and propagation of mount(2) and mount_setattr(2), then what runc and crun do themselves. Data of a file system
// ("size=64m") is not listed, as in features.md.
constexpr std::array kMountOptions = {
    "async"sv,          "atime"sv,         "bind"sv,         "copy-symlink"sv,
    "defaults"sv,       "dest-nofollow"sv, "dev"sv,          "diratime"sv,
    "dirsync"sv,        "exec"sv,          "idmap"sv,        "iversion"sv,
    "lazytime"sv,       "loud"sv,          "mand"sv,         "noatime"sv,
    "nodev"sv,          "nodiratime"sv,    "noexec"sv,       "noiversion"sv,
    "nolazytime"sv,     "nomand"sv,        "norelatime"sv,   "nostrictatime"sv,
    "nosuid"sv,         "nosymfollow"sv,   "private"sv,      "ratime"sv,
    "rbind"sv,          "rdev"sv,          "rdiratime"sv,    "relatime"sv,
    "remount"sv,        "rexec"sv,         "ridmap"sv,       "rnoatime"sv,
    "rnodev"sv,         "rnodiratime"sv,   "rnoexec"sv,      "rnorelatime"sv,
    "rnostrictatime"sv, "rnosuid"sv,       "rnosymfollow"sv, "ro"sv,
    "rprivate"sv,       "rrelatime"sv,     "rro"sv,          "rrw"sv,
    "rshared"sv,        "rslave"sv,        "rstrictatime"sv, "rsuid"sv,
    "rsymfollow"sv,     "runbindable"sv,   "rw"sv,           "shared"sv,
    "silent"sv,         "slave"sv,         "src-nofollow"sv, "strictatime"sv,
    "suid"sv,           "symfollow"sv,     "sync"sv,         "tmpcopyup"sv,
    "unbindable"sv,
};

// capability.h, in the kernel's order.
constexpr std::array kCapabilities = {
    "CAP_CHOWN"sv,
    "CAP_DAC_OVERRIDE"sv,
    "CAP_DAC_READ_SEARCH"sv,
    "CAP_FOWNER"sv,
    "CAP_FSETID"sv,
    "CAP_KILL"sv,
    "CAP_SETGID"sv,
    "CAP_SETUID"sv,
    "CAP_SETPCAP"sv,
    "CAP_LINUX_IMMUTABLE"sv,
    "CAP_NET_BIND_SERVICE"sv,
    "CAP_NET_BROADCAST"sv,
    "CAP_NET_ADMIN"sv,
    "CAP_NET_RAW"sv,
    "CAP_IPC_LOCK"sv,
    "CAP_IPC_OWNER"sv,
    "CAP_SYS_MODULE"sv,
    "CAP_SYS_RAWIO"sv,
    "CAP_SYS_CHROOT"sv,
    "CAP_SYS_PTRACE"sv,
    "CAP_SYS_PACCT"sv,
    "CAP_SYS_ADMIN"sv,
    "CAP_SYS_BOOT"sv,
    "CAP_SYS_NICE"sv,
    "CAP_SYS_RESOURCE"sv,
    "CAP_SYS_TIME"sv,
    "CAP_SYS_TTY_CONFIG"sv,
    "CAP_MKNOD"sv,
    "CAP_LEASE"sv,
    "CAP_AUDIT_WRITE"sv,
    "CAP_AUDIT_CONTROL"sv,
    "CAP_SETFCAP"sv,
    "CAP_MAC_OVERRIDE"sv,
    "CAP_MAC_ADMIN"sv,
    "CAP_SYSLOG"sv,
    "CAP_WAKE_ALARM"sv,
    "CAP_BLOCK_SUSPEND"sv,
    "CAP_AUDIT_READ"sv,
    "CAP_PERFMON"sv,
    "CAP_BPF"sv,
    "CAP_CHECKPOINT_RESTORE"sv,
};

constexpr std::array kNamespaces = {
    "cgroup"sv, "ipc"sv, "mount"sv, "network"sv, "pid"sv, "time"sv, "user"sv, "uts"sv,
};

// Annotations that change what the runtime does: an engine that takes annotations from strangers should not hand these
// on. A final dot stands for all that begin so.
constexpr std::array kUnsafeAnnotations = {
    "dev.gvisor."sv, "org.agentrun."sv, "org.criu."sv, "org.systemd.property."sv, "run.oci."sv,
};

#define AGENTRUN_TEXT_OF(number) #number
#define AGENTRUN_TEXT(number) AGENTRUN_TEXT_OF(number)
constexpr const char* kLibseccompVersion =
    AGENTRUN_TEXT(SCMP_VER_MAJOR) "." AGENTRUN_TEXT(SCMP_VER_MINOR) "." AGENTRUN_TEXT(SCMP_VER_MICRO);
#undef AGENTRUN_TEXT
#undef AGENTRUN_TEXT_OF

// What this libseccomp can compile for; the specification's list is longer than that of older libraries.
bool is_compiled_for(std::string_view architecture) {
#ifndef SCMP_ARCH_LOONGARCH64
  if (architecture == "SCMP_ARCH_LOONGARCH64") return false;
#endif
#ifndef SCMP_ARCH_M68K
  if (architecture == "SCMP_ARCH_M68K") return false;
#endif
#ifndef SCMP_ARCH_SH
  if (architecture == "SCMP_ARCH_SH" || architecture == "SCMP_ARCH_SHEB") return false;
#endif
  return !architecture.empty();
}

void list(JsonWriter& out, std::string_view key, std::span<const std::string_view> names) {
  out.key(key);
  out.begin_array();
  for (const std::string_view name : names) out.string(name);
  out.end_array();
}

void enabled(JsonWriter& out, std::string_view key, bool value) {
  out.key(key);
  out.begin_object();
  out.member("enabled", value);
  out.end_object();
}

void seccomp(JsonWriter& out) {
  out.key("seccomp");
  out.begin_object();
  out.member("enabled", true);
  list(out, "actions", names::kSeccompActions);
  list(out, "operators", names::kSeccompOperators);
  out.key("archs");
  out.begin_array();
  for (const std::string_view name : names::kSeccompArchitectures) {
    if (is_compiled_for(name)) out.string(name);
  }
  out.end_array();
  list(out, "knownFlags", names::kSeccompFlags);
  list(out, "supportedFlags", names::kSeccompFlags);
  out.end_object();
}

void linux_features(JsonWriter& out) {
  out.key("linux");
  out.begin_object();
  list(out, "namespaces", kNamespaces);
  list(out, "capabilities", kCapabilities);
  out.key("cgroup");
  out.begin_object();
  for (const char* key : {"v1", "v2", "systemd", "systemdUser", "rdma"}) out.member(key, true);
  out.end_object();
  seccomp(out);
  enabled(out, "apparmor", true);
  enabled(out, "selinux", true);
  out.key("memoryPolicy");
  out.begin_object();
  list(out, "modes", names::kMemoryModes);
  list(out, "flags", names::kMemoryFlags);
  out.end_object();
  enabled(out, "intelRdt", false);
  out.key("mountExtensions");
  out.begin_object();
  enabled(out, "idmap", true);
  out.end_object();
  enabled(out, "netDevices", true);
  out.end_object();
}

}  // namespace

std::string print_features() {
  JsonWriter out(Layout::indented);
  out.begin_object();
  out.member("ociVersionMin", "1.0.0");
  out.member("ociVersionMax", kVersion);
  list(out, "hooks", names::kHooks);
  list(out, "mountOptions", kMountOptions);
  linux_features(out);
  out.key("annotations");
  out.begin_object();
  out.member("io.github.seccomp.libseccomp.version", kLibseccompVersion);
  out.member("org.agentrun.version", AGENTRUN_VERSION);
  out.end_object();
  list(out, "potentiallyUnsafeConfigAnnotations", kUnsafeAnnotations);
  out.end_object();
  return out.take();
}

}  // namespace agentrun::oci
