#include "policy/settings.h"

#include <utility>

#include "oci/json_reader.h"
#include "policy/values.h"

namespace agentrun::policy {
namespace {

using oci::JsonReader;

constexpr std::size_t kSizeLimit = 1u << 20;      // bytes of the file
constexpr std::int64_t kLeastTotal = 16LL << 20;  // bytes of all containers: below that not one of them starts
constexpr std::int64_t kMostContainers = 1'000'000;
constexpr std::int64_t kMostPids = 1LL << 22;  // the kernel's own largest (PID_MAX_LIMIT)

std::string check_network(const std::string& mode) {
  return mode == "none" || mode == "config" ? std::string() : "expected \"none\" or \"config\"";
}

std::string check_engine(const std::string& engine) { return engine == "cri" ? std::string() : "expected \"cri\""; }

}  // namespace

static Result<void> from_json(const JsonReader& in, Loosening& out) {
  Duration deadline{out.deadline};
  Size memory{out.memory, 1};
  Cpus cpus{out.cpus};
  Count pids{out.pids, kMostPids};
  std::string network;
  TRY(in.read("deadline", deadline));
  TRY(in.read("memory", memory));
  TRY(in.read("cpus", cpus));
  TRY(in.read("pids", pids));
  TRY(in.read("network", network, check_network));
  out.network = network == "config";
  // "none" could be read as no bound at all, and would be none of the right to loosen.
  const std::pair<const char*, bool> bounds[] = {{"deadline", out.deadline.has_value()},
                                                 {"memory", out.memory.has_value()},
                                                 {"cpus", out.cpus.has_value()},
                                                 {"pids", out.pids.has_value()}};
  for (const auto& [key, has_bound] : bounds) {
    if (in.has(key) && !has_bound) return in.error_at(key, "expected a bound: callers need one");
  }
  return in.read("env_keep", out.env_keep, check_variable);
}

struct HookSettings {
  std::vector<std::string>& directories;
};
static Result<void> from_json(const JsonReader& in, HookSettings& out) {
  return in.read("directories", out.directories, check_path);
}

static Result<void> from_json(const JsonReader& in, RootSettings& out) {
  std::string engine;
  TRY(in.read("engine", engine, check_engine));
  out.cri = !engine.empty();
  return in.read("default", out.default_policy, check_policy_name);
}

static Result<void> from_json(const JsonReader& in, Guard& out) {
  Count containers{out.containers, kMostContainers};
  Size memory{out.memory, kLeastTotal};
  Count pids{out.pids, kMostPids};
  TRY(in.read("containers", containers));
  TRY(in.read("memory", memory));
  TRY(in.read("pids", pids));
  return in.read("exempt_users", out.exempt_users);
}

static Result<void> from_json(const JsonReader& in, Settings& out) {
  std::string ignored;
  TRY(in.read("$schema", ignored));
  TRY(in.read("description", ignored));
  TRY(in.read("default", out.default_policy, check_policy_name));
  TRY(in.read("selectable", out.selectable, check_policy_name));
  TRY(in.read("annotations", out.annotations));
  HookSettings hooks{out.hook_directories};
  TRY(in.read("hooks", hooks));
  TRY(in.read_map("roots", out.roots, check_path));
  return in.read("guard", out.guard);
}

Result<Settings> parse_settings(std::string_view json, std::string_view name) {
  const auto document = TRY(oci::JsonDocument::parse(json, name, kSizeLimit, oci::UnknownKeys::refused));
  Settings settings;
  TRY(document.read(settings));
  return settings;
}

const RootSettings& settings_of_root(const Settings& settings, const std::string& root) {
  static const RootSettings none;
  const auto found = settings.roots.find(root);
  return found == settings.roots.end() ? none : found->second;
}

}  // namespace agentrun::policy
