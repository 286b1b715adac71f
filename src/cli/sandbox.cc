#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/sandbox_result.h"
#include "lifecycle/create.h"
#include "lifecycle/facts.h"
#include "lifecycle/resolve.h"
#include "lifecycle/sandbox_config.h"
#include "lifecycle/sandbox_out.h"
#include "lifecycle/sandbox_root.h"
#include "lifecycle/store.h"
#include "sandbox/labels.h"
#include "sys/file.h"
#include "sys/landlock.h"

namespace agentrun::cli {
namespace {

constexpr int kDeadlineExit = 124;  // as timeout(1)
constexpr int kOwnErrorExit = 125;  // as engines

struct Request {
  lifecycle::SandboxOptions sandbox;
  std::string json_file;
  std::optional<lifecycle::OutPlace> out;
  mode_t umask = 022;  // the caller's
  bool explain = false;
};

Result<std::string> resolve(const char* option, const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> resolved(realpath(path.c_str(), nullptr), &free);
  if (resolved == nullptr) return errno_error(option, path);
  return std::string(resolved.get());
}

// "NAME=VALUE", or "NAME" for the value that it has here.
Result<void> add_variable(std::vector<std::string>& env, std::string_view value) {
  std::string entry(value);
  const std::size_t equals = entry.find('=');
  if (equals == 0 || entry.empty()) return refusal("", "", "must be NAME or NAME=VALUE");
  if (equals == std::string::npos) {
    const char* inherited = std::getenv(entry.c_str());
    if (inherited == nullptr) return refusal("", "", entry + " is not set here");
    entry += std::string("=") + inherited;
  }
  env.push_back(std::move(entry));
  return ok();
}

template <typename Parser>
std::function<Result<void>(std::string_view)> positive_into(std::optional<std::int64_t>& target, Parser parse) {
  return [&target, parse](std::string_view value) -> Result<void> {
    const std::int64_t number = TRY(parse(value));
    if (number <= 0) return refusal("", "", "must be more than 0");
    target = number;
    return ok();
  };
}

Result<std::int64_t> parse_memory(std::string_view value) {
  const std::int64_t bytes = TRY(text::parse_size(value));
  if (bytes < policy::kLeastMemory)
    return refusal("", "", "below " + text::print_size(policy::kLeastMemory) + " no program starts");
  return bytes;
}

Result<std::int64_t> parse_count(std::string_view value) {
  const auto number = text::parse_signed(value);
  if (!number) return refusal("", "", "not a number: " + std::string(value));
  return *number;
}

void add_options(OptionParser& parser, Request& request, lifecycle::Global& global) {
  lifecycle::SandboxOptions& sandbox = request.sandbox;
  parser.text("policy", "NAME|FILE", global.policy, "what to enforce (default: strict)")
      .text("rootfs", "DIR", sandbox.rootfs, "its root, read-only (default: this host's /usr and a built /etc)")
      .value(
          "bind", "SRC[:DST[:rw]]",
          [&sandbox](std::string_view value) -> Result<void> {
            sandbox.binds.push_back(TRY(lifecycle::parse_sandbox_bind(value)));
            return ok();
          },
          "show a file or directory, read-only unless rw is there")
      .text("workdir", "DIR", sandbox.workdir, "show DIR as /work; what is changed there vanishes (default: empty)")
      .text("out", "DIR", sandbox.out, "afterwards DIR has what was written to /out; it is made, or is empty")
      .value("timeout", "DURATION", positive_into(sandbox.timeout_us, text::parse_duration),
             "kill it after that: 90s, 10m, 1h30m (default: the policy's)")
      .value("memory", "SIZE", positive_into(sandbox.memory, parse_memory), "512M, 2G (default: the policy's)")
      .value("cpus", "N", positive_into(sandbox.cpus, text::parse_cpus), "1.5 (default: the policy's)")
      .value("pids", "N", positive_into(sandbox.pids, parse_count), "processes and threads (default: the policy's)")
      .value(
          "env,e", "NAME[=VALUE]", [&sandbox](std::string_view value) { return add_variable(sandbox.env, value); },
          "add to its environment; without VALUE, what NAME is here")
      .text("json", "FILE", request.json_file, "write the result there")
      .flag("explain", request.explain, "print to standard error what is enforced, and by what");
}

Result<void> resolve_paths(Request& request) {
  lifecycle::SandboxOptions& sandbox = request.sandbox;
  if (!sandbox.rootfs.empty()) sandbox.rootfs = TRY(resolve("--rootfs", sandbox.rootfs));
  if (!sandbox.workdir.empty()) sandbox.workdir = TRY(resolve("--workdir", sandbox.workdir));
  for (lifecycle::SandboxBind& bind : sandbox.binds) bind.source = TRY(resolve("--bind", bind.source));
  if (!sandbox.out.empty()) request.out = TRY(lifecycle::open_out_place(sandbox.out, request.umask));
  return ok();
}

// One directory of the state root is the mount point of all sandboxes: each mounts in a namespace of its own.
Result<std::string> mount_point(const lifecycle::Global& global) {
  const lifecycle::Store store =
      TRY(lifecycle::Store::open(global.root.empty() ? lifecycle::default_root() : global.root));
  if (mkdirat(store.directory(), ".sandbox", 0700) != 0 && errno != EEXIST) {
    return errno_error("mkdir", store.path() + "/.sandbox");
  }
  return resolve("open", store.path() + "/.sandbox");
}

Result<std::string> make_id() {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) return errno_error("getrandom");
  std::string id = "sandbox-";
  for (int shift = 60; shift >= 0; shift -= 4) id += "0123456789abcdef"[(number >> shift) & 15];
  return id;
}

Mechanisms find_mechanisms(const policy::Policy& policy) {
  Mechanisms found;
  found.apparmor = sandbox::apparmor_profile_loaded(policy.apparmor);
  found.landlock = sys::landlock_abi() >= policy::kLandlockFiles;
  return found;
}

int exit_status_of(const lifecycle::Outcome& outcome) {
  return outcome.reason == "deadline" ? kDeadlineExit : outcome.code;
}

// The results are there whatever became of the program; what is not among them is said.
Result<lifecycle::Collected> collect(int results, const Request& request) {
  auto limits = TRY(lifecycle::out_limits(results, request.umask));
  auto collected = TRY(lifecycle::collect_sandbox_out(results, *request.out, limits));
  if (collected.left_out == 0) return collected;
  const auto listed = static_cast<std::int64_t>(collected.examples.size());
  std::string text =
      "agentrun: --out " + text::printable(request.out->path) + ": left out " + text::join(collected.examples, ", ");
  if (collected.left_out > listed) text += ", and " + std::to_string(collected.left_out - listed) + " more";
  TRY(sys::write_all(STDERR_FILENO, text + '\n', "standard error"));
  return collected;
}

Result<int> contain(const Request& request, lifecycle::Global global) {
  // Opened before anything runs: a result that cannot be kept is found out now.
  UniqueFd json;
  if (!request.json_file.empty()) json = TRY(sys::open(request.json_file, O_WRONLY | O_CREAT | O_TRUNC, 0644));

  global.cgroup_manager = lifecycle::manager_for_caller(global.cgroup_manager);
  const std::string bundle = TRY(mount_point(global));
  const lifecycle::SandboxHost host = TRY(lifecycle::build_sandbox_root(request.sandbox, bundle));
  oci::Config config = lifecycle::make_sandbox_config(request.sandbox, host);
  global.writable_sources = lifecycle::writable_sources(request.sandbox);
  if (request.out) global.writable_directories = {lifecycle::kSandboxOut};

  const policy::Policy policy = TRY(lifecycle::resolve_policy(global, config.annotations));
  if (request.out && !policy.workdir.writable) {
    return refusal("--out", request.out->path, "policy " + policy.name + " has no writable directories");
  }
  if (lifecycle::add_sandbox_user_namespace(config, host, policy)) {
    TRY(lifecycle::make_mount_points(config, host));
  }
  const std::vector<Enforced> enforced = list_enforced(policy, config, find_mechanisms(policy));
  if (request.explain) {
    TRY(sys::write_all(STDERR_FILENO, "agentrun sandbox, policy " + policy.name + ":\n" + explain_enforced(enforced),
                       "standard error"));
  }

  lifecycle::RunOptions run;
  run.create.id = TRY(make_id());
  run.create.bundle = bundle;
  UniqueFd results;
  if (request.out) {
    run.before_start = [&results](pid_t pid) -> Result<void> {
      results = TRY(lifecycle::open_sandbox_out(pid));
      return ok();
    };
  }
  const lifecycle::Outcome outcome = TRY(lifecycle::run_config(global, run, config));
  const int status = exit_status_of(outcome);
  Result<lifecycle::Collected> collected = lifecycle::Collected();
  if (request.out) collected = collect(results.get(), request);
  if (json) {
    const lifecycle::Collected* kept = request.out && collected ? &*collected : nullptr;
    TRY(sys::write_all(json.get(), print_outcome(outcome, status, enforced, kept), request.json_file));
  }
  if (!collected) return std::move(collected).error();
  return status;
}

Result<int> parse_and_contain(const Invocation& call) {
  Request request;
  lifecycle::Global global = call.global;
  OptionParser parser(
      "sandbox", "[--] COMMAND [ARGUMENT...]",
      "Run one command contained, without an engine: no network, no privileges, nothing of this host but "
      "its programs, and a deadline. The exit status is the command's, 124 at the deadline, 125 for an "
      "error of agentrun itself.",
      Order::before_operand);
  add_options(parser, request, global);
  const auto parsed = TRY(parser.operands(1).parse(call.arguments));
  if (parsed.help) return print(parser.help());
  request.sandbox.args = parsed.operands;
  request.umask = ::umask(022);
  TRY(resolve_paths(request));
  return contain(request, std::move(global));
}

}  // namespace

Result<int> sandbox_command(const Invocation& call) {
  Result<int> result = parse_and_contain(call);
  if (result.has_value()) return result;
  Error error = std::move(result).error();
  if (error.exit_status == 1) error.exit_status = kOwnErrorExit;
  return error;
}

}  // namespace agentrun::cli
