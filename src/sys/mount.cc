#include "sys/mount.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

// glibc 2.36 declares these in <sys/mount.h>; the numbers are the same on every architecture (Linux 5.2, 5.12).
namespace agentrun::sys {
namespace {

int do_fsopen(const char* type) { return static_cast<int>(syscall(SYS_fsopen, type, FSOPEN_CLOEXEC)); }

int do_fsconfig(int fd, unsigned command, const char* key, const void* value) {
  return static_cast<int>(syscall(SYS_fsconfig, fd, command, key, value, 0));
}

// What the file system says of its refusal: lines "e message" in the context's log, one a read.
std::string context_message(int context) {
  std::array<char, 512> line{};
  std::string last;
  while (true) {
    const ssize_t count = read(context, line.data(), line.size());
    if (count <= 0) return last;
    std::string_view text(line.data(), static_cast<std::size_t>(count));
    while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    if (text.size() > 2 && text[1] == ' ') last = std::string(text.substr(2));
  }
}

Error mount_error(int context, const std::string& operation, const std::string& object) {
  Error error = errno_error(operation, object);
  const std::string message = context_message(context);
  if (!message.empty()) error.object += (error.object.empty() ? "(" : " (") + message + ")";
  return error;
}

}  // namespace

Result<UniqueFd> new_mount(const std::string& type, const std::vector<FsOption>& options, std::uint64_t attributes) {
  UniqueFd context(do_fsopen(type.c_str()));
  if (!context) return errno_error("mount " + type, "");
  for (const FsOption& option : options) {
    const int result = option.flag
                           ? do_fsconfig(context.get(), FSCONFIG_SET_FLAG, option.key.c_str(), nullptr)
                           : do_fsconfig(context.get(), FSCONFIG_SET_STRING, option.key.c_str(), option.value.c_str());
    if (result != 0) {
      return mount_error(context.get(), "mount " + type, option.flag ? option.key : option.key + "=" + option.value);
    }
  }
  if (do_fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr) != 0) {
    return mount_error(context.get(), "mount " + type, "");
  }
  UniqueFd mount(static_cast<int>(syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, attributes)));
  if (!mount) return mount_error(context.get(), "mount " + type, "");
  return mount;
}

Result<UniqueFd> clone_mount(int directory, const std::string& path, bool recursive) {
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (path.empty() ? AT_EMPTY_PATH : 0U) |
                         (recursive ? AT_RECURSIVE : 0U) | AT_NO_AUTOMOUNT;
  UniqueFd mount(static_cast<int>(syscall(SYS_open_tree, directory, path.c_str(), flags)));
  if (!mount) return errno_error("open_tree", path);
  return mount;
}

Result<void> set_mount_attributes(int mount, std::uint64_t set, std::uint64_t clear, std::uint64_t propagation,
                                  bool recursive) {
  mount_attr attributes{};
  attributes.attr_set = set;
  attributes.attr_clr = clear;
  attributes.propagation = propagation;
  const unsigned flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0U);
  if (syscall(SYS_mount_setattr, mount, "", flags, &attributes, sizeof attributes) != 0) {
    return errno_error("mount_setattr");
  }
  return ok();
}

Result<void> idmap_mount(int mount, int user_namespace, bool recursive) {
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_IDMAP;
  attributes.userns_fd = static_cast<std::uint64_t>(user_namespace);
  const unsigned flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0U);
  if (syscall(SYS_mount_setattr, mount, "", flags, &attributes, sizeof attributes) != 0) {
    return errno_error("idmap mount");
  }
  return ok();
}

Result<void> attach_mount(int mount, int target) {
  if (syscall(SYS_move_mount, mount, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0) {
    return errno_error("move_mount");
  }
  return ok();
}

Result<void> set_propagation(const std::string& path, std::uint64_t flags) {
  if (::mount(nullptr, path.c_str(), nullptr, flags, nullptr) != 0) return errno_error("set propagation of", path);
  return ok();
}

Result<void> unmount(const std::string& path, int flags) {
  if (umount2(path.c_str(), flags) != 0) return errno_error("unmount", path);
  return ok();
}

Result<void> pivot_root(const std::string& new_root, const std::string& put_old) {
  if (syscall(SYS_pivot_root, new_root.c_str(), put_old.c_str()) != 0) return errno_error("pivot_root", new_root);
  return ok();
}

}  // namespace agentrun::sys
