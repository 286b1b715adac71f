#include "lifecycle/audit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>

#include <cerrno>
#include <cstdlib>

#include "base/clock.h"
#include "base/text.h"
#include "lifecycle/lock.h"
#include "lifecycle/owner.h"
#include "sys/file.h"
#include "sys/process.h"

namespace agentrun::lifecycle {
namespace {

namespace json = boost::json;

constexpr int kFormat = 1;
constexpr std::int64_t kLockUs = 5'000'000;

Result<void> make_parents(const std::string& path) {
  const auto last = path.rfind('/');
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (mkdir(part.c_str(), slash == last ? 0700 : 0755) != 0 && errno != EEXIST) return errno_error("mkdir", part);
  }
  return ok();
}

Result<UniqueFd> open_log(const std::string& path) {
  // Never blocking, never through a symlink: the file has to be what it was.
  const int flags = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  auto log = sys::open(path, flags, 0600);
  if (!log && log.error().code == ENOENT) {
    TRY(make_parents(path));
    log = sys::open(path, flags, 0600);
  }
  if (!log) return refusal("audit", path, log.error().message());
  const struct stat status = TRY(sys::stat_fd(log->get(), path));
  if (!S_ISREG(status.st_mode)) return refusal("audit", path, "not a regular file");
  if (status.st_uid != geteuid()) return refusal("audit", path, "owned by uid " + std::to_string(status.st_uid));
  if ((status.st_mode & 077) != 0 && fchmod(log->get(), 0600) != 0) return errno_error("chmod", path);
  return log;
}

Result<std::string> line_of(std::string_view event, std::string_view container, std::string_view fields) {
  json::object line;
  if (!fields.empty()) {
    json::parse_options options;
    options.allow_invalid_utf8 = true;
    boost::system::error_code failure;
    json::value parsed = json::parse("{" + std::string(fields) + "}", failure, {}, options);
    if (failure || !parsed.is_object()) return refusal("audit", std::string(event), "its fields are no JSON members");
    line = std::move(parsed.get_object());
  }
  json::object ordered;
  ordered["format"] = kFormat;
  ordered["time"] = clock::rfc3339_now();
  ordered["event"] = json::string_view(event.data(), event.size());
  ordered["container"] = json::string_view(container.data(), container.size());
  for (auto& [key, value] : line) ordered.emplace(key, std::move(value));  // emplace: what is there stays
  return json::serialize(ordered) + "\n";
}

Result<void> append(int log, const std::string& path, const std::string& line) {
  const struct stat before = TRY(sys::stat_fd(log, path));
  const ssize_t count = write(log, line.data(), line.size());
  if (count == static_cast<ssize_t>(line.size())) return ok();
  Error error = count < 0 ? errno_error("audit", path) : os_error(ENOSPC, "audit", path);
  // Half of a line would spoil the next one too.
  if (count > 0 && ftruncate(log, before.st_size) != 0) error.object += " (and it now ends in half a line)";
  return error;
}

}  // namespace

std::string audit_path() {
  const char* chosen = std::getenv("AGENTRUN_AUDIT_LOG");
  if (chosen != nullptr && chosen[0] == '/') return text::clean_path(chosen);
  if (sys::is_host_root()) return "/var/log/agentrun/audit.jsonl";
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && state[0] == '/') return text::clean_path(state) + "/agentrun/audit.jsonl";
  const std::string home = home_directory();
  if (!home.empty()) return home + "/.local/state/agentrun/audit.jsonl";
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/') return text::clean_path(runtime) + "/agentrun/.audit/audit.jsonl";
  return {};
}

Result<void> append_audit(std::string_view event, std::string_view container, std::string_view json_fields) {
  const std::string path = audit_path();
  if (path.empty()) return refusal("audit", "", "there is no place for it: set AGENTRUN_AUDIT_LOG");
  const std::string line = TRY(line_of(event, container, json_fields));
  const UniqueFd log = TRY(open_log(path));
  TRY(take_lock(log.get(), path, kLockUs));
  return append(log.get(), path, line);
}

}  // namespace agentrun::lifecycle
