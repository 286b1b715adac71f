// config.md of the specification: what is not of Linux alone.
#include "oci/print.h"

#include "oci/print_parts.h"

namespace agentrun::oci {

static void to_json(JsonWriter& out, const ConsoleSize& size) {
  out.begin_object();
  out.member("height", size.height);
  out.member("width", size.width);
  out.end_object();
}

static void to_json(JsonWriter& out, const User& user) {
  out.begin_object();
  out.member("uid", user.uid);
  out.member("gid", user.gid);
  out.member_if_set("umask", user.umask);
  out.member_if_set("additionalGids", user.additional_gids);
  out.end_object();
}

static void to_json(JsonWriter& out, const Capabilities& capabilities) {
  out.begin_object();
  out.member_if_set("bounding", capabilities.bounding);
  out.member_if_set("effective", capabilities.effective);
  out.member_if_set("inheritable", capabilities.inheritable);
  out.member_if_set("permitted", capabilities.permitted);
  out.member_if_set("ambient", capabilities.ambient);
  out.end_object();
}

static void to_json(JsonWriter& out, const Rlimit& limit) {
  out.begin_object();
  out.member("type", limit.type);
  out.member("hard", limit.hard);
  out.member("soft", limit.soft);
  out.end_object();
}

static void to_json(JsonWriter& out, const Scheduler& scheduler) {
  out.begin_object();
  out.member("policy", scheduler.policy);
  out.member("nice", scheduler.nice);
  out.member("priority", scheduler.priority);
  out.member_if_set("flags", scheduler.flags);
  out.member("runtime", scheduler.runtime);
  out.member("deadline", scheduler.deadline);
  out.member("period", scheduler.period);
  out.end_object();
}

static void to_json(JsonWriter& out, const IoPriority& priority) {
  out.begin_object();
  out.member("class", priority.io_class);
  out.member("priority", priority.priority);
  out.end_object();
}

static void to_json(JsonWriter& out, const ExecCpuAffinity& affinity) {
  out.begin_object();
  out.member_if_set("initial", affinity.initial);
  out.member_if_set("final", affinity.final);
  out.end_object();
}

static void to_json(JsonWriter& out, const Process& process) {
  out.begin_object();
  out.member_if_set("terminal", process.terminal);
  out.member_if_set("consoleSize", process.console_size);
  out.member("user", process.user);
  out.member("args", process.args);
  out.member_if_set("env", process.env);
  out.member("cwd", process.cwd);
  out.member_if_set("capabilities", process.capabilities);
  out.member_if_set("rlimits", process.rlimits);
  out.member_if_set("noNewPrivileges", process.no_new_privileges);
  out.member_if_set("apparmorProfile", process.apparmor_profile);
  out.member_if_set("oomScoreAdj", process.oom_score_adj);
  out.member_if_set("scheduler", process.scheduler);
  out.member_if_set("selinuxLabel", process.selinux_label);
  out.member_if_set("ioPriority", process.io_priority);
  out.member_if_set("execCPUAffinity", process.exec_cpu_affinity);
  out.end_object();
}

static void to_json(JsonWriter& out, const Root& root) {
  out.begin_object();
  out.member("path", root.path);
  out.member_if_set("readonly", root.readonly);
  out.end_object();
}

void to_json(JsonWriter& out, const IdMapping& mapping) {
  out.begin_object();
  out.member("containerID", mapping.container_id);
  out.member("hostID", mapping.host_id);
  out.member("size", mapping.size);
  out.end_object();
}

static void to_json(JsonWriter& out, const Mount& mount) {
  out.begin_object();
  out.member("destination", mount.destination);
  out.member_if_set("type", mount.type);
  out.member_if_set("source", mount.source);
  out.member_if_set("options", mount.options);
  out.member_if_set("uidMappings", mount.uid_mappings);
  out.member_if_set("gidMappings", mount.gid_mappings);
  out.end_object();
}

static void to_json(JsonWriter& out, const Hook& hook) {
  out.begin_object();
  out.member("path", hook.path);
  out.member_if_set("args", hook.args);
  out.member_if_set("env", hook.env);
  out.member_if_set("timeout", hook.timeout);
  out.end_object();
}

static void to_json(JsonWriter& out, const Hooks& hooks) {
  out.begin_object();
  out.member_if_set("prestart", hooks.prestart);
  out.member_if_set("createRuntime", hooks.create_runtime);
  out.member_if_set("createContainer", hooks.create_container);
  out.member_if_set("startContainer", hooks.start_container);
  out.member_if_set("poststart", hooks.poststart);
  out.member_if_set("poststop", hooks.poststop);
  out.end_object();
}

static bool is_set(const Hooks& hooks) {
  return is_set(hooks.prestart) || is_set(hooks.create_runtime) || is_set(hooks.create_container) ||
         is_set(hooks.start_container) || is_set(hooks.poststart) || is_set(hooks.poststop);
}

static void to_json(JsonWriter& out, const Config& config) {
  out.begin_object();
  out.member("ociVersion", config.oci_version);
  out.member_if_set("process", config.process);
  out.member("root", config.root);
  out.member_if_set("hostname", config.hostname);
  out.member_if_set("domainname", config.domainname);
  out.member_if_set("mounts", config.mounts);
  out.member_if_set("hooks", config.hooks);
  out.member_if_set("annotations", config.annotations);
  out.member("linux", config.linux);
  out.end_object();
}

std::string print_config(const Config& config, Layout layout) { return write_json(config, layout); }

std::string print_process(const Process& process, Layout layout) { return write_json(process, layout); }

std::string print_resources(const Resources& resources, Layout layout) { return write_json(resources, layout); }

}  // namespace agentrun::oci
