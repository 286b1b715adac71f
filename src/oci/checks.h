// Checks for the members that JsonReader reads: from a value to the reason why it will not do; empty where it will.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace agentrun::oci {

// `invalid <what> "<value>"`, the value cut short.
std::string invalid(std::string_view what, std::string_view value);

// One of a list of names.
struct known {
  std::span<const std::string_view> names;
  const char* what;
  std::string operator()(const std::string& value) const;
};

// An integer from minimum to maximum, both included; any integral type that fits std::int64_t.
struct between {
  std::int64_t minimum, maximum;
  std::string operator()(std::int64_t value) const;
};

std::string not_empty(const std::string& value);
std::string absolute_path(const std::string& value);

// (uid_t)-1 is "leave it as it is" to setresuid, chown and their kin: a process that was to become 4294967295 would
// stay root. It is refused as an id.
std::string usable_id(std::uint32_t id);

// "KEY=VALUE", key not empty. The reason does not show the value: it may be a secret.
std::string env_entry(const std::string& value);

// Upper case letters, digits, '_'. Which capabilities there are is the kernel's to say: an unknown name is dropped with
// a warning (config.md, process.capabilities), so that a list written for a newer kernel works.
std::string capability_name(const std::string& value);

// "0-3,7": ids below 65536; spaces around an entry and empty entries are allowed, as runc has it.
std::string cpu_list(const std::string& value);
// The number of ids in such a list; -1: malformed.
int count_list(std::string_view text);

// "2MB": becomes a part of a file name of the cgroup.
std::string page_size(const std::string& value);

// A name of a network interface that the kernel would take (dev_valid_name).
std::string interface_name(const std::string& value);

// A file of the cgroup, "memory.high": no way out of the directory.
std::string unified_key(const std::string& value);

// A word that goes into a line of a kernel file: no space, no control character.
std::string plain_word(const std::string& value);

// One component of a path, not "." or "..".
std::string file_name(const std::string& value);

// Semantic Versioning 2.0.0, major version 1.
std::string oci_version(const std::string& value);

}  // namespace agentrun::oci
