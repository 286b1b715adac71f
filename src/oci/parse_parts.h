// What the files of the parser share.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "oci/config.h"
#include "oci/json_reader.h"

namespace agentrun::oci {

Result<void> from_json(const JsonReader& in, IdMapping& mapping);
Result<void> from_json(const JsonReader& in, Process& process);
Result<void> from_json(const JsonReader& in, Linux& linux);
Result<void> from_json(const JsonReader& in, Resources& resources);

// Major and minor number of a device, both required. Beyond 12 and 20 bits the kernel would cut a number to another
// device's.
Result<void> read_device_number(const JsonReader& in, std::int64_t& major, std::int64_t& minor);
inline constexpr std::int64_t kMajorLimit = 4095, kMinorLimit = 1048575;

// An error where two elements of the array `key`, read as `list`, have the same `field`.
template <typename T, typename Field>
Result<void> refuse_twice(const JsonReader& in, std::string_view key, const std::vector<T>& list, Field field) {
  std::set<std::decay_t<std::invoke_result_t<Field, const T&>>> seen;
  for (const T& element : list) {
    if (!seen.insert(std::invoke(field, element)).second) return in.error_at(key, "the same type twice");
  }
  return ok();
}

}  // namespace agentrun::oci
