// JSON text to types. The text is hostile: depth is bounded (64 levels), size is bounded by the caller's read
// (`kConfigSizeLimit`), every number is range-checked, and an error names the JSON pointer:
// "/linux/resources/memory/limit: expected an integer". Unknown fields are ignored, as the specification says.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"
#include "oci/config.h"

namespace agentrun::oci {

inline constexpr std::size_t kConfigSizeLimit = 16u << 20;  // bytes; Podman's largest are about 100 KiB

// `name` stands in errors for the file: "config.json". ociVersion must be 1.x (runc#1846: an invalid one is refused).
Result<Config> parse_config(std::string_view json, std::string_view name);

// The file of `exec --process`, and the process part of a config.
Result<Process> parse_process(std::string_view json, std::string_view name);

// `update --resources`: LinuxResources.
Result<Resources> parse_resources(std::string_view json, std::string_view name);

}  // namespace agentrun::oci
