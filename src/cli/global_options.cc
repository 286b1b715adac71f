#include "cli/global_options.h"

#include <utility>

#include "cli/commands.h"
#include "cli/options.h"

namespace agentrun::cli {
namespace {

Result<sandbox::CgroupManager> parse_manager(std::string_view value) {
  if (value == "cgroupfs") return sandbox::CgroupManager::cgroupfs;
  if (value == "systemd") return sandbox::CgroupManager::systemd;
  if (value == "disabled") return sandbox::CgroupManager::disabled;
  return refusal("", "", "must be cgroupfs, systemd or disabled, not " + std::string(value));
}

OptionParser make_parser(GlobalOptions& options, bool& debug, bool& systemd_cgroup) {
  OptionParser parser("", "COMMAND [ARGUMENT...]", "Run containers of code that nobody has read.",
                      Order::before_operand);
  parser
      .text("root", "DIR", options.global.root,
            "state of the containers (default: /run/agentrun, or $XDG_RUNTIME_DIR/agentrun)")
      .text("log", "FILE", options.sink.file, "write an error there too (default: standard error alone)")
      .value(
          "log-format", "text|json",
          [&options](std::string_view value) -> Result<void> {
            options.sink.format = TRY(log::parse_format(value));
            return ok();
          },
          "of the log (default: text)")
      .value(
          "log-level", "LEVEL",
          [&options](std::string_view value) -> Result<void> {
            options.sink.level = TRY(log::parse_level(value));
            return ok();
          },
          "error, warning, info or debug (default: error)")
      .flag("debug", debug, "the same as --log-level debug")
      .flag("systemd-cgroup", systemd_cgroup, "the same as --cgroup-manager systemd")
      .value(
          "cgroup-manager", "MANAGER",
          [&options](std::string_view value) -> Result<void> {
            options.global.cgroup_manager = TRY(parse_manager(value));
            return ok();
          },
          "cgroupfs, systemd or disabled (default: cgroupfs)")
      .text("policy", "NAME|FILE", options.global.policy,
            "what to enforce (default: that of agentrun.json, else strict)")
      .text("config", "FILE", options.global.config,
            "settings of the host (default: " AGENTRUN_SYSCONFDIR "/agentrun.json)")
      .text("trace-timing", "FILE", options.trace_file, "write the microseconds of each step there")
      .ignored("rootless", "true|false|auto")
      .flag("version,v", options.version, "print the version");
  return parser;
}

}  // namespace

Result<void> parse_global_options(const std::vector<std::string>& arguments, GlobalOptions& options) {
  bool debug = false, systemd_cgroup = false;
  const auto parsed = make_parser(options, debug, systemd_cgroup).parse(arguments);
  if (debug) options.sink.level = log::Level::debug;
  if (systemd_cgroup) options.global.cgroup_manager = sandbox::CgroupManager::systemd;
  if (parsed.has_error()) return parsed.error();
  options.help = parsed->help;
  options.rest = parsed->operands;
  return ok();
}

std::string global_help() {
  GlobalOptions unused;
  bool debug = false, systemd_cgroup = false;
  std::string help = make_parser(unused, debug, systemd_cgroup).help() + "\nCommands:\n";
  for (const Command& command : commands()) {
    help += std::string("  ") + command.name + std::string(10 - std::string_view(command.name).size(), ' ') +
            command.summary + '\n';
  }
  return help + "\n`agentrun COMMAND --help` tells more of each.\n";
}

}  // namespace agentrun::cli
