#include "sandbox/labels.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "sandbox/procfs.h"
#include "sys/file.h"

#ifndef SELINUX_MAGIC
#define SELINUX_MAGIC 0xf97cff8c
#endif

namespace agentrun::sandbox {
namespace {

// A label with a newline or a NUL would be two commands for the kernel, or half of one.
Result<void> check_text(const std::string& what, const std::string& text) {
  const bool clean = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) > 0x1f; });
  if (text.empty() || !clean) return refusal(what, text, "empty or with control characters");
  return ok();
}

Error write_failure(Error error, const std::string& file) {
  error.operation = "open `/proc/" + file + "`";  // Podman knows a failure of a security label by this spelling
  error.object.clear();
  return error;
}

Result<ExecLabel> label_for(int procfs, const std::string& file, std::string text) {
  // Opened and closed: that the file is there and is procfs's own is known before the container is told that it may
  // start.
  auto opened = open_in_procfs(procfs, file, O_WRONLY);
  if (!opened) return write_failure(std::move(opened).error(), file);
  return ExecLabel{file, std::move(text)};
}

}  // namespace

bool apparmor_enabled() {
  const auto enabled = sys::read_file("/sys/module/apparmor/parameters/enabled", 16);
  return enabled && enabled->starts_with('Y');
}

bool apparmor_profile_loaded(const policy::Apparmor& apparmor) {
  return !apparmor.profile.empty() && apparmor_profile_loaded(apparmor.profile) &&
         apparmor_profile_loaded(apparmor.stacked());
}

bool apparmor_profile_loaded(const std::string& profile) {
  // One "name (mode)" a line; a name may hold spaces and brackets of its own. ":a://b" is ":a:b".
  std::string with_slashes = profile;
  if (profile.starts_with(':')) {
    if (const std::size_t end = profile.find(':', 1); end != std::string::npos) with_slashes.insert(end + 1, "//");
  }
  const auto profiles = sys::read_file("/sys/kernel/security/apparmor/profiles", 16u << 20);
  if (!profiles) return false;
  for (const std::string_view line : text::split(*profiles, '\n')) {
    const std::size_t end = line.rfind(" (");
    if (end != std::string_view::npos && (line.substr(0, end) == profile || line.substr(0, end) == with_slashes))
      return true;
  }
  return false;
}

void leave_unconfined_profile() {
  const char* const own = "/proc/thread-self/attr/apparmor/current";
  const auto label = sys::read_file(own, 4096);
  if (!label || !text::trim(*label).ends_with(" (unconfined)")) return;
  // Where it cannot be left, signals fail with their own error.
  static_cast<void>(sys::write_file(own, "changeprofile unconfined"));
}

bool selinux_enabled() {
  struct statfs status {};
  return statfs("/sys/fs/selinux", &status) == 0 && static_cast<std::uint32_t>(status.f_type) == SELINUX_MAGIC;
}

Result<void> check_labels(const oci::Process& process) {
  if (!process.apparmor_profile.empty() && !apparmor_enabled()) {
    return refusal("apparmor profile", process.apparmor_profile, "AppArmor is not enabled on this host");
  }
  if (!process.selinux_label.empty() && !selinux_enabled()) {
    return refusal("SELinux label", process.selinux_label, "SELinux is not enabled on this host");
  }
  return ok();
}

Result<ExecLabel> apparmor_on_exec(int procfs, const std::string& profile) {
  TRY(check_text("apparmor profile", profile));
  if (!apparmor_enabled()) return refusal("apparmor profile", profile, "AppArmor is not enabled on this host");
  // attr/exec belongs to whichever module came first, attr/apparmor to AppArmor alone (Linux 5.8).
  auto label = label_for(procfs, "thread-self/attr/apparmor/exec", "exec " + profile);
  if (label || label.error().code != ENOENT) return label;
  return label_for(procfs, "thread-self/attr/exec", "exec " + profile);
}

Result<ExecLabel> selinux_on_exec(int procfs, const std::string& label) {
  TRY(check_text("SELinux label", label));
  if (!selinux_enabled()) return refusal("SELinux label", label, "SELinux is not enabled on this host");
  return label_for(procfs, "thread-self/attr/exec", label);
}

}  // namespace agentrun::sandbox
