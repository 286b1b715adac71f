#include "policy/policy.h"

#include <limits.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "cli/commands.h"
#include "lifecycle/host_settings.h"
#include "lifecycle/private_ids.h"
#include "lifecycle/resolve.h"
#include "oci/parse.h"
#include "policy/harden.h"
#include "policy/settings.h"
#include "sandbox/rootfs.h"
#include "sys/file.h"

namespace agentrun::cli {
namespace {

constexpr std::size_t kPolicySizeLimit = 1u << 20;  // bytes

const char* name_of(policy::NetworkMode mode) {
  switch (mode) {
    case policy::NetworkMode::config:
      return "as asked";
    case policy::NetworkMode::none:
      return "none";
    case policy::NetworkMode::inherit:
      return "inherit";
  }
  return "";
}

template <typename T, typename Printer>
std::string or_none(const std::optional<T>& value, Printer printer) {
  return value ? printer(*value) : std::string("-");
}

Result<int> list(const Invocation& call) {
  OptionParser parser("policy list", "", "List the policies: those that are built in, and the administrator's.");
  const auto parsed = TRY(parser.operands(0, 0).parse(call.arguments));
  if (parsed.help) return print(parser.help());

  std::vector<std::array<std::string, 6>> rows{{"NAME", "NETWORK", "DEADLINE", "MEMORY", "CPUS", "PIDS"}};
  std::vector<std::string> names = policy::builtin_names();
  const std::vector<std::string> files = TRY(lifecycle::policy_file_names(call.global));
  names.insert(names.end(), files.begin(), files.end());
  for (const std::string& name : names) {
    const policy::Policy policy = TRY(lifecycle::named_policy(call.global, name));
    rows.push_back({name, name_of(policy.network.mode), or_none(policy.deadline.container, text::print_duration),
                    or_none(policy.limits.memory, text::print_size),
                    or_none(policy.limits.cpus,
                            [](std::int64_t milli) {
                              std::string cpus = std::to_string(milli / 1000);
                              if (milli % 1000 != 0) cpus += '.' + std::to_string(milli % 1000 + 1000).substr(1);
                              return cpus;
                            }),
                    or_none(policy.limits.pids, [](std::int64_t pids) { return std::to_string(pids); })});
  }
  std::string table;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::size_t width = 0;
      for (const auto& other : rows) width = std::max(width, other[i].size());
      table += i + 1 == row.size() ? row[i] + '\n' : row[i] + std::string(width - row[i].size() + 2, ' ');
    }
  }
  return print(table);
}

Result<int> show(const Invocation& call) {
  OptionParser parser("policy show", "NAME", "Print a policy as JSON: one that is built in, or the administrator's.");
  const auto parsed = TRY(parser.operands(1, 1).parse(call.arguments));
  if (parsed.help) return print(parser.help());
  const std::string& name = parsed.operands[0];
  std::string text(policy::builtin_text(name));
  if (text.empty()) text = TRY(lifecycle::policy_file(call.global, name)).json;
  return print(text + (text.ends_with('\n') ? "" : "\n"));
}

Result<int> check(const Invocation& call) {
  OptionParser parser("policy check", "FILE", "Say whether a file is a policy, and if not, where the first error is.");
  bool settings = false;
  parser.flag("settings", settings, "the file is to be agentrun.json, not a policy");
  const auto parsed = TRY(parser.operands(1, 1).parse(call.arguments));
  if (parsed.help) return print(parser.help());
  const std::string& file = parsed.operands[0];
  const std::string json = TRY(sys::read_file(file, kPolicySizeLimit));
  if (settings) {
    TRY(policy::parse_settings(json, file));
  } else {
    TRY(policy::parse_policy(json, file, lifecycle::policy_finder(call.global)));
  }
  return print(text::printable(file) + (settings ? ": settings\n" : ": a policy\n"));
}

Result<std::string> absolute(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> resolved(realpath(path.c_str(), nullptr), &free);
  if (resolved == nullptr) return errno_error("open bundle", path);
  return std::string(resolved.get());
}

// The way of create up to the point where the first thing would be made.
Result<int> explain(const Invocation& call) {
  std::string bundle = ".", file;
  bool json = false;
  lifecycle::Global global = call.global;
  OptionParser parser("policy explain", "",
                      "Say what the policy would change in a bundle's configuration, and why. Nothing is made.");
  parser.text("bundle,b", "DIR", bundle, "directory of the bundle (default: the working directory)")
      .text("config,f", "FILE", file, "the configuration (default: config.json of the bundle)")
      .text("policy", "NAME|FILE", global.policy, "the policy (default: what create would use)")
      .flag("json", json, "as JSON");
  const auto parsed = TRY(parser.operands(0, 0).parse(call.arguments));
  if (parsed.help) return print(parser.help());

  bundle = TRY(absolute(bundle));
  if (file.empty()) file = bundle + "/config.json";
  const std::string text = TRY(sys::read_file(file, oci::kConfigSizeLimit));
  const oci::Config config = TRY(oci::parse_config(text, "config.json"));
  const policy::Policy policy = TRY(lifecycle::resolve_policy(global, config.annotations));
  const sandbox::BindSources sources = TRY(sandbox::open_bind_sources(config, bundle));
  policy::Facts facts = TRY(lifecycle::gather_facts(global, config, bundle, sources, policy));
  if (policy::wants_private_ids(config, policy, facts)) {
    const auto ids = lifecycle::possible_private_ids();
    if (ids) facts.private_ids = *ids;
    if (!ids) facts.no_private_ids = ids.error().message();
  }
  const policy::Effective effective = TRY(policy::harden(config, policy, facts));
  return print(json ? policy::print_report(effective.report) + '\n' : policy::explain_report(effective.report));
}

}  // namespace

Result<int> policy_command(const Invocation& call) {
  static const std::vector<Command> actions{
      {"list", "list the policies", list},
      {"show", "print one of them", show},
      {"check", "check a policy file", check},
      {"explain", "say what a policy would change in a bundle", explain},
  };
  OptionParser parser("policy", "list|show NAME|check FILE|explain", "Look at policies.", Order::before_operand);
  const auto parsed = TRY(parser.operands(1).parse(call.arguments));
  if (parsed.help) {
    std::string help = parser.help() + "\nActions:\n";
    for (const Command& action : actions) {
      help += std::string("  ") + action.name + std::string(10 - std::string_view(action.name).size(), ' ') +
              action.summary + '\n';
    }
    return print(help);
  }
  for (const Command& action : actions) {
    if (parsed.operands[0] != action.name) continue;
    Invocation inner{call.global, {parsed.operands.begin() + 1, parsed.operands.end()}};
    return action.run(inner);
  }
  return refusal("policy", parsed.operands[0], "must be list, show, check or explain");
}

}  // namespace agentrun::cli
