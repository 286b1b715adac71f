#include "base/clock.h"

#include <ctime>

#include <array>
#include <cstdio>

namespace agentrun::clock {
namespace {

std::int64_t read_us(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace

std::int64_t boottime_us() { return read_us(CLOCK_BOOTTIME); }
std::int64_t monotonic_us() { return read_us(CLOCK_MONOTONIC); }
std::int64_t realtime_us() { return read_us(CLOCK_REALTIME); }

std::string rfc3339(std::int64_t realtime_us) {
  const time_t seconds = static_cast<time_t>(realtime_us / 1'000'000);
  tm broken{};
  gmtime_r(&seconds, &broken);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", broken.tm_year + 1900,
                broken.tm_mon + 1, broken.tm_mday, broken.tm_hour, broken.tm_min, broken.tm_sec,
                static_cast<int>(realtime_us % 1'000'000));
  return text.data();
}

std::string rfc3339_now() { return rfc3339(realtime_us()); }

}  // namespace agentrun::clock
