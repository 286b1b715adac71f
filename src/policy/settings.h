// agentrun.json: what the administrator of a host says once, for all of its containers. agentrun.json(5) is the
// reference. Pure, as all of policy/: the file itself is read in lifecycle/.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/policy.h"

namespace agentrun::policy {

// How far an annotation of a container may go beyond the policy. Nothing: it can only tighten.
struct Loosening {
  std::optional<std::int64_t> deadline;  // microseconds
  std::optional<std::int64_t> memory;    // bytes
  std::optional<std::int64_t> cpus;      // milliCPU
  std::optional<std::int64_t> pids;
  bool network = false;                              // org.agentrun.network may say "config"
  std::optional<std::vector<std::string>> env_keep;  // globs of what .env.keep may name; nothing: all but secrets
};

// What is special about the containers of one state root (--root): the one thing of an engine's that no tenant can set.
struct RootSettings {
  bool cri = false;            // "engine": "cri": its pod annotations are kubelet's and count
  std::string default_policy;  // in place of the host's; empty: that
};

// How much all containers together may have.
struct Guard {
  std::optional<std::int64_t> containers;
  std::optional<std::int64_t> memory;  // bytes
  std::optional<std::int64_t> pids;
  bool exempt_users = false;  // ordinary users, whose containers it cannot reach, are not refused
  bool any() const { return containers || memory || pids; }
};

struct Settings {
  std::string default_policy = "strict";
  std::vector<std::string> selectable;  // by org.agentrun.policy
  Loosening annotations;
  std::vector<std::string> hook_directories;  // added to those of every policy
  std::map<std::string, RootSettings> roots;  // by path
  Guard guard;
};

// `name` stands in errors for the file. What holds for policies holds here: unknown keys, wrong types and numbers that
// cannot be meant are errors that name file and JSON pointer. Whether the policies that it names are there is the
// caller's to find out.
Result<Settings> parse_settings(std::string_view json, std::string_view name);

// What holds for the containers of `root`, a clean path; nothing special where it is not named.
const RootSettings& settings_of_root(const Settings& settings, const std::string& root);

}  // namespace agentrun::policy
