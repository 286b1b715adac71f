#include "sandbox/terminal.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "sys/file.h"
#include "sys/mount.h"
#include "sys/socket.h"

namespace agentrun::sandbox {
namespace {

// Documentation/admin-guide/devices.txt
constexpr unsigned kPtmxMajor = 5, kPtmxMinor = 2, kFirstSlaveMajor = 136, kLastSlaveMajor = 143;

// No component may be a symlink: an image's /dev/pts -> /proc/1/root/dev/pts is how a terminal ends up outside.
constexpr std::uint64_t kNoLinks = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

Result<UniqueFd> open_directory(const std::string& path) {
  const UniqueFd root = TRY(sys::open("/", O_PATH | O_DIRECTORY));
  return sys::open_resolved(root.get(), path, O_PATH | O_DIRECTORY, kNoLinks);
}

Result<void> check_device(int fd, const std::string& name, unsigned first_major, unsigned last_major, int minor) {
  const struct stat status = TRY(sys::stat_fd(fd, name));
  struct statfs file_system {};
  if (fstatfs(fd, &file_system) != 0) return errno_error("statfs", name);
  const bool right_device = S_ISCHR(status.st_mode) && major(status.st_rdev) >= first_major &&
                            major(status.st_rdev) <= last_major &&
                            (minor < 0 || ::minor(status.st_rdev) == static_cast<unsigned>(minor));
  if (!right_device || file_system.f_type != DEVPTS_SUPER_MAGIC) {
    return refusal("open", name, "not a terminal of a devpts");
  }
  return ok();
}

}  // namespace

Result<Terminal> open_terminal(const std::optional<oci::ConsoleSize>& size) {
  const UniqueFd devpts = TRY(open_directory("/dev/pts"));
  Terminal terminal;
  terminal.master = TRY(sys::open_at(devpts.get(), "ptmx", O_RDWR | O_NOCTTY | O_NOFOLLOW));
  TRY(check_device(terminal.master.get(), "/dev/pts/ptmx", kPtmxMajor, kPtmxMajor, kPtmxMinor));

  int locked = 0;
  if (ioctl(terminal.master.get(), TIOCSPTLCK, &locked) != 0) return errno_error("unlock terminal");
  // Linux 4.13. By the master itself: whoever opens /dev/pts/N by name opens what the container has put there.
  terminal.slave = UniqueFd(ioctl(terminal.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal.slave) return errno_error("open the terminal's other end");
  unsigned number = 0;
  if (ioctl(terminal.master.get(), TIOCGPTN, &number) != 0) return errno_error("read the terminal's number");
  terminal.name = "/dev/pts/" + std::to_string(number);
  TRY(check_device(terminal.slave.get(), terminal.name, kFirstSlaveMajor, kLastSlaveMajor, -1));

  if (size && (size->height != 0 || size->width != 0)) {
    const winsize window{size->height, size->width, 0, 0};
    if (ioctl(terminal.slave.get(), TIOCSWINSZ, &window) != 0) return errno_error("set the size of", terminal.name);
  }
  return terminal;
}

Result<void> give_terminal(const Terminal& terminal, std::uint32_t uid) {
  const struct stat status = TRY(sys::stat_fd(terminal.slave.get(), terminal.name));
  if (status.st_uid == uid) return ok();
  // The group stays: devpts gave it (gid=5), and mode 0620 is made for it.
  if (fchown(terminal.slave.get(), uid, static_cast<gid_t>(-1)) != 0) return errno_error("chown", terminal.name);
  return ok();
}

Result<void> bind_console(const Terminal& terminal) {
  const UniqueFd dev = TRY(open_directory("/dev"));
  const UniqueFd made(openat(dev.get(), "console", O_CREAT | O_EXCL | O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!made && errno != EEXIST) return errno_error("create", "/dev/console");
  // O_PATH, so that what is there already is not opened: it may be a device or a FIFO.
  const UniqueFd target = TRY(sys::open_at(dev.get(), "console", O_PATH | O_NOFOLLOW));
  const struct stat status = TRY(sys::stat_fd(target.get(), "/dev/console"));
  if (S_ISLNK(status.st_mode)) return refusal("bind terminal on", "/dev/console", "it is a symlink");  // CVE-2025-52565
  if (S_ISDIR(status.st_mode)) return refusal("bind terminal on", "/dev/console", "it is a directory");
  const UniqueFd mount = TRY(sys::clone_mount(terminal.slave.get(), "", false));
  return sys::attach_mount(mount.get(), target.get());
}

Result<void> send_terminal(int socket, const Terminal& terminal) {
  return sys::send_message(socket, terminal.name, {terminal.master.get()});
}

Result<void> take_terminal(const Terminal& terminal) {
  if (setsid() < 0 && getsid(0) != getpid()) return errno_error("setsid");
  if (ioctl(terminal.slave.get(), TIOCSCTTY, 0) != 0) return errno_error("take terminal", terminal.name);
  for (int fd = 0; fd < 3; ++fd) {
    if (dup2(terminal.slave.get(), fd) < 0) return errno_error("dup2", terminal.name);
  }
  return ok();
}

}  // namespace agentrun::sandbox
