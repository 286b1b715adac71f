// The commands: each reads its options, calls one operation of lifecycle/ and prints.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/options.h"
#include "lifecycle/create.h"
#include "lifecycle/options.h"

namespace agentrun::cli {

struct Invocation {
  lifecycle::Global global;
  std::vector<std::string> arguments;  // after the command's name
};

struct Command {
  const char* name;
  const char* summary;
  Result<int> (*run)(const Invocation&);  // the exit status
  bool touches_containers = true;
};

// In the order in which --help lists them.
const std::vector<Command>& commands();

// Writes to standard output; 0, so that a command can return it. A full disk or a closed pipe is an error.
Result<int> print(std::string_view text);

// What create and run have in common; the targets live in `options`.
void add_create_options(OptionParser& parser, lifecycle::CreateOptions& options, bool& no_pivot, bool& no_new_keyring);

// What --version prints.
std::string version_text();

Result<int> create_command(const Invocation& call);
Result<int> start_command(const Invocation& call);
Result<int> state_command(const Invocation& call);
Result<int> kill_command(const Invocation& call);
Result<int> delete_command(const Invocation& call);
Result<int> run_command(const Invocation& call);
Result<int> doctor_command(const Invocation& call);
Result<int> exec_command(const Invocation& call);
Result<int> list_command(const Invocation& call);
Result<int> ps_command(const Invocation& call);
Result<int> pause_command(const Invocation& call);
Result<int> resume_command(const Invocation& call);
Result<int> update_command(const Invocation& call);
Result<int> events_command(const Invocation& call);
Result<int> features_command(const Invocation& call);
Result<int> spec_command(const Invocation& call);
Result<int> sandbox_command(const Invocation& call);
Result<int> policy_command(const Invocation& call);
Result<int> report_command(const Invocation& call);
Result<int> version_command(const Invocation& call);

}  // namespace agentrun::cli
