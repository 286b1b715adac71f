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
constexpr int kDepth = 8;

// What programs look for in /etc and that says nothing about the host's users: the loader, the clock, alternatives,
// services, TLS, and the language runtimes that keep their configuration there.
constexpr std::array kCopied{
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "localtime",       "timezone", "alternatives",
    "services",    "protocols",  "mime.types",   "bash.bashrc",   "profile",         "inputrc",  "terminfo",
    "fonts",       "python3*",   "java-*",       "perl",          "crypto-policies", "gnutls",
};

// Directories of certificates: hundreds of links, so they are mounted and not copied. Never /etc/ssl itself: keys are
// in /etc/ssl/private.
constexpr std::array kCertificates{"ssl/certs", "ca-certificates", "pki/tls/certs", "pki/ca-trust"};

Result<void> write_new(int directory, const std::string& name, std::string_view text, mode_t mode = 0644) {
  const UniqueFd file = TRY(sys::open_at(directory, name, O_WRONLY | O_CREAT | O_EXCL, mode));
  return sys::write_all(file.get(), text, name);
}

Result<void> copy(int from, int to, const std::string& name, int depth);

Result<void> copy_directory(int from, int to, const std::string& name, int depth) {
  const UniqueFd source = TRY(sys::open_at(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  TRY(sys::make_directory_at(to, name, 0755));
  const UniqueFd target = TRY(sys::open_at(to, name, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  for (const std::string& entry : TRY(sys::list_directory(source.get(), name))) {
    TRY(copy(source.get(), target.get(), entry, depth + 1));
  }
  return ok();
}

Result<void> copy_link(int from, int to, const std::string& name) {
  std::array<char, PATH_MAX> target{};
  if (readlinkat(from, name.c_str(), target.data(), target.size() - 1) < 0) return errno_error("readlink", name);
  if (symlinkat(target.data(), to, name.c_str()) != 0) return errno_error("symlink", name);
  return ok();
}

// A file that not everybody may read, or that is no file, is left out: it is not for the sandbox.
Result<void> copy(int from, int to, const std::string& name, int depth) {
  struct stat attributes {};
  if (fstatat(from, name.c_str(), &attributes, AT_SYMLINK_NOFOLLOW) != 0) return errno_error("stat", name);
  if (S_ISLNK(attributes.st_mode)) return copy_link(from, to, name);
  if ((attributes.st_mode & S_IROTH) == 0 || depth > kDepth) return ok();
  if (S_ISDIR(attributes.st_mode)) return copy_directory(from, to, name, depth);
  if (!S_ISREG(attributes.st_mode) || static_cast<std::size_t>(attributes.st_size) > kFileLimit) return ok();
  const UniqueFd file = TRY(sys::open_at(from, name, O_RDONLY | O_NOFOLLOW));
  const std::string content = TRY(sys::read_fd(file.get(), name, kFileLimit));
  return write_new(to, name, content);
}

Result<void> copy_listed(int host_etc, int etc) {
  for (const std::string& name : TRY(sys::list_directory(host_etc, "/etc"))) {
    for (const char* pattern : kCopied) {
      if (!text::glob_match(pattern, name)) continue;
      TRY(copy(host_etc, etc, name, 0));
      break;
    }
  }
  return ok();
}

Result<void> make_directories(int etc, std::string_view path) {
  std::string so_far;
  for (const std::string_view part : text::split(path, '/')) {
    if (!so_far.empty()) so_far += '/';
    so_far += part;
    if (mkdirat(etc, so_far.c_str(), 0755) != 0 && errno != EEXIST) return errno_error("mkdir", "/etc/" + so_far);
  }
  return ok();
}

Result<void> show_certificates(int host_etc, int etc) {
  for (const char* path : kCertificates) {
    const std::string parent = std::string(path).substr(0, std::string_view(path).find_last_of('/'));
    struct stat attributes {};
    if (fstatat(host_etc, path, &attributes, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISLNK(attributes.st_mode)) {  // Fedora: /etc/ssl/certs is ../pki/tls/certs
      TRY(make_directories(etc, parent));
      TRY(copy_link(host_etc, etc, path));
    }
    if (!S_ISDIR(attributes.st_mode)) continue;
    const UniqueFd source = TRY(sys::open_at(host_etc, path, O_PATH | O_DIRECTORY | O_NOFOLLOW));
    // Recursive: in a user namespace a part of a mount tree cannot be cloned (mount_namespaces(7)).
    const UniqueFd mount = TRY(sys::clone_mount(source.get(), "", true));
    TRY(sys::set_mount_attributes(mount.get(),
                                  MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, 0,
                                  MS_PRIVATE, true));
    TRY(make_directories(etc, path));
    const UniqueFd target = TRY(sys::open_at(etc, path, O_PATH | O_DIRECTORY | O_NOFOLLOW));
    TRY(sys::attach_mount(mount.get(), target.get()));
  }
  if (faccessat(host_etc, "ssl/openssl.cnf", R_OK, 0) == 0) {
    const UniqueFd source = TRY(sys::open_at(host_etc, "ssl", O_PATH | O_DIRECTORY));
    TRY(make_directories(etc, "ssl"));
    const UniqueFd target = TRY(sys::open_at(etc, "ssl", O_PATH | O_DIRECTORY));
    TRY(copy(source.get(), target.get(), "openssl.cnf", 0));
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
  TRY(copy_listed(host_etc.get(), etc));
  return show_certificates(host_etc.get(), etc);
}

}  // namespace agentrun::lifecycle
