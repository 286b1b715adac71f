// Small text helpers: strict number parsing, durations and sizes, splitting, quoting for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace agentrun::text {

// Decimal digits only, whole text, in range; nothing else ("+1", " 1", "0x1", "1a" and "" are none). CVE-2026-30892:
// a user of "1" that was parsed as 0.
std::optional<std::uint64_t> parse_unsigned(std::string_view text);
std::optional<std::int64_t> parse_signed(std::string_view text);

// "90s", "10m", "1h30m", "500ms", "2d": at least one unit, each at most once, largest first. In microseconds.
Result<std::int64_t> parse_duration(std::string_view text);
std::string print_duration(std::int64_t microseconds);

// "512M", "2G", "64k", "1048576": powers of 1024, in bytes; also with a final "B" or "iB".
Result<std::int64_t> parse_size(std::string_view text);
std::string print_size(std::int64_t bytes);

// "1.5" CPUs in milliCPU; at most three digits after the point.
Result<std::int64_t> parse_cpus(std::string_view text);

std::vector<std::string_view> split(std::string_view text, char separator);  // keeps empty parts
std::vector<std::string_view> split_words(std::string_view text);  // by spaces, tabs and newlines; no empty parts
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string_view trim(std::string_view text);
std::string to_lower(std::string_view text);

// Shell-like glob with * and ? only, the whole text, no classes; case-sensitive.
bool glob_match(std::string_view pattern, std::string_view text);

// Control characters and bytes that are not UTF-8 as \xNN: hostile text for a log or a terminal.
std::string printable(std::string_view text);

// Absolute, without "." and "..", "//" and a final "/"; ".." never climbs over "/". Lexical: no file is looked at.
std::string clean_path(std::string_view path);

// True where `path` is `parent` or lies below it; both cleaned.
bool path_within(std::string_view path, std::string_view parent);

}  // namespace agentrun::text
