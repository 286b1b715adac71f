#include "sandbox/bind_source.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/text.h"
#include "sandbox/devices.h"
#include "sandbox/mount_target.h"
#include "sys/file.h"
#include "sys/mount.h"

namespace agentrun::sandbox {
namespace {

constexpr rlim_t kOtherFiles = 128;  // what the runtime has open besides

std::string absolute_source(const std::string& source, const std::string& bundle) {
  return source.empty() || source.front() == '/' ? source : bundle + "/" + source;
}

bool is_missing(const Error& error) { return error.code == ENOENT || error.code == ENOTDIR; }

const oci::Namespace* user_namespace(const oci::Linux& container) {
  for (const oci::Namespace& ns : container.namespaces) {
    if (ns.type == oci::NamespaceType::user) return &ns;
  }
  return nullptr;
}

// The fd of one source, an fd a mount: with a thousand mounts more than the usual soft limit of 1024.
Result<void> make_room(BindSources& sources, rlim_t count) {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_error("getrlimit", "RLIMIT_NOFILE");
  const rlim_t needed = count + kOtherFiles;
  if (limit.rlim_cur >= needed || limit.rlim_max <= limit.rlim_cur) return ok();
  const struct rlimit raised { std::min(needed, limit.rlim_max), limit.rlim_max };
  if (setrlimit(RLIMIT_NOFILE, &raised) != 0) return errno_error("setrlimit", "RLIMIT_NOFILE");
  sources.file_limit = limit;
  return ok();
}

Result<void> apply_idmap(int mount, const MountOptions& options, const oci::Linux& container,
                         IdmapNamespaces& namespaces, const std::string& name) {
  Result<void> mapped = ok();
  if (options.idmap_uids.empty()) {
    const UniqueFd joined = TRY(sys::open(user_namespace(container)->path, O_RDONLY));
    mapped = sys::idmap_mount(mount, joined.get(), options.idmap_recursive);
  } else {
    const int ns = TRY(namespaces.get(options.idmap_uids, options.idmap_gids));
    mapped = sys::idmap_mount(mount, ns, options.idmap_recursive);
  }
  if (!mapped) return os_error(mapped.error().code, "idmap mount", name);
  return ok();
}

struct Opened {
  BindSource source;
  UniqueFd fd;
};

Result<Opened> open_source(const oci::Mount& mount, const MountOptions& options, const std::string& bundle) {
  Opened result;
  const std::string path = absolute_source(mount.source, bundle);
  if (path.empty()) return refusal("bind mount", mount.destination, "has no source");
  const bool nofollow = options.source_nofollow || options.copy_symlink;
  const unsigned flags = O_PATH | (nofollow ? static_cast<unsigned>(O_NOFOLLOW) : 0U);
  // Where no component is a symlink, the text is the real path, and need not be asked of procfs: a thousand times.
  auto opened = sys::open_resolved(AT_FDCWD, path, flags, RESOLVE_NO_SYMLINKS);
  const bool plain = opened && path.front() == '/';
  if (!opened && opened.error().code == ELOOP) opened = sys::open(path, static_cast<int>(flags));
  if (!opened) {
    if (!is_missing(opened.error())) return std::move(opened).error();
    return result;
  }
  result.fd = std::move(*opened);
  const struct stat status = TRY(sys::stat_fd(result.fd.get(), path));
  result.source.facts.kind = kind_of(status.st_mode);
  result.source.facts.uid = status.st_uid;
  result.source.facts.gid = status.st_gid;
  result.source.facts.real_path = plain ? text::clean_path(path) : TRY(sys::path_of(result.fd.get()));
  return result;
}

// Nothing lies below a file: one mount is one mount, and its attributes take one call.
bool clones_tree(const MountOptions& options, policy::FileKind kind) {
  return options.recursive && kind == policy::FileKind::directory;
}

// Replaces the O_PATH fd by a copy of the mount. EPERM: an unprivileged caller, whose child does it in its own
// namespace.
Result<void> detach(Opened& opened, const MountOptions& options, const std::string& name) {
  auto copy = sys::clone_mount(opened.fd.get(), "", clones_tree(options, opened.source.facts.kind));
  if (!copy) {
    if (copy.error().code == EPERM) return ok();
    return os_error(copy.error().code, "clone mount", name);
  }
  opened.fd = std::move(*copy);
  opened.source.detached = true;
  opened.source.recursive = options.recursive;
  return ok();
}

Result<Opened> prepare_source(const oci::Mount& mount, const MountOptions& options, const oci::Config& config,
                              const std::string& bundle, IdmapNamespaces& namespaces) {
  Opened opened = TRY(open_source(mount, options, bundle));
  if (!opened.fd) return opened;
  if (opened.source.facts.kind == policy::FileKind::symlink && options.copy_symlink) return opened;
  TRY(detach(opened, options, mount.source));
  if (options.idmap && opened.source.detached) {
    TRY(apply_idmap(opened.fd.get(), options, config.linux, namespaces, mount.source));
    opened.source.idmapped = true;
  }
  return opened;
}

// Whose the mount is by now: what the container itself has mounted in its root before is part of it.
Result<UniqueFd> copy_from_root(const SourceRequest& request, const std::string& source) {
  const std::string inside = clean_destination(source, request.rootfs);
  UniqueFd found = TRY(find_target(request.root, inside, !request.options->source_nofollow));
  if (!found) return os_error(ENOENT, "bind mount", request.mount->source);
  return sys::clone_mount(found.get(), "", request.options->recursive);
}

// The path again, in this mount namespace. It must still be what was judged.
Result<UniqueFd> copy_by_path(const BindSource& source, int fd, const SourceRequest& request) {
  const UniqueFd again = TRY(sys::open(source.facts.real_path, O_PATH | O_NOFOLLOW));
  const struct stat judged = TRY(sys::stat_fd(fd, request.mount->source));
  const struct stat now = TRY(sys::stat_fd(again.get(), request.mount->source));
  if (judged.st_dev != now.st_dev || judged.st_ino != now.st_ino) {
    return refusal("bind mount", request.mount->source, "was exchanged meanwhile");
  }
  return sys::clone_mount(again.get(), "", clones_tree(*request.options, source.facts.kind));
}

Result<std::string> link_text(int link, const std::string& name) {
  std::string text(4096, '\0');
  const ssize_t length = readlinkat(link, "", text.data(), text.size());
  if (length < 0) return errno_error("readlink", name);
  if (static_cast<std::size_t>(length) == text.size()) return os_error(ENAMETOOLONG, "readlink", name);
  text.resize(static_cast<std::size_t>(length));
  return text;
}

Result<void> idmap_in_child(int mount, const SourceRequest& request) {
  // Our own procfs: the one at /proc is still the host's, and shows other pids.
  const UniqueFd procfs = TRY(sys::new_mount("proc", {}, 0));
  IdmapNamespaces namespaces(procfs.get());
  return apply_idmap(mount, *request.options, *request.container, namespaces, request.mount->source);
}

}  // namespace

policy::FileKind kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return policy::FileKind::directory;
    case S_IFREG:
      return policy::FileKind::regular;
    case S_IFLNK:
      return policy::FileKind::symlink;
    case S_IFSOCK:
      return policy::FileKind::socket;
    case S_IFIFO:
      return policy::FileKind::fifo;
    case S_IFCHR:
      return policy::FileKind::character_device;
    case S_IFBLK:
      return policy::FileKind::block_device;
    default:
      return policy::FileKind::other;
  }
}

Result<BindSources> open_bind_sources(const oci::Config& config, const std::string& bundle) {
  BindSources sources;
  const auto count = std::count_if(config.mounts.begin(), config.mounts.end(), is_bind);
  TRY(make_room(sources, static_cast<rlim_t>(count)));
  UniqueFd procfs;
  if (count > 0) procfs = TRY(sys::open("/proc", O_PATH | O_DIRECTORY));
  IdmapNamespaces namespaces(procfs.get());
  sources.fds.reserve(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < config.mounts.size(); ++i) {
    const oci::Mount& mount = config.mounts[i];
    if (!is_bind(mount)) continue;
    const MountOptions options = TRY(parse_mount_options(mount, config.linux));
    if (options.remount) continue;
    Opened opened = TRY(prepare_source(mount, options, config, bundle, namespaces));
    opened.source.slot = sources.fds.size();
    sources.fds.push_back(std::move(opened.fd));
    sources.emplace_hint(sources.end(), i, std::move(opened.source));
  }
  if (user_namespace(config.linux) != nullptr) sources.devices = TRY(stage_devices(config));
  return sources;
}

Result<void> open_last_source(BindSources& sources, const oci::Config& config) {
  const oci::Mount& mount = config.mounts.back();
  const UniqueFd procfs = TRY(sys::open("/proc", O_PATH | O_DIRECTORY));
  IdmapNamespaces namespaces(procfs.get());
  const MountOptions options = TRY(parse_mount_options(mount, config.linux));
  Opened opened = TRY(prepare_source(mount, options, config, "/", namespaces));
  opened.source.slot = sources.fds.size();
  sources.fds.push_back(std::move(opened.fd));
  sources.insert_or_assign(config.mounts.size() - 1, std::move(opened.source));
  return ok();
}

Result<SourceMount> take_source(BindSources& sources, const SourceRequest& request) {
  const MountOptions& options = *request.options;
  const std::string& name = request.mount->source;
  SourceMount result;
  static const BindSource kNone;
  const auto entry = sources.find(request.index);
  const BindSource& source = entry == sources.end() ? kNone : entry->second;
  UniqueFd fd = entry == sources.end() ? UniqueFd() : std::move(sources.fds.at(source.slot));
  bool idmapped = source.idmapped;
  result.kind = source.facts.kind;
  result.single = !clones_tree(options, source.facts.kind);

  if (fd && options.copy_symlink && source.facts.kind == policy::FileKind::symlink) {
    result.symlink = TRY(link_text(fd.get(), name));
    return result;
  }
  const std::string path = text::clean_path(absolute_source(name, request.bundle));
  if (request.rootfs != "/" && text::path_within(path, request.rootfs)) {
    result.mount = TRY(copy_from_root(request, path));
    result.single = !options.recursive;
    result.kind = kind_of(TRY(sys::stat_fd(result.mount.get(), name)).st_mode);
    idmapped = false;
  } else if (!fd) {
    return os_error(ENOENT, "bind mount", name);
  } else if (source.detached) {
    if (source.recursive != options.recursive) {
      return refusal("bind mount", name, "changed between bind and rbind after it was opened");
    }
    result.mount = std::move(fd);
  } else {
    result.mount = TRY(copy_by_path(source, fd.get(), request));
  }
  if (options.idmap && !idmapped) TRY(idmap_in_child(result.mount.get(), request));
  return result;
}

}  // namespace agentrun::sandbox
