#include "sandbox/rootfs.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/text.h"
#include "base/trace.h"
#include "sandbox/devices.h"
#include "sandbox/masks.h"
#include "sandbox/mount_options.h"
#include "sandbox/mount_target.h"
#include "sandbox/mounts.h"
#include "sandbox/writable.h"
#include "sys/file.h"
#include "sys/mount.h"

namespace agentrun::sandbox {
namespace {

// Modes are given in full here; what the caller had comes back.
class NoUmask {
 public:
  NoUmask() : before_(umask(0)) {}
  NoUmask(const NoUmask&) = delete;
  NoUmask& operator=(const NoUmask&) = delete;
  ~NoUmask() { umask(before_); }

 private:
  mode_t before_;
};

Result<std::uint64_t> root_propagation(const oci::Config& config) {
  const std::string& word = config.linux.rootfs_propagation;
  if (word.empty()) return std::uint64_t{MS_PRIVATE | MS_REC};
  const std::uint64_t flags = propagation_of(word);
  if (flags == 0) return refusal("rootfsPropagation", word, "is no propagation");
  return flags;
}

// Nothing that is mounted from here on may appear on the host. Slave only where the config wants the host's mounts to
// come in; shared and unbindable are for the root alone, once it is entered.
Result<void> cut_off(const oci::Config& config) {
  const std::uint64_t wanted = TRY(root_propagation(config));
  return sys::set_propagation("/", ((wanted & MS_SLAVE) != 0 ? MS_SLAVE : MS_PRIVATE) | MS_REC);
}

// The directory that the caller opened, in this mount namespace.
Result<UniqueFd> open_rootfs(const RootRequest& request) {
  auto by_path = sys::open(request.rootfs, O_PATH | O_DIRECTORY);
  // The ids of a user namespace may not search the directories above the root.
  if (!by_path && by_path.error().code == EACCES && request.place >= 0) by_path = sys::duplicate(request.place);
  UniqueFd root = TRY(std::move(by_path));
  if (request.rootfs_fd < 0) return root;
  const struct stat opened = TRY(sys::stat_fd(request.rootfs_fd, request.rootfs));
  const struct stat found = TRY(sys::stat_fd(root.get(), request.rootfs));
  if (opened.st_dev != found.st_dev || opened.st_ino != found.st_ino) {
    return refusal("open root", request.rootfs, "was exchanged meanwhile");
  }
  return root;
}

struct Foundation {
  UniqueFd root;     // of the container, attached
  UniqueFd store;    // the writable file system
  UniqueFd devices;  // the staged nodes
};

// A copy of the root, attached over itself, so that it is a mount of its own: pivot_root(2) wants that. Below it, over
// the same directory and thus out of everybody's sight, lie the mounts that parts of will be bound into the root: only
// what is attached here can be cloned, and with the old root they go away by themselves.
Result<Foundation> lay_foundation(const RootRequest& request) {
  Foundation made;
  const UniqueFd place = TRY(open_rootfs(request));
  if (request.sources != nullptr && request.sources->root) {
    made.root = std::move(request.sources->root);
  } else {
    auto root = sys::clone_mount(place.get(), "", true);
    if (!root) return os_error(root.error().code, "clone root", request.rootfs);
    made.root = std::move(*root);
  }
  int top = place.get();
  if (request.sources != nullptr && request.sources->devices) {
    made.devices = std::move(request.sources->devices);
    TRY(sys::attach_mount(made.devices.get(), top));
    top = made.devices.get();
  }
  if (request.effective->writable) {
    const bool on_disk = request.sources != nullptr && request.sources->store;
    if (!on_disk && request.effective->writable->disk) return refusal("make writable", "/", "there is no disk for it");
    made.store = on_disk ? std::move(request.sources->store) : TRY(new_writable_store(*request.effective->writable));
    TRY(sys::attach_mount(made.store.get(), top));
    top = made.store.get();
  }
  TRY(sys::attach_mount(made.root.get(), top));
  return made;
}

// As every runtime does: a working directory that the image does not have is made. On a root that is read-only by
// itself, changing to it says what is wrong.
Result<void> make_working_directory(int root, const oci::Config& config) {
  if (!config.process || config.process->cwd.empty()) return ok();
  const auto made = open_target(root, text::clean_path(config.process->cwd), {});
  if (!made && made.error().code != EROFS && made.error().code != ENOTDIR && made.error().code != EACCES) {
    return made.error();
  }
  return ok();
}

bool is_writable_place(const policy::Writable& writable, const std::string& path) {
  for (const std::string& overlay : writable.overlays) {
    if (text::clean_path(overlay) == path) return true;
  }
  return false;
}

Result<void> lay_writable(const RootRequest& request, const Foundation& made) {
  if (!request.effective->writable) return ok();
  const oci::Config& config = request.effective->config;
  const policy::Writable& writable = *request.effective->writable;
  // A working directory that is to be writable needs a place to lay the overlay over.
  bool hidden = false;
  if (config.process) {
    for (const std::string& top : writable.empty) {
      hidden = hidden || text::path_within(text::clean_path(config.process->cwd), text::clean_path(top));
    }
    if (!hidden && is_writable_place(writable, text::clean_path(config.process->cwd))) {
      TRY(make_working_directory(made.root.get(), config));
    }
  }
  WritableRequest wanted;
  wanted.writable = &writable;
  wanted.config = &config;
  wanted.root = made.root.get();
  wanted.store = made.store.get();
  wanted.user_namespace =
      request.new_user_namespace || oci::find_namespace(config, oci::NamespaceType::user) != nullptr;
  TRY(make_writable(wanted));
  trace::step("writable directories");
  return ok();
}

Result<void> lay_devices(const RootRequest& request, const Foundation& made, int root) {
  DevicesRequest wanted;
  wanted.config = &request.effective->config;
  wanted.root = root;
  wanted.staged = made.devices.get();
  wanted.user_namespace = request.new_user_namespace;
  TRY(make_devices(wanted));
  trace::step("devices");
  return ok();
}

// The fds of sources that were not used, and with them the room that they needed.
Result<void> drop_sources(BindSources* sources) {
  if (sources == nullptr) return ok();
  sources->fds.clear();
  sources->devices.reset();
  if (!sources->file_limit) return ok();
  // The soft one alone was raised for them; the hard one may by now be the one that the config wants.
  struct rlimit limit {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_error("getrlimit", "RLIMIT_NOFILE");
  limit.rlim_cur = std::min(sources->file_limit->rlim_cur, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_error("setrlimit", "RLIMIT_NOFILE");
  sources->file_limit.reset();
  return ok();
}

Result<void> pivot(int root) {
  const UniqueFd old = TRY(sys::open("/", O_PATH | O_DIRECTORY));
  if (fchdir(root) != 0) return errno_error("chdir", "root");
  // Both in the same place: the old root comes to lie over the new one, and is taken off it (pivot_root(2)).
  TRY(sys::pivot_root(".", "."));
  if (fchdir(old.get()) != 0) return errno_error("chdir", "old root");
  TRY(sys::unmount(".", MNT_DETACH));
  return ok();
}

// Where there is no pivot_root (the host runs from its initramfs), the host's mounts stay in this namespace, and a
// procfs without masks among them would let a user namespace inside mount another such: the kernel allows what is
// visible already (mount_too_revealing). So they go, or are covered where a user namespace may not take them off.
Result<void> hide_host_kernel_mounts(const std::string& rootfs) {
  const std::string table = TRY(sys::read_file("/proc/self/mountinfo", 64U << 20));
  std::vector<std::string> places;
  for (const std::string_view line : text::split(table, '\n')) {
    const auto words = text::split_words(line);
    const auto dash = line.find(" - ");
    if (words.size() < 6 || dash == std::string_view::npos) continue;
    const auto type = text::split_words(line.substr(dash + 3));
    if (type.empty() || (type.front() != "proc" && type.front() != "sysfs")) continue;
    const std::string place(words[4]);  // one with spaces is written in octal, and is none of the host's own
    if (!text::path_within(place, rootfs)) places.push_back(place);
  }
  // What lies on top first.
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    const auto gone = sys::unmount(*place, MNT_DETACH);
    if (gone || gone.error().code == ENOENT) continue;
    if (gone.error().code != EINVAL && gone.error().code != EPERM) return gone.error();
    const UniqueFd target = TRY(sys::open(*place, O_PATH | O_DIRECTORY));
    const UniqueFd cover = TRY(sys::new_mount("tmpfs", {{"nr_inodes", "1", false}}, MOUNT_ATTR_RDONLY));
    TRY(sys::attach_mount(cover.get(), target.get()));
  }
  return ok();
}

Result<void> move_root(int root, const std::string& rootfs) {
  TRY(hide_host_kernel_mounts(rootfs));
  const UniqueFd top = TRY(sys::open("/", O_PATH | O_DIRECTORY));
  if (fchdir(root) != 0) return errno_error("chdir", "root");
  TRY(sys::attach_mount(root, top.get()));
  if (chroot(".") != 0) return errno_error("chroot", "root");
  return ok();
}

}  // namespace

Result<void> build_root(const RootRequest& request) {
  const NoUmask no_umask;
  const oci::Config& config = request.effective->config;
  TRY(cut_off(config));
  Foundation made = TRY(lay_foundation(request));
  trace::step("root bound");
  TRY(lay_writable(request, made));

  Mounts mounts(request, TRY(sys::duplicate(made.root.get())));
  TRY(mounts.mount_all());
  trace::step("config mounts");
  TRY(lay_devices(request, made, mounts.root()));
  // A root that is to be read-only is the caller's image: nothing is written to it, not even this.
  if (!config.root.readonly) TRY(make_working_directory(mounts.root(), config));
  TRY(mounts.seal());
  if (request.place >= 0 && request.sources != nullptr) {
    request.sources->root = TRY(sys::duplicate(mounts.root()));
  }
  return drop_sources(request.sources);
}

Result<void> enter_root(const RootRequest& request) {
  const oci::Config& config = request.effective->config;
  const oci::Linux& linux_config = config.linux;
  UniqueFd null;
  if (!linux_config.masked_paths.empty()) null = TRY(prepare_null_mask());
  // By path: what build_root left on top there. Between the two only the administrator's hooks have run.
  auto opened = sys::open(request.rootfs, O_PATH | O_DIRECTORY);
  const bool kept = request.sources != nullptr && request.sources->root;
  if (!opened && opened.error().code == EACCES && kept) opened = std::move(request.sources->root);
  const UniqueFd root = TRY(std::move(opened));
  if (request.pivot) {
    TRY(pivot(root.get()));
  } else {
    TRY(move_root(root.get(), request.rootfs));
  }
  if (chdir("/") != 0) return errno_error("chdir", "/");
  trace::step("pivot");

  TRY(make_readonly(root.get(), linux_config.readonly_paths));
  TRY(mask(root.get(), linux_config.masked_paths, null));
  trace::step("masks");
  if (config.root.readonly) {
    auto sealed = sys::set_mount_attributes(root.get(), MOUNT_ATTR_RDONLY, 0, 0, false);
    if (!sealed) return os_error(sealed.error().code, "make read-only", "/");
  }
  const std::uint64_t propagation = TRY(root_propagation(config));
  if ((propagation & (MS_SHARED | MS_UNBINDABLE)) == 0) return ok();
  return sys::set_mount_attributes(root.get(), 0, 0, propagation & ~std::uint64_t{MS_REC}, (propagation & MS_REC) != 0);
}

}  // namespace agentrun::sandbox
