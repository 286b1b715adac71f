#include "sandbox/systemd_unit.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "base/text.h"
#include "sandbox/cgroup_limits.h"

namespace agentrun::sandbox {
namespace {

constexpr std::string_view kPropertyPrefix = "org.systemd.property.";
constexpr std::uint64_t kInfinity = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kDefaultPeriod = 100'000;  // microseconds, of the kernel

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_unit_character(char c) {
  return is_letter(c) || (c >= '0' && c <= '9') || c == ':' || c == '_' || c == '.' || c == '-';
}

UnitProperty number(const char* name, std::uint64_t value) { return {name, "t", {std::to_string(value)}}; }
UnitProperty limit(const char* name, std::int64_t value) {
  return number(name, value < 0 ? kInfinity : static_cast<std::uint64_t>(value));
}
UnitProperty yes(const char* name) { return {name, "b", {"true"}}; }

Result<UnitProperty> mask(const char* name, std::string_view list) {
  UnitProperty property{name, "ay", {}};
  for (const std::uint8_t byte : TRY(cpu_mask(list))) property.values.push_back(std::to_string(byte));
  return property;
}

// ---- limits

void add_quota(std::vector<UnitProperty>& properties, std::int64_t quota, std::uint64_t period) {
  if (quota == 0 && period == 0) return;
  if (period != 0) properties.push_back(number("CPUQuotaPeriodUSec", period));
  if (quota < 0) properties.push_back(number("CPUQuotaPerSecUSec", kInfinity));
  // With a period of its own but no quota there is nothing to say: the files keep what is in force.
  if (quota <= 0) return;
  const std::uint64_t length = period == 0 ? kDefaultPeriod : period;
  const auto amount = static_cast<std::uint64_t>(quota);
  const std::uint64_t share =
      amount < kInfinity / 1'000'000 ? amount * 1'000'000 / length : amount / length * 1'000'000;
  properties.push_back(number("CPUQuotaPerSecUSec", std::max<std::uint64_t>(share, 1)));
}

Result<void> add_memory(std::vector<UnitProperty>& properties, const oci::MemoryResources& memory, bool v2) {
  if (memory.limit) properties.push_back(limit(v2 ? "MemoryMax" : "MemoryLimit", *memory.limit));
  if (!v2) return ok();
  if (memory.reservation) properties.push_back(limit("MemoryLow", *memory.reservation));
  if (!memory.limit) return ok();  // an update of swap alone: only the file knows the memory limit in force
  const auto swap = TRY(swap_on_v2(memory.swap, memory.limit));
  if (swap && memory.swap) properties.push_back(limit("MemorySwapMax", *swap));
  return ok();
}

Result<void> add_cpu(std::vector<UnitProperty>& properties, const oci::CpuResources& cpu, bool v2) {
  if (v2 && cpu.idle.value_or(0) == 1) {
    properties.push_back(number("CPUWeight", 0));  // systemd 252: idle
  } else if (cpu.shares.value_or(0) != 0) {
    properties.push_back(v2 ? number("CPUWeight", weight_of_shares(*cpu.shares)) : number("CPUShares", *cpu.shares));
  }
  add_quota(properties, cpu.quota.value_or(0), cpu.period.value_or(0));
  if (v2 && !cpu.cpus.empty()) properties.push_back(TRY(mask("AllowedCPUs", cpu.cpus)));
  if (v2 && !cpu.mems.empty()) properties.push_back(TRY(mask("AllowedMemoryNodes", cpu.mems)));
  return ok();
}

// systemd writes its own default at its next reload where it was told none. Rates and weights of single devices it
// leaves alone.
void add_io(std::vector<UnitProperty>& properties, const oci::BlockIoResources& io, bool v2) {
  const std::uint64_t weight = io_weight_of_blkio(io.weight.value_or(0));
  if (v2 && weight != 0) properties.push_back(number("IOWeight", weight));
}

struct UnifiedName {
  std::string_view key;
  const char* property;
};
constexpr std::array kUnifiedNames = {
    UnifiedName{"memory.max", "MemoryMax"},          UnifiedName{"memory.high", "MemoryHigh"},
    UnifiedName{"memory.low", "MemoryLow"},          UnifiedName{"memory.min", "MemoryMin"},
    UnifiedName{"memory.swap.max", "MemorySwapMax"}, UnifiedName{"pids.max", "TasksMax"},
    UnifiedName{"cpu.weight", "CPUWeight"},
};

Error bad_value(const std::string& key, const std::string& value) {
  return refusal("use linux.resources.unified." + key, value, "not a value that systemd knows");
}

Result<void> add_unified(std::vector<UnitProperty>& properties, const std::string& key, const std::string& value) {
  const std::vector<std::string_view> words = text::split_words(value);
  for (const UnifiedName& known : kUnifiedNames) {
    if (key != known.key) continue;
    if (words.size() != 1) return bad_value(key, value);
    auto parsed = words[0] == "max" ? kInfinity : text::parse_unsigned(words[0]);
    if (!parsed) return bad_value(key, value);
    if (key == "pids.max" && *parsed == 0) parsed = 1;
    properties.push_back(number(known.property, *parsed));
  }
  if (key == "cpu.max") {
    if (words.empty() || words.size() > 2) return bad_value(key, value);
    const auto quota = words[0] == "max" ? std::optional<std::int64_t>(-1) : text::parse_signed(words[0]);
    const auto period =
        words.size() == 2 ? text::parse_unsigned(words[1]) : std::optional<std::uint64_t>(kDefaultPeriod);
    if (!quota || !period || *period == 0) return bad_value(key, value);
    add_quota(properties, *quota, *period);
  }
  if (key == "cpu.idle" && words == std::vector<std::string_view>{"1"}) properties.push_back(number("CPUWeight", 0));
  if (key == "io.weight" && (words.size() == 1 || (words.size() == 2 && words[0] == "default"))) {
    const auto weight = text::parse_unsigned(words.back());
    if (!weight || *weight == 0 || *weight > 10000) return bad_value(key, value);
    properties.push_back(number("IOWeight", *weight));
  }
  if (key == "cpuset.cpus" && !words.empty()) properties.push_back(TRY(mask("AllowedCPUs", value)));
  if (key == "cpuset.mems" && !words.empty()) properties.push_back(TRY(mask("AllowedMemoryNodes", value)));
  return ok();
}

// ---- annotations

bool is_reserved(std::string_view name) {
  static const std::set<std::string_view> kReserved = {"Slice",
                                                       "PIDs",
                                                       "PIDFDs",
                                                       "ControlGroup",
                                                       "Delegate",
                                                       "DelegateControllers",
                                                       "DelegateSubgroup",
                                                       "Controller",
                                                       "RuntimeMaxUSec",
                                                       "RuntimeRandomizedExtraUSec",
                                                       "DevicePolicy",
                                                       "DeviceAllow",
                                                       "DisableControllers",
                                                       "User",
                                                       "Group",
                                                       "BPFProgram",
                                                       "TasksMax",
                                                       "CPUWeight",
                                                       "CPUShares",
                                                       "StartupCPUWeight",
                                                       "CPUQuotaPerSecUSec",
                                                       "CPUQuotaPeriodUSec",
                                                       "AllowedCPUs",
                                                       "AllowedMemoryNodes",
                                                       "StartupAllowedCPUs",
                                                       "StartupAllowedMemoryNodes",
                                                       "IOWeight",
                                                       "BlockIOWeight"};
  return kReserved.contains(name) || name.starts_with("Memory") || name.starts_with("StartupMemory") ||
         name.starts_with("IODevice") || name.starts_with("IOReadBandwidth") || name.starts_with("IOWrite") ||
         name.starts_with("IOReadIOPS");
}

std::optional<std::string> unquote(std::string_view text) {
  if (text.size() < 2 || (text.front() != '\'' && text.front() != '"') || text.back() != text.front())
    return std::nullopt;
  std::string value;
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == text.front()) return std::nullopt;
    if (text[i] == '\\' && ++i + 1 >= text.size()) return std::nullopt;
    value += text[i];
  }
  return value;
}

std::optional<UnitProperty> parse_array(std::string name, std::string_view text) {
  if (text.starts_with("@as ")) text = text::trim(text.substr(4));
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  UnitProperty property{std::move(name), "as", {}};
  const std::string_view inner = text::trim(text.substr(1, text.size() - 2));
  if (inner.empty()) return property;
  for (const std::string_view part : text::split(inner, ',')) {
    auto value = unquote(text::trim(part));
    if (!value) return std::nullopt;
    property.values.push_back(std::move(*value));
  }
  return property;
}

struct NumberType {
  std::string_view word;
  const char* signature;
  std::int64_t least;
  std::uint64_t most;
};
constexpr std::array kNumberTypes = {
    NumberType{"int32", "i", std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()},
    NumberType{"uint32", "u", 0, std::numeric_limits<std::uint32_t>::max()},
    NumberType{"int64", "x", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()},
    NumberType{"uint64", "t", 0, std::numeric_limits<std::uint64_t>::max()},
};

std::optional<UnitProperty> parse_number(std::string name, std::string_view text) {
  const std::vector<std::string_view> words = text::split_words(text);
  if (words.empty() || words.size() > 2) return std::nullopt;
  for (const NumberType& type : kNumberTypes) {
    if (words.size() == 2 && words[0] != type.word) continue;
    if (text::parse_unsigned(words.back()).value_or(kInfinity) <= type.most && text::parse_unsigned(words.back())) {
      return UnitProperty{std::move(name), type.signature, {std::string(words.back())}};
    }
    const auto negative = text::parse_signed(words.back());
    if (negative && *negative < 0 && *negative >= type.least) {
      return UnitProperty{std::move(name), type.signature, {std::string(words.back())}};
    }
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<UnitProperty> parse_gvariant(std::string name, std::string_view text) {
  if (text == "true" || text == "false") return UnitProperty{std::move(name), "b", {std::string(text)}};
  if (auto quoted = unquote(text)) return UnitProperty{std::move(name), "s", {std::move(*quoted)}};
  if (auto array = parse_array(name, text)) return array;
  return parse_number(std::move(name), text);
}

// systemd's unit files say seconds where its bus says microseconds.
std::optional<UnitProperty> seconds_to_bus(UnitProperty property) {
  const bool is_seconds = property.name.ends_with("Sec") && !property.name.ends_with("USec");
  if (!is_seconds) return property;
  const auto seconds = property.values.size() == 1 ? text::parse_unsigned(property.values[0]) : std::nullopt;
  if (!seconds || *seconds > kInfinity / 1'000'000) return std::nullopt;
  property.name.insert(property.name.size() - 3, "U");
  property.type = "t";
  property.values = {std::to_string(*seconds * 1'000'000)};
  return property;
}

}  // namespace

std::string escape_unit(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string escaped;
  for (const char c : text) {
    if (is_unit_character(c)) {
      escaped += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    escaped += "\\x";
    escaped += kHex[byte >> 4];
    escaped += kHex[byte & 15];
  }
  return escaped;
}

Result<UnitName> parse_unit_name(const std::string& cgroups_path, const std::string& id, bool user_manager) {
  const char* usual = user_manager ? "user.slice" : "system.slice";
  UnitName name{usual, "agentrun-" + escape_unit(id) + ".scope"};
  if (!cgroups_path.empty()) {
    const std::vector<std::string_view> parts = text::split(cgroups_path, ':');
    if (parts.size() != 3) {
      return refusal("use linux.cgroupsPath", cgroups_path,
                     "expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups");
    }
    if (!parts[0].empty()) name.slice = parts[0] == "-" ? "-.slice" : std::string(parts[0]);
    if (parts[2].empty()) return refusal("use linux.cgroupsPath", cgroups_path, "the name is empty");
    if (parts[2].ends_with(".slice")) {
      return refusal("use linux.cgroupsPath", cgroups_path, "a slice can have no processes");
    }
    name.unit = escape_unit(parts[1]) + "-" + escape_unit(parts[2]) + ".scope";
  }
  TRY(expand_slice(name.slice));
  if (name.unit.size() > 255) return refusal("name the unit", name.unit, "more than 255 bytes");
  return name;
}

Result<std::string> expand_slice(std::string_view slice) {
  const auto no = [&] { return refusal("use the slice", std::string(slice), "invalid slice name"); };
  if (slice == "-" || slice == "-.slice") return std::string();
  if (!slice.ends_with(".slice")) return no();
  std::string path, prefix;
  for (const std::string_view part : text::split(slice.substr(0, slice.size() - 6), '-')) {
    const bool valid = std::all_of(part.begin(), part.end(), [](char c) { return is_unit_character(c) || c == '\\'; });
    if (part.empty() || !valid) return no();
    path += "/" + prefix + std::string(part) + ".slice";
    prefix += std::string(part) + "-";
  }
  if (slice.size() > 255) return no();
  return path;
}

std::string manager_prefix(std::string_view own_cgroup, bool user_manager, uid_t uid) {
  if (!user_manager) return {};
  const std::string service = "user@" + std::to_string(uid) + ".service";
  const std::size_t at = own_cgroup.find("/" + service);
  if (at != std::string_view::npos) {
    const std::size_t end = at + 1 + service.size();
    if (end == own_cgroup.size() || own_cgroup[end] == '/') return std::string(own_cgroup.substr(0, end));
  }
  return "/user.slice/user-" + std::to_string(uid) + ".slice/" + service;
}

std::vector<UnitProperty> scope_properties(const std::string& id, const std::string& slice, pid_t pid,
                                           std::optional<std::int64_t> deadline_us) {
  std::vector<UnitProperty> properties = {
      {"Description", "s", {"agentrun container " + id}},
      {"Slice", "s", {slice}},
      {"PIDs", "au", {std::to_string(pid)}},
      yes("Delegate"),
      {"DefaultDependencies", "b", {"false"}},
      // A scope that fails (out of time) goes by itself, and its name is free again.
      {"CollectMode", "s", {"inactive-or-failed"}},
      yes("CPUAccounting"),
      yes("MemoryAccounting"),
      yes("TasksAccounting"),
      yes("IOAccounting"),
  };
  if (deadline_us) {
    properties.push_back(limit("RuntimeMaxUSec", std::max<std::int64_t>(*deadline_us, 1)));
    properties.push_back(number("TimeoutStopUSec", 1'000'000));
  }
  return properties;
}

Result<std::vector<UnitProperty>> limit_properties(const oci::Resources& resources, bool v2) {
  std::vector<UnitProperty> properties;
  if (resources.memory) TRY(add_memory(properties, *resources.memory, v2));
  if (resources.cpu) TRY(add_cpu(properties, *resources.cpu, v2));
  if (resources.block_io) add_io(properties, *resources.block_io, v2);
  if (resources.pids_limit) {
    properties.push_back(limit("TasksMax", *resources.pids_limit == 0 ? 1 : *resources.pids_limit));
  }
  for (const auto& [key, value] : resources.unified) {
    std::vector<UnitProperty> unified;
    TRY(add_unified(unified, key, value));
    properties = merge_properties(std::move(properties), unified);
  }
  return properties;
}

Result<std::vector<UnitProperty>> annotation_properties(const oci::Annotations& annotations) {
  std::vector<UnitProperty> properties;
  for (const auto& [key, value] : annotations) {
    if (!key.starts_with(kPropertyPrefix)) continue;
    const std::string name = key.substr(kPropertyPrefix.size());
    if (name.size() < 3 || !std::all_of(name.begin(), name.end(), is_letter)) {
      return refusal("use the annotation", key, "not the name of a property of systemd");
    }
    auto property = parse_gvariant(name, text::trim(value));
    if (property) property = seconds_to_bus(std::move(*property));
    if (!property) return refusal("use the annotation", key, "its value is not in GVariant text format");
    if (is_reserved(property->name)) {
      return refusal("use the annotation", key, "the container's own settings decide it");
    }
    properties.push_back(std::move(*property));
  }
  return properties;
}

std::vector<UnitProperty> merge_properties(std::vector<UnitProperty> base, const std::vector<UnitProperty>& more) {
  for (const UnitProperty& property : more) {
    std::erase_if(base, [&](const UnitProperty& other) { return other.name == property.name; });
    base.push_back(property);
  }
  return base;
}

}  // namespace agentrun::sandbox
