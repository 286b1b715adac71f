// agentrun: parses the command line, runs one command, and turns its result into an exit status and at most one line of
// error.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/trace.h"
#include "cli/commands.h"
#include "cli/global_options.h"
#include "cli/options.h"
#include "lifecycle/supervisor.h"
#include "sandbox/labels.h"
#include "sys/process.h"

namespace agentrun::cli {
namespace {

// A caller that closed 0, 1 or 2 would have the next file that is opened take its number, and a message to standard
// error end in that file.
void occupy_standard_fds() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) != fd) std::_Exit(1);
  }
}

Error unknown_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  const std::string near = nearest(name, names);
  return refusal("", name,
                 near.empty() ? "unknown command; see agentrun --help" : "unknown command; did you mean " + near + "?");
}

Result<int> run(GlobalOptions& options) {
  if (options.version) return print(version_text());
  if (options.help) return print(global_help());
  if (options.rest.empty()) return refusal("", "", "needs a command; see agentrun --help");
  const std::string& name = options.rest[0];
  if (name == "help") return print(global_help());
  for (const Command& command : commands()) {
    if (name != command.name) continue;
    if (command.touches_containers) {
      if (sys::is_host_root()) sandbox::leave_unconfined_profile();
      // The third killer of what is overdue, should supervisor and systemd both have failed.
      lifecycle::sweep_root(options.global.root);
    }
    const Invocation call{options.global, {options.rest.begin() + 1, options.rest.end()}};
    return command.run(call);
  }
  return unknown_command(name);
}

Result<int> run_traced(const std::vector<std::string>& arguments) {
  GlobalOptions options;
  const Result<void> parsed = parse_global_options(arguments, options);
  TRY(log::open(options.sink));
  if (parsed.has_error()) return parsed.error();
  // For callers whose command line is not theirs to change: a shim, conmon.
  if (const char* file = std::getenv("AGENTRUN_TRACE_TIMING"); options.trace_file.empty() && file != nullptr) {
    options.trace_file = file;
  }
  if (!options.trace_file.empty()) TRY(trace::enable(options.trace_file));
  Result<int> result = run(options);
  const Result<void> traced = trace::finish();
  if (result.has_value() && traced.has_error()) return traced.error();
  return result;
}

int run_and_report(const std::vector<std::string>& arguments) {
  const Result<int> result = run_traced(arguments);
  if (result.has_value()) return *result;
  log::failure(result.error());
  return result.error().exit_status;
}

}  // namespace
}  // namespace agentrun::cli

int main(int argc, char** argv) {
  using namespace agentrun;
  try {
    cli::occupy_standard_fds();
    // What we make for ourselves has to stay open to ourselves, whatever the caller's mask: root would not notice.
    const mode_t mask = umask(077);
    umask(mask & 077);
    return cli::run_and_report({argv + (argc > 0 ? 1 : 0), argv + argc});
  } catch (const std::bad_alloc&) {
    constexpr std::string_view message = "agentrun: out of memory\n";  // nothing that allocates is of use now
    return ::write(STDERR_FILENO, message.data(), message.size()) < 0 ? 1 : 1;
  } catch (const std::exception& exception) {
    log::failure(refusal("internal error", "", exception.what()));
    return 1;
  }
}
