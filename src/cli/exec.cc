#include "lifecycle/exec.h"

#include "cli/commands.h"

namespace agentrun::cli {

Result<int> exec_command(const Invocation& call) {
  lifecycle::ExecOptions options;
  OptionParser parser(
      "exec", "ID [COMMAND [ARGUMENT...]]",
      "Run a process in a running container, under the policy that the container was made with. The exit "
      "status is the program's.",
      Order::before_operand);
  parser.text("process,p", "FILE", options.process_file, "the process as JSON, in the place of COMMAND")
      .text("cwd", "DIR", options.cwd, "working directory in the container (default: the container's)")
      .list("env,e", "NAME=VALUE", options.env, "add to the environment")
      .flag("tty,t", options.tty, "give it a terminal")
      .text("user,u", "UID[:GID]", options.user, "run as that user (default: the container's)")
      .list("additional-gids,g", "GID", options.additional_gids, "add a supplementary group")
      .list("cap,c", "CAP", options.capabilities,
            "add a capability; never more than the policy lets the container have")
      .text("apparmor", "PROFILE", options.apparmor, "AppArmor profile of the process")
      .text("process-label", "LABEL", options.process_label, "SELinux label of the process")
      .flag("no-new-privs", options.no_new_privileges, "forbid it to gain privileges")
      .flag("detach,d", options.detach, "do not wait for its end")
      .flag("ignore-paused", options.ignore_paused, "do not refuse where the container is frozen")
      .text("pid-file", "FILE", options.pid_file, "write its pid there")
      .text("console-socket", "SOCKET", options.console_socket, "unix socket that gets the terminal")
      .text("pidfd-socket", "SOCKET", options.pidfd_socket, "unix socket that gets a pidfd of it")
      .text("cgroup", "PATH", options.cgroup, "run it in that cgroup below the container's")
      .number("preserve-fds", options.preserve_fds, "pass that many descriptors from 3 on (default: 0)");
  const auto parsed = TRY(parser.operands(1).parse(call.arguments));
  if (parsed.help) return print(parser.help());

  options.id = parsed.operands[0];
  options.args.assign(parsed.operands.begin() + 1, parsed.operands.end());
  // `exec ID -- COMMAND`: the dashes belong to neither.
  if (!options.args.empty() && options.args[0] == "--") options.args.erase(options.args.begin());
  if (options.process_file.empty() && options.args.empty())
    return refusal("exec", options.id, "needs a command or --process FILE");
  if (!options.process_file.empty() && !options.args.empty()) {
    return refusal("exec", options.id, "takes a command or --process FILE, not both");
  }
  return lifecycle::exec(call.global, options);
}

}  // namespace agentrun::cli
