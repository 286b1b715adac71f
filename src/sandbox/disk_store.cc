#include "sandbox/disk_store.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "sys/file.h"
#include "sys/mount.h"
#include "sys/process.h"

namespace agentrun::sandbox {
namespace {

constexpr std::int64_t kBlock = 4096;
// At the end of the device, where the file system does not reach: volume managers look for their labels there, and what
// a program in the container writes must never look like one to the host.
constexpr std::int64_t kTail = 1 << 20;
constexpr std::int64_t kSmallest = 8 << 20;
constexpr const char* kControl = "/dev/loop-control";
constexpr const char* kPrograms[] = {"/sbin/mke2fs", "/usr/sbin/mke2fs"};  // never by PATH
// No journal: after a crash nobody reads it again. Nothing that needs a check sum or a later resize.
constexpr const char* kFeatures =
    "none,ext_attr,filetype,extent,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,uninit_bg,dir_index";

const char* find_mke2fs() {
  for (const char* program : kPrograms) {
    if (access(program, X_OK) == 0) return program;
  }
  return nullptr;
}

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

std::string nearest_directory(std::string path) {
  while (path != "/" && access(path.c_str(), F_OK) != 0) path = parent_of(path);
  return path;
}

Result<void> make_directories(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return ok();
  if (errno != ENOENT || path == "/") return errno_error("create directory", path);
  TRY(make_directories(parent_of(path)));
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return errno_error("create directory", path);
  return ok();
}

// Without a name from the start, or, where the file system has no such files, without one before anything is in it.
Result<UniqueFd> new_image(const std::string& directory) {
  auto image = sys::open(directory, O_TMPFILE | O_RDWR, 0600);
  if (image || (image.error().code != EOPNOTSUPP && image.error().code != EISDIR)) return image;
  const std::string path = directory + "/disk." + std::to_string(getpid());
  image = sys::open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (image && unlink(path.c_str()) != 0) return errno_error("unlink", path);
  return image;
}

Result<void> reserve(int image, std::int64_t size, const std::string& directory) {
  while (fallocate(image, 0, 0, size) != 0) {
    if (errno == EINTR) continue;
    if (errno == EOPNOTSUPP) {
      return refusal("reserve a disk in", directory, "its file system cannot promise room (fallocate)");
    }
    return errno_error("reserve a disk in", directory);
  }
  return ok();
}

[[noreturn]] void become_mke2fs(const char* program, const std::vector<std::string>& arguments, int image,
                                int messages) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sys::reset_signals();
  const int null = open("/dev/null", O_RDWR);
  // The image is 3; all others are closed by the exec.
  const bool ready = null >= 0 && dup2(messages, 2) == 2 && dup2(null, 0) == 0 && dup2(null, 1) == 1 &&
                     (image == 3 ? fcntl(3, F_SETFD, 0) == 0 : dup2(image, 3) == 3);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::array<char*, 1> environment{};
  if (ready) execve(program, argv.data(), environment.data());
  _exit(127);
}

std::vector<std::string> mke2fs_arguments(const DiskStoreRequest& request) {
  return {
      "mke2fs", "-q", "-F", "-t", "ext4", "-b", std::to_string(kBlock), "-I", "256", "-m", "0", "-N",
      std::to_string(request.inodes), "-O", kFeatures, "-E",
      // What is reserved and was never written reads as zero.
      "lazy_itable_init=1,nodiscard,root_owner=" + std::to_string(request.owner) + ":" + std::to_string(request.group),
      "/proc/self/fd/3", std::to_string((request.size - kTail) / kBlock)};
}

Result<void> format(const DiskStoreRequest& request, int image) {
  const char* program = find_mke2fs();
  if (program == nullptr) return refusal("make a disk", request.directory, "mke2fs is missing (package e2fsprogs)");
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error("pipe");
  const UniqueFd messages(ends[0]);
  UniqueFd sender(ends[1]);
  const std::vector<std::string> arguments = mke2fs_arguments(request);
  // Out of the way of the fds that it will have.
  const UniqueFd source(fcntl(image, F_DUPFD_CLOEXEC, 10));
  UniqueFd target(fcntl(sender.get(), F_DUPFD_CLOEXEC, 10));
  if (!source || !target) return errno_error("duplicate", "fd");
  const sys::Cloned child = TRY(sys::clone_process(0));
  if (child.pid == 0) become_mke2fs(program, arguments, source.get(), target.get());
  sender.reset();
  target.reset();
  const auto said = sys::read_fd(messages.get(), "mke2fs", 64 << 10);
  const sys::ExitStatus status = TRY(sys::wait_process(child.pid));
  if (status.code() == 0) return ok();
  const std::string text = said ? std::string(text::trim(std::string_view(*said).substr(0, 200))) : std::string();
  return refusal(
      "make a disk", request.directory,
      std::string(program) + " exited with " + std::to_string(status.code()) + (text.empty() ? "" : ": " + text));
}

// The device clears itself with its last user. Another process may be given the same free number, and udev looks into
// devices as they change: then the next try.
Result<UniqueFd> attach_loop(int image) {
  const UniqueFd control = TRY(sys::open(kControl, O_RDWR));
  loop_config config{};
  config.fd = static_cast<std::uint32_t>(image);
  config.block_size = kBlock;
  // Direct: no second copy of every page, in memory that no limit of the container counts. The kernel takes it as a
  // wish where the file system has no direct I/O.
  config.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
  for (int attempt = 0; attempt < 200; ++attempt) {
    const int number = ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) return errno_error("find a free loop device");
    const std::string path = "/dev/loop" + std::to_string(number);
    auto device = sys::open(path, O_RDWR);
    if (device && ioctl(device->get(), LOOP_CONFIGURE, &config) == 0) return device;
    const int code = device ? errno : device.error().code;
    if (code != EBUSY && code != ENXIO) return os_error(code, "set up", path);
    const timespec pause{0, 2'000'000};
    nanosleep(&pause, nullptr);
  }
  return refusal("set up", "loop device", "all are busy");
}

}  // namespace

std::string disk_store_missing(const std::string& directory, std::int64_t size) {
  if (find_mke2fs() == nullptr) return "mke2fs (package e2fsprogs) is not installed";
  if (access(kControl, R_OK | W_OK) != 0) return std::string(kControl) + " cannot be used";
  const std::string place = nearest_directory(directory);
  struct statfs status {};
  if (statfs(place.c_str(), &status) != 0) return errno_error("statfs", place).message();
  const auto type = static_cast<unsigned long>(status.f_type);
  if (type == TMPFS_MAGIC || type == RAMFS_MAGIC) return directory + " is in memory itself";
  const auto room = static_cast<std::int64_t>(status.f_bavail) * status.f_bsize;
  if (room < size) return directory + " has room for " + std::to_string(room >> 20) + " MiB only";
  return {};
}

Result<UniqueFd> new_disk_store(const DiskStoreRequest& request) {
  if (request.size < kSmallest) return refusal("make a disk", request.directory, "8 MiB is the smallest");
  TRY(make_directories(request.directory));
  const UniqueFd image = TRY(new_image(request.directory));
  TRY(reserve(image.get(), request.size / kBlock * kBlock, request.directory));
  TRY(format(request, image.get()));
  const UniqueFd device = TRY(attach_loop(image.get()));
  // No barriers: nothing of it is to survive a crash, and a program that calls fsync in a loop would make the host's
  // disk flush its cache each time. No thread that fills the inode tables: they are zero.
  return sys::new_mount("ext4",
                        {{"source", "/proc/self/fd/" + std::to_string(device.get()), false},
                         {"nobarrier", "", true},
                         {"noinit_itable", "", true}},
                        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

}  // namespace agentrun::sandbox
