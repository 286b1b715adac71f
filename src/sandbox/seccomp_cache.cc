// Compiled profiles on disk. A tenant chooses the profile, never the file: the name is a digest, and what is in the
// file is believed only if its own digest fits and only we could have written it.
#include <seccomp.h>
#include <sha2.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string_view>

#include "sandbox/seccomp.h"
#include "sys/file.h"

namespace agentrun::sandbox {
namespace {

constexpr std::size_t kMostEntries = 64;  // a tenant that invents profiles fills no disk
using Digest = std::array<std::uint8_t, SHA256_DIGEST_LENGTH>;

struct EntryHeader {
  std::array<char, 8> magic{'a', 'r', 'b', 'p', 'f', ' ', '1', '\n'};
  std::uint32_t flags = 0, listener = 0, count = 0, zero = 0;
};
static_assert(sizeof(EntryHeader) == 24);

// Each field with its length before it: without that {"ab", "c"} and {"a", "bc"} are one key, and a profile gets the
// filter of another.
class Hash {
 public:
  Hash() { SHA256Init(&state_); }
  void bytes(const void* data, std::size_t size) {
    SHA256Update(&state_, static_cast<const std::uint8_t*>(data), size);
  }
  void number(std::uint64_t value) { bytes(&value, sizeof value); }
  void field(std::string_view text) {
    number(text.size());
    bytes(text.data(), text.size());
  }
  void optional(const std::optional<std::uint32_t>& value) {
    number(value ? 1 : 0);
    number(value.value_or(0));
  }
  Digest finish() {
    Digest digest{};
    SHA256Final(digest.data(), &state_);
    return digest;
  }

 private:
  SHA2_CTX state_{};
};

void add_versions(Hash& hash) {
  hash.field("agentrun seccomp cache 1");
  hash.field(AGENTRUN_VERSION);
  const scmp_version* version = seccomp_version();
  hash.number(version->major);
  hash.number(version->minor);
  hash.number(version->micro);
  hash.number(seccomp_arch_native());
}

void add_strings(Hash& hash, const std::vector<std::string>& list) {
  hash.number(list.size());
  for (const std::string& text : list) hash.field(text);
}

std::string key_of(const oci::Seccomp& seccomp) {
  Hash hash;
  add_versions(hash);
  hash.field(seccomp.default_action);
  hash.optional(seccomp.default_errno_ret);
  add_strings(hash, seccomp.architectures);
  add_strings(hash, seccomp.flags);
  hash.number(seccomp.listener_path.empty() ? 0 : 1);
  hash.number(seccomp.syscalls.size());
  for (const oci::SeccompRule& rule : seccomp.syscalls) {
    add_strings(hash, rule.names);
    hash.field(rule.action);
    hash.optional(rule.errno_ret);
    hash.number(rule.args.size());
    for (const oci::SeccompArg& argument : rule.args) {
      hash.number(argument.index);
      hash.number(argument.value);
      hash.number(argument.value_two);
      hash.field(argument.op);
    }
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string name = "seccomp-";
  for (const std::uint8_t byte : hash.finish()) {
    name += kHex[byte >> 4];
    name += kHex[byte & 15];
  }
  return name;
}

// The digest covers the name too: an entry that was renamed over another one's is none.
Digest digest_of(const std::string& name, std::string_view content) {
  Hash hash;
  hash.field(name);
  hash.field(content);
  return hash.finish();
}

std::string encode(const std::string& name, const SeccompProgram& program) {
  EntryHeader header;
  header.flags = program.flags;
  header.listener = program.listener ? 1 : 0;
  header.count = static_cast<std::uint32_t>(program.instructions.size());
  std::string content(reinterpret_cast<const char*>(&header), sizeof header);
  content.append(reinterpret_cast<const char*>(program.instructions.data()),
                 program.instructions.size() * sizeof(sock_filter));
  const Digest digest = digest_of(name, content);
  content.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  return content;
}

std::optional<SeccompProgram> decode(const std::string& name, std::string_view content) {
  if (content.size() < sizeof(EntryHeader) + sizeof(Digest)) return std::nullopt;
  const std::string_view body = content.substr(0, content.size() - sizeof(Digest));
  const Digest digest = digest_of(name, body);
  if (std::memcmp(digest.data(), content.data() + body.size(), digest.size()) != 0) return std::nullopt;
  EntryHeader header;
  std::memcpy(&header, body.data(), sizeof header);
  if (header.magic != EntryHeader{}.magic || header.count == 0 || header.count > BPF_MAXINSNS) return std::nullopt;
  if (body.size() != sizeof header + header.count * sizeof(sock_filter)) return std::nullopt;
  SeccompProgram program;
  program.flags = header.flags;
  program.listener = header.listener != 0;
  program.instructions.resize(header.count);
  std::memcpy(program.instructions.data(), body.data() + sizeof header, header.count * sizeof(sock_filter));
  return program;
}

bool only_ours(const struct stat& status) {
  return status.st_uid == geteuid() && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

bool usable(int cache) {
  struct stat status {};
  return fstat(cache, &status) == 0 && S_ISDIR(status.st_mode) && only_ours(status);
}

std::optional<SeccompProgram> load(int cache, const std::string& name) {
  constexpr std::size_t kLargest = sizeof(EntryHeader) + BPF_MAXINSNS * sizeof(sock_filter) + sizeof(Digest);
  const auto fd = sys::open_at(cache, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!fd) return std::nullopt;
  struct stat status {};
  if (fstat(fd->get(), &status) != 0 || !S_ISREG(status.st_mode) || !only_ours(status)) return std::nullopt;
  const auto content = sys::read_fd(fd->get(), name, kLargest);
  if (!content) return std::nullopt;
  return decode(name, *content);
}

// Only as many as kMostEntries: the oldest goes. Another process may do the same at the same time; both are right.
void make_room(int cache) {
  const auto names = sys::list_directory(cache, ".");
  if (!names || names->size() < kMostEntries) return;
  std::string oldest;
  struct timespec oldest_time {};
  for (const std::string& name : *names) {
    struct stat status {};
    if (fstatat(cache, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const struct timespec& time = status.st_mtim;
    const bool older =
        time.tv_sec < oldest_time.tv_sec || (time.tv_sec == oldest_time.tv_sec && time.tv_nsec < oldest_time.tv_nsec);
    if (!oldest.empty() && !older) continue;
    oldest = name;
    oldest_time = time;
  }
  if (!oldest.empty()) unlinkat(cache, oldest.c_str(), 0);
}

}  // namespace

Result<SeccompProgram> cached_seccomp(const oci::Seccomp& seccomp, int cache) {
  if (!usable(cache)) return compile_seccomp(seccomp);
  const std::string name = key_of(seccomp);
  if (auto program = load(cache, name)) return std::move(*program);
  SeccompProgram program = TRY(compile_seccomp(seccomp));
  make_room(cache);
  // A full or read-only disk costs the next container some milliseconds; nothing is wrong with this one.
  static_cast<void>(sys::replace_file_at(cache, name, encode(name, program), 0600));
  return program;
}

}  // namespace agentrun::sandbox
