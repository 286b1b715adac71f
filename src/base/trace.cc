#include "base/trace.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"

namespace agentrun::trace {
namespace {

struct Step {
  std::atomic<const char*> name;  // last to be written: null while the step is not complete
  std::int64_t at_us;
  bool child;
};

// Shared between this process and every one that it forks. The pointers mean the same in all of them: they are of one
// program at one address.
struct Board {
  std::atomic<std::uint32_t> count;
  std::int64_t began_us;
  std::array<Step, 1000> steps;
};
static_assert(std::atomic<const char*>::is_always_lock_free,
              "a lock in shared memory would not survive a killed child");

Board* board = nullptr;
bool in_child = false;

std::string& output_file() {
  static std::string file;
  return file;
}

}  // namespace

Result<void> enable(std::string file) {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno_error("mmap", "memory for --trace-timing");
  board = static_cast<Board*>(memory);  // zeroed by the kernel, which is the initial state of each member
  board->began_us = clock::monotonic_us();
  output_file() = std::move(file);
  // Now, not when all is done: a job must not run and then fail for its trace.
  const UniqueFd fd(::open(output_file().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return errno_error("open", output_file());
  return ok();
}

void step(const char* name) {
  if (board == nullptr) return;
  const std::uint32_t index = board->count.fetch_add(1, std::memory_order_relaxed);
  if (index >= board->steps.size()) return;
  Step& step = board->steps[index];
  step.at_us = clock::monotonic_us() - board->began_us;
  step.child = in_child;
  step.name.store(name, std::memory_order_release);
}

void enter_child() { in_child = true; }

Result<void> finish() {
  if (board == nullptr) return ok();
  const std::size_t count = std::min<std::size_t>(board->count.load(std::memory_order_acquire), board->steps.size());
  std::vector<const Step*> steps;
  for (std::size_t index = 0; index < count; ++index) {
    if (board->steps[index].name.load(std::memory_order_acquire) != nullptr) steps.push_back(&board->steps[index]);
  }
  std::stable_sort(steps.begin(), steps.end(), [](const Step* a, const Step* b) { return a->at_us < b->at_us; });

  std::string text;
  for (const Step* step : steps) {
    text += std::to_string(step->at_us) + (step->child ? " child " : " parent ") + step->name.load() + '\n';
  }
  const UniqueFd fd(::open(output_file().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) return errno_error("open", output_file());
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return errno_error("write", output_file());
  }
  return ok();
}

}  // namespace agentrun::trace
