#include "lifecycle/sandbox_etc.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <string>

#include "base/text.h"
#include "sys/file.h"
#include "sys/mount.h"

namespace agentrun::lifecycle {
namespace {

constexpr std::size_t kFileLimit = 4u << 20;  // bytes

// What programs look for in /etc and that says nothing about the host's users: the loader, the clock, alternatives,
// services, and the language runtimes that keep their configuration there.
constexpr std::array kNames{
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "localtime",       "timezone", "alternatives",
    "services",    "protocols",  "mime.types",   "bash.bashrc",   "profile",         "inputrc",  "terminfo",
    "fonts",       "python3*",   "java-*",       "perl",          "crypto-policies", "gnutls",   "ca-certificates",
};

// Certificates, and the configuration of TLS. Never /etc/ssl itself: keys are in /etc/ssl/private.
constexpr std::array kPaths{"ssl/certs", "ssl/openssl.cnf", "pki/tls/certs", "pki/tls/openssl.cnf", "pki/ca-trust"};

Result<void> write_new(int directory, const std::string& name, std::string_view text) {
  const UniqueFd file = TRY(sys::open_at(directory, name, O_WRONLY | O_CREAT | O_EXCL, 0644));
  return sys::write_all(file.get(), text, name);
}

// A mount and no copy: there are hundreds of links in some of them.
Result<void> show_directory(int from, int to, const std::string& path) {
  const UniqueFd source = TRY(sys::open_at(from, path, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  // Recursive: in a user namespace a part of a mount tree cannot be cloned (mount_namespaces(7)).
  const UniqueFd mount = TRY(sys::clone_mount(source.get(), "", true));
  constexpr std::uint64_t attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
  TRY(sys::set_mount_attributes(mount.get(), attributes, 0, MS_PRIVATE, true));
  TRY(sys::make_directory_at(to, path, 0755));
  const UniqueFd target = TRY(sys::open_at(to, path, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  return sys::attach_mount(mount.get(), target.get());
}

Result<void> copy_link(int from, int to, const std::string& path) {
  std::array<char, PATH_MAX> target{};
  if (readlinkat(from, path.c_str(), target.data(), target.size() - 1) < 0) return errno_error("readlink", path);
  if (symlinkat(target.data(), to, path.c_str()) != 0) return errno_error("symlink", path);
  return ok();
}

// What not everybody may read, or is no file and no directory, is left out: it is not for the sandbox.
Result<void> take_over(int from, int to, const std::string& path) {
  struct stat attributes {};
  if (fstatat(from, path.c_str(), &attributes, AT_SYMLINK_NOFOLLOW) != 0) return errno_error("stat", path);
  if (S_ISLNK(attributes.st_mode)) return copy_link(from, to, path);
  if ((attributes.st_mode & S_IROTH) == 0) return ok();
  if (S_ISDIR(attributes.st_mode)) return show_directory(from, to, path);
  if (!S_ISREG(attributes.st_mode) || static_cast<std::size_t>(attributes.st_size) > kFileLimit) return ok();
  const UniqueFd file = TRY(sys::open_at(from, path, O_RDONLY | O_NOFOLLOW));
  const std::string content = TRY(sys::read_fd(file.get(), path, kFileLimit));
  return write_new(to, path, content);
}

Result<void> take_over_names(int host_etc, int etc) {
  for (const std::string& name : TRY(sys::list_directory(host_etc, "."))) {
    for (const char* pattern : kNames) {
      if (!text::glob_match(pattern, name)) continue;
      TRY(take_over(host_etc, etc, name));
      break;
    }
  }
  return ok();
}

Result<void> make_parents(int etc, std::string_view path) {
  for (std::size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/', slash + 1)) {
    const std::string parent(path.substr(0, slash));
    if (mkdirat(etc, parent.c_str(), 0755) != 0 && errno != EEXIST) return errno_error("mkdir", "/etc/" + parent);
  }
  return ok();
}

Result<void> take_over_paths(int host_etc, int etc) {
  for (const char* path : kPaths) {
    if (faccessat(host_etc, path, F_OK, AT_SYMLINK_NOFOLLOW) != 0) continue;
    TRY(make_parents(etc, path));
    TRY(take_over(host_etc, etc, path));
  }
  return ok();
}

}  // namespace

Result<void> build_sandbox_etc(int etc, const SandboxHost& host) {
  TRY(write_new(etc, "passwd", sandbox_passwd(host.uid, host.gid)));
  TRY(write_new(etc, "group", sandbox_group(host.gid)));
  TRY(write_new(etc, "nsswitch.conf",
                "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n"));
  TRY(write_new(etc, "hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"));
  TRY(write_new(etc, "hostname", "sandbox\n"));
  TRY(write_new(etc, "resolv.conf", ""));
  const UniqueFd host_etc = TRY(sys::open("/etc", O_RDONLY | O_DIRECTORY));
  TRY(take_over_names(host_etc.get(), etc));
  return take_over_paths(host_etc.get(), etc);
}

}  // namespace agentrun::lifecycle
