// The writable directories of a container on a disk of the host: an ext4 of a fixed size, in a file without a name, on
// a loop device that clears itself. Whoever is killed at whatever moment: with the last process of the container the
// kernel unmounts, detaches and frees all of it, and there is nothing to clean up.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace agentrun::sandbox {

// Why no such disk of `size` bytes can be made in `directory` (which may be missing itself): mke2fs or the loop driver
// is not there, the file system is memory too, or has not that much room. Empty: it can. Of the host's root alone.
std::string disk_store_missing(const std::string& directory, std::int64_t size);

struct DiskStoreRequest {
  std::string directory;    // made where it is missing, 0700
  std::int64_t size = 0;    // bytes of the file; the file system's own tables are in it
  std::int64_t inodes = 0;  // of the file system
  uid_t owner = 0;          // of its top directory: the container's root, as the host sees it
  gid_t group = 0;
};

// As root of the host. A detached mount, nosuid and nodev, that can be attached in any mount namespace. All blocks of
// the file are reserved first: a host that runs out of space later cannot turn into I/O errors of the container, nor
// can containers together use up more than was there when each of them began.
Result<UniqueFd> new_disk_store(const DiskStoreRequest& request);

}  // namespace agentrun::sandbox
