// Files by fd. Every open here is close-on-exec and says in its error what it tried and on what.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace agentrun::sys {

// open(2) with O_CLOEXEC added. `path` is resolved by the kernel: only for paths that no container can influence.
Result<UniqueFd> open(const std::string& path, int flags, mode_t mode = 0);
Result<UniqueFd> open_at(int directory, const std::string& path, int flags, mode_t mode = 0);

// openat2(2), Linux 5.6. `resolve` is of RESOLVE_*: RESOLVE_IN_ROOT for anything that lies in a container's root.
Result<UniqueFd> open_resolved(int directory, const std::string& path, std::uint64_t flags, std::uint64_t resolve,
                               mode_t mode = 0);

// The whole file, at most `limit` bytes: one more is an error ("larger than ..."), as is a file that is no regular one
// where `regular_only`. Kernel files (proc, cgroup) have size 0 and are read to their end.
Result<std::string> read_file(const std::string& path, std::size_t limit = 1u << 20, bool regular_only = false);
Result<std::string> read_file_at(int directory, const std::string& path, std::size_t limit = 1u << 20);
Result<std::string> read_fd(int fd, const std::string& name, std::size_t limit = 1u << 20);

// One write(2) of all of it: what kernel files need. No O_CREAT.
Result<void> write_file(const std::string& path, std::string_view text);
Result<void> write_file_at(int directory, const std::string& path, std::string_view text);

Result<void> write_all(int fd, std::string_view data, const std::string& name);

// Temporary file, fsync, rename: readers see the old text or the new, never a part (rename(2)). The directory's fd is
// of the place itself. On failure (a full disk) the temporary file is gone.
Result<void> replace_file_at(int directory, const std::string& name, std::string_view text, mode_t mode);

Result<struct stat> stat_fd(int fd, const std::string& name);

Result<void> make_directory_at(int directory, const std::string& name, mode_t mode);

// Names in a directory without . and .., unsorted.
Result<std::vector<std::string>> list_directory(int directory, const std::string& name);

// Removes what is below and the directory itself, never following a symlink nor crossing a mount. Missing is success.
Result<void> remove_tree_at(int directory, const std::string& name);

// readlink of /proc/self/fd/N: where the kernel thinks that fd is.
Result<std::string> path_of(int fd);

Result<UniqueFd> duplicate(int fd);  // F_DUPFD_CLOEXEC, 3 or above

// A memfd that holds `data`, sealed against any change; executable where `executable` (vm.memfd_noexec permitting).
Result<UniqueFd> sealed_memory(const char* name, std::string_view data, bool executable);

// Closes every fd from `first` on but the listed ones (close_range(2), Linux 5.9).
Result<void> close_all_but(const std::vector<int>& keep, int first = 3);

}  // namespace agentrun::sys
