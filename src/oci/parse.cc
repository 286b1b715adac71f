// config.md of the specification: what is not of Linux alone.
#include "oci/parse.h"

#include "base/text.h"
#include "oci/checks.h"
#include "oci/names.h"
#include "oci/parse_parts.h"

namespace agentrun::oci {

static Result<void> from_json(const JsonReader& in, ConsoleSize& size) {
  TRY(in.require("height", size.height));
  TRY(in.require("width", size.width));
  return ok();
}

static Result<void> from_json(const JsonReader& in, User& user) {
  // Required by the specification, and not only by the letter: without them a process would be root by omission.
  TRY(in.require("uid", user.uid, usable_id));
  TRY(in.require("gid", user.gid, usable_id));
  TRY(in.read("umask", user.umask, between{0, 0777}));
  TRY(in.read("additionalGids", user.additional_gids, usable_id));
  return ok();
}

static Result<void> from_json(const JsonReader& in, Capabilities& capabilities) {
  TRY(in.read("bounding", capabilities.bounding, capability_name));
  TRY(in.read("effective", capabilities.effective, capability_name));
  TRY(in.read("inheritable", capabilities.inheritable, capability_name));
  TRY(in.read("permitted", capabilities.permitted, capability_name));
  TRY(in.read("ambient", capabilities.ambient, capability_name));
  return ok();
}

static Result<void> from_json(const JsonReader& in, Rlimit& limit) {
  TRY(in.require("type", limit.type, known{names::kRlimits, "rlimit"}));
  TRY(in.require("hard", limit.hard));
  TRY(in.require("soft", limit.soft));
  if (limit.soft > limit.hard) return in.error_at("soft", "larger than hard");
  return ok();
}

static Result<void> from_json(const JsonReader& in, Scheduler& scheduler) {
  TRY(in.require("policy", scheduler.policy, known{names::kSchedulerPolicies, "scheduler policy"}));
  TRY(in.read("nice", scheduler.nice, between{-20, 19}));  // the kernel would cut it to that without a word
  TRY(in.read("priority", scheduler.priority));
  TRY(in.read("flags", scheduler.flags, known{names::kSchedulerFlags, "scheduler flag"}));
  TRY(in.read("runtime", scheduler.runtime));
  TRY(in.read("deadline", scheduler.deadline));
  TRY(in.read("period", scheduler.period));
  return ok();
}

static Result<void> from_json(const JsonReader& in, IoPriority& priority) {
  TRY(in.require("class", priority.io_class, known{names::kIoClasses, "I/O priority class"}));
  TRY(in.require("priority", priority.priority, between{0, 7}));
  return ok();
}

static Result<void> from_json(const JsonReader& in, ExecCpuAffinity& affinity) {
  TRY(in.read("initial", affinity.initial, cpu_list));
  TRY(in.read("final", affinity.final, cpu_list));
  return ok();
}

Result<void> from_json(const JsonReader& in, Process& process) {
  TRY(in.read("terminal", process.terminal));
  TRY(in.read("consoleSize", process.console_size));
  TRY(in.require("user", process.user));
  TRY(in.read("args", process.args));
  if (process.args.empty()) return in.error_at("args", "process.args must not be empty");
  TRY(in.read("env", process.env, env_entry));
  TRY(in.require("cwd", process.cwd, absolute_path));
  TRY(in.read("capabilities", process.capabilities));
  TRY(in.read("rlimits", process.rlimits));
  TRY(refuse_twice(in, "rlimits", process.rlimits, &Rlimit::type));
  TRY(in.read("noNewPrivileges", process.no_new_privileges));
  TRY(in.read("apparmorProfile", process.apparmor_profile));
  TRY(in.read("oomScoreAdj", process.oom_score_adj, between{-1000, 1000}));
  TRY(in.read("scheduler", process.scheduler));
  TRY(in.read("selinuxLabel", process.selinux_label));
  TRY(in.read("ioPriority", process.io_priority));
  TRY(in.read("execCPUAffinity", process.exec_cpu_affinity));
  return ok();
}

static Result<void> from_json(const JsonReader& in, Root& root) {
  TRY(in.require("path", root.path, not_empty));
  TRY(in.read("readonly", root.readonly));
  return ok();
}

Result<void> from_json(const JsonReader& in, IdMapping& mapping) {
  TRY(in.require("containerID", mapping.container_id));
  TRY(in.require("hostID", mapping.host_id));
  TRY(in.require("size", mapping.size, between{1, 0xffffffff}));
  // As the kernel has it (map_write): first + count must not wrap around.
  if (mapping.size > 0xffffffff - mapping.container_id || mapping.size > 0xffffffff - mapping.host_id) {
    return in.error_at("size", "reaches beyond the last id");
  }
  return ok();
}

static Result<void> from_json(const JsonReader& in, Mount& mount) {
  TRY(in.require("destination", mount.destination, not_empty));
  TRY(in.read("type", mount.type));
  TRY(in.read("source", mount.source));
  TRY(in.read("options", mount.options));
  TRY(in.read("uidMappings", mount.uid_mappings));
  TRY(in.read("gidMappings", mount.gid_mappings));
  return ok();
}

static Result<void> from_json(const JsonReader& in, Hook& hook) {
  TRY(in.require("path", hook.path, absolute_path));
  TRY(in.read("args", hook.args));
  TRY(in.read("env", hook.env, env_entry));
  TRY(in.read("timeout", hook.timeout, between{1, 0x7fffffff}));
  return ok();
}

static Result<void> from_json(const JsonReader& in, Hooks& hooks) {
  TRY(in.read("prestart", hooks.prestart));
  TRY(in.read("createRuntime", hooks.create_runtime));
  TRY(in.read("createContainer", hooks.create_container));
  TRY(in.read("startContainer", hooks.start_container));
  TRY(in.read("poststart", hooks.poststart));
  TRY(in.read("poststop", hooks.poststop));
  return ok();
}

// sethostname(2) and setdomainname(2).
static std::string host_name(const std::string& value) {
  constexpr std::size_t kLongest = 64;
  if (value.size() > kLongest) return "longer than 64 bytes";
  // It ends in prompts and logs: an escape sequence or a line of its own there is an attack on whoever reads them.
  return text::printable(value) == value ? "" : "control characters, or bytes that are not UTF-8";
}

static Result<void> from_json(const JsonReader& in, Config& config) {
  TRY(in.require("ociVersion", config.oci_version, oci_version));
  TRY(in.require("root", config.root));
  TRY(in.read("process", config.process));
  TRY(in.read("hostname", config.hostname, host_name));
  TRY(in.read("domainname", config.domainname, host_name));
  TRY(in.read("mounts", config.mounts));
  TRY(in.read("hooks", config.hooks));
  TRY(in.read_map("annotations", config.annotations, not_empty));
  TRY(in.read("linux", config.linux));
  return ok();
}

template <typename T>
static Result<T> parse(std::string_view json, std::string_view name) {
  const JsonDocument document = TRY(JsonDocument::parse(json, name, kConfigSizeLimit, UnknownKeys::ignored));
  Result<T> result = T{};
  TRY(document.read(*result));
  return result;
}

Result<Config> parse_config(std::string_view json, std::string_view name) { return parse<Config>(json, name); }

Result<Process> parse_process(std::string_view json, std::string_view name) { return parse<Process>(json, name); }

Result<Resources> parse_resources(std::string_view json, std::string_view name) { return parse<Resources>(json, name); }

}  // namespace agentrun::oci
