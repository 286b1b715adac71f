// What agentrun and its last step say to each other: shared with a program that has no C library.
#pragma once

#include <linux/filter.h>

#include <cstdint>

namespace agentrun::sandbox::wire {

// The arguments of the last step, before those of the program that it runs:
//   0  "L" and kFdCount decimal fds, each after a colon, "-" for none; then a colon and the number of labels (0 to 9)
//   1  the path for execve
//   2  what is sent with the listener's fd
//   3  and, for each label, the file below procfs and the text to write
// A script with the interpreter /proc/self/exe makes the kernel run this program with argv[0] a path: no orders, and it
// ends at once. Whoever names a symlink like orders gets them followed, with the rights that he has already, and no fd.
constexpr char kMark = 'L';
constexpr int kFixedArguments = 3;
enum FdIndex { error_fd, programs_fd, listener_fd, procfs_fd, directory_fd, landlock_fd, kFdCount };

// The memfd of filters: the header, then `count` times a ProgramHeader and its instructions.
constexpr std::uint32_t kProgramsMagic = 0x41525031;
constexpr std::uint32_t kMostPrograms = 8;
struct ProgramsHeader {
  std::uint32_t magic = kProgramsMagic;
  std::uint32_t count = 0;
};
struct ProgramHeader {
  std::uint32_t flags = 0;
  std::uint32_t listener = 0;
  std::uint32_t length = 0;  // instructions, at most BPF_MAXINSNS
  std::uint32_t zero = 0;
};
constexpr std::uint64_t kLargestPrograms =
    sizeof(ProgramsHeader) + kMostPrograms * (sizeof(ProgramHeader) + BPF_MAXINSNS * sizeof(sock_filter));

// Written to error_fd when a step failed.
constexpr std::uint32_t kFailureMagic = 0x41524631;
enum Step : std::uint32_t { orders = 1, close_on_exec, directory, label, filter, listener, exec, landlock };
struct Failure {
  std::uint32_t magic = kFailureMagic;
  std::uint32_t step = 0;
  std::int32_t code = 0;  // errno
};

// What the program that stays in this process's place is: not executable, or not found.
constexpr int kCannotExecute = 126, kNotFound = 127;

}  // namespace agentrun::sandbox::wire
