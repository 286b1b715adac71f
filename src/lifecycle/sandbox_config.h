// What `agentrun sandbox` runs, as a config.json of our own making: one command, contained, without an engine
//. Pure: what has to be known of the host comes in as SandboxHost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "oci/config.h"
#include "policy/policy.h"

namespace agentrun::lifecycle {

// Inside the sandbox: the working directory and HOME, and where --out takes results from.
inline constexpr const char* kSandboxWorkdir = "/work";
inline constexpr const char* kSandboxOut = "/out";

// By root the program runs as a user that nothing else on the host is: one of 2^27 ids from 1879048192 (0x70000000) on,
// above every range that distributions and systemd hand out to users and containers, below 2^31, drawn anew for each
// sandbox, so that two of them never share one. systemd.io/UIDS-GIDS lists that range as unused.
inline constexpr std::uint32_t kSandboxUidBase = 0x70000000;
inline constexpr std::uint32_t kSandboxUidCount = 1u << 27;

struct SandboxBind {
  std::string source;       // as given; resolved to an absolute path before make_sandbox_config
  std::string destination;  // absolute, clean
  bool writable = false;
};

// "SRC", "SRC:DST", "SRC:DST:rw", "SRC:DST:ro". Without DST it is SRC, which must then be absolute; a destination over
// / /proc or /dev is refused.
Result<SandboxBind> parse_sandbox_bind(std::string_view text);

struct SandboxOptions {
  std::string rootfs;  // empty: the host's system directories
  std::vector<SandboxBind> binds;
  std::string workdir;  // shown at kSandboxWorkdir, changes vanish; empty: an empty directory
  std::string out;      // what is written to kSandboxOut is kept there; empty: none
  std::optional<std::int64_t> timeout_us;
  std::optional<std::int64_t> memory;  // bytes
  std::optional<std::int64_t> cpus;    // milliCPU
  std::optional<std::int64_t> pids;
  std::vector<std::string> env;   // "NAME=VALUE"
  std::vector<std::string> args;  // not empty
};

// What was found, and what was made for it.
struct SandboxHost {
  std::string rootfs;                           // absolute: the root that build_sandbox_root made
  std::vector<std::string> system_directories;  // "/usr", ...: real directories of the host, bound read-only
  std::uint32_t uid = 0, gid = 0;               // the program's
  bool user_namespace = false;                  // the caller is an ordinary user
};

// All paths of `options` are absolute and without symlinks. Limits are both in the config and as org.agentrun.*
// annotations: what the policy does not allow is an error that names it, instead of a cut in silence.
oci::Config make_sandbox_config(const SandboxOptions& options, const SandboxHost& host);

// Under user.userns "auto": a user namespace in which the program's id, which no one else on the host has, is itself
// and there is no other. Nothing has to be mapped then. False, and nothing, where the config has a user namespace.
bool add_sandbox_user_namespace(oci::Config& config, const SandboxHost& host, const policy::Policy& policy);

// Sources of the binds that are asked for writable: Global::writable_sources.
std::vector<std::string> writable_sources(const SandboxOptions& options);

// /etc/passwd and /etc/group of the sandbox.
std::string sandbox_passwd(std::uint32_t uid, std::uint32_t gid);
std::string sandbox_group(std::uint32_t gid);

}  // namespace agentrun::lifecycle
