// Runs a piece of a test in a process of its own: what these modules do to a process cannot be undone.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

#include "base/result.h"

namespace agentrun::sandbox::test {

// What `body` returns is the exit status; 128 + signal where it was killed. 0 to 119 are the test's.
template <typename Body>
int in_child(Body body) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    int status = 121;
    try {
      status = body();
    } catch (const std::exception& exception) {
      std::fprintf(stderr, "in the child: %s\n", exception.what());
    }
    _exit(status);
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return 122;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// 0 on success; else prints the error and returns 1. For the ends of children.
template <typename T>
int report(const Result<T>& result) {
  if (result) return 0;
  std::fprintf(stderr, "in the child: %s\n", result.error().message().c_str());
  return 1;
}

}  // namespace agentrun::sandbox::test
