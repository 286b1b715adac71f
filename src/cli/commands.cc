#include "cli/commands.h"

#include <unistd.h>

#include "oci/state.h"
#include "sys/file.h"

namespace agentrun::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> all{
      {"create", "make a container from a bundle; it waits for start", create_command},
      {"start", "let a created container run", start_command},
      {"state", "print the state of a container", state_command},
      {"kill", "send a signal to a container", kill_command},
      {"delete", "remove a container", delete_command},
      {"run", "create, start, wait and delete", run_command},
      {"exec", "run a process in a running container", exec_command},
      {"list", "list the containers", list_command},
      {"ps", "list the processes of a container", ps_command},
      {"pause", "freeze a container", pause_command},
      {"resume", "thaw a container", resume_command},
      {"update", "change the limits of a container", update_command},
      {"events", "print the use of resources and kills for memory", events_command},
      {"features", "print what this runtime can", features_command, false},
      {"spec", "write a config.json to begin with", spec_command, false},
      {"sandbox", "run one command contained, without an engine", sandbox_command},
      {"policy", "list, show, check and explain policies", policy_command, false},
      {"doctor", "say what this host can enforce", doctor_command, false},
      {"report", "print what the policy changed for a container", report_command},
      {"version", "print the version", version_command, false},
  };
  return all;
}

Result<int> print(std::string_view text) {
  TRY(sys::write_all(STDOUT_FILENO, text, "standard output"));
  return 0;
}

void add_create_options(OptionParser& parser, lifecycle::CreateOptions& options, bool& no_pivot, bool& no_new_keyring) {
  parser.text("bundle,b", "DIR", options.bundle, "directory of the bundle (default: the working directory)")
      .text("config,f", "FILE", options.config, "the configuration (default: config.json of the bundle)")
      .text("console-socket", "SOCKET", options.console_socket, "unix socket that gets the terminal")
      .text("pid-file", "FILE", options.pid_file, "write the pid of the container's process there")
      .text("pidfd-socket", "SOCKET", options.pidfd_socket, "unix socket that gets a pidfd of the process")
      .flag("no-pivot", no_pivot, "do not use pivot_root, for a root that is a ramdisk")
      .flag("no-new-keyring", no_new_keyring, "keep the session keyring of the caller")
      .number("preserve-fds", options.preserve_fds, "pass that many descriptors from 3 on (default: 0)");
}

std::string version_text() {
  std::string text = "agentrun version " AGENTRUN_VERSION "\nspec: ";
  text += oci::kVersion;
  text += "\n";
#ifdef HAVE_SYSTEMD
  text += "+SYSTEMD ";
#endif
  return text + "+SELINUX +APPARMOR +CAP +SECCOMP +EBPF\n";
}

Result<int> version_command(const Invocation& call) {
  OptionParser parser("version", "", "Print the version of agentrun and of the specification that it follows.");
  const auto parsed = TRY(parser.operands(0, 0).parse(call.arguments));
  return print(parsed.help ? parser.help() : version_text());
}

}  // namespace agentrun::cli
