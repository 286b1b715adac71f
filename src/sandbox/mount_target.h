// Places below a container's root, found and made by fd. Every symlink on the way is resolved within the root, as a
// process of the container would; none leads out of it, whoever exchanges files meanwhile (CVE-2021-30465,
// CVE-2024-45310). What is returned is an O_PATH fd: who mounts, mounts onto that very file.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace agentrun::sandbox {

enum class TargetKind { directory, file };

struct TargetOptions {
  TargetKind kind = TargetKind::directory;  // what a missing one becomes
  bool follow_last = true;                  // false: a symlink at the end is the target itself
  mode_t directory_mode = 0755;             // of the directories made on the way, with S_ISGID inherited
  mode_t file_mode = 0644;
};

struct Target {
  UniqueFd fd;  // O_PATH
  bool created = false;
  bool below_root = false;  // no symlink and no ".." led here: certainly not the root itself
};

// `path` is absolute in the container and clean. Missing parts are made, also what a dangling symlink points at.
// Errors: ELOOP after 40 symlinks; a file where a directory is needed.
Result<Target> open_target(int root, const std::string& path, const TargetOptions& options);

// The same for what has to be there. No magic link of procfs is followed. An invalid fd where it is missing (ENOENT,
// ENOTDIR).
Result<UniqueFd> find_target(int root, const std::string& path, bool follow_last = true);

// The directory that `path` lies in, made where it is missing, and the last name: for mknodat and symlinkat.
struct TargetParent {
  UniqueFd directory;
  std::string name;
};
Result<TargetParent> open_parent(int root, const std::string& path);

// `path` as a real directory, without a single symlink: for proc and sysfs, whose place an image may not choose
// (CVE-2019-19921, CVE-2023-27561, CVE-2025-54867). Made where it is missing. `type` is for the error.
Result<Target> open_ordinary_directory(int root, const std::string& path, const std::string& type);

// A destination of config.json: absolute, clean, and without the path of the root file system before it, which old
// callers write (runc strips it too).
std::string clean_destination(const std::string& destination, const std::string& rootfs);

}  // namespace agentrun::sandbox
