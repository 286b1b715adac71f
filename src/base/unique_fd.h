// A file descriptor with one owner. Every fd of this program is one of these, and close-on-exec from birth: an fd that
// leaks into a container is a host file in hostile hands (CVE-2024-21626).
#pragma once

#include <unistd.h>

#include <utility>

namespace agentrun {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  explicit operator bool() const { return valid(); }

  // Gives the fd away: the caller closes it.
  int release() { return std::exchange(fd_, -1); }

  // Closes what is held, then holds `fd`. An error of close is of no use to anybody: the fd is gone either way.
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace agentrun
