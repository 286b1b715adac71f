// Clocks. Deadlines are in CLOCK_BOOTTIME: it counts suspended time and nobody can step it. Records are in
// CLOCK_REALTIME, as RFC 3339 with nanoseconds, UTC.
#pragma once

#include <cstdint>
#include <string>

namespace agentrun::clock {

std::int64_t boottime_us();  // microseconds since boot, suspended time included
std::int64_t monotonic_us();
std::int64_t realtime_us();  // microseconds since 1970

std::string rfc3339(std::int64_t realtime_us);
std::string rfc3339_now();

}  // namespace agentrun::clock
