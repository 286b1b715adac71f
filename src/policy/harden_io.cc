// Bounds of each disk. Where an image or a bind really is, behind overlays and device mappers, cannot be told for sure:
// so they hold for every disk of the host, each on its own.
#include <algorithm>

#include "policy/harden_parts.h"

namespace agentrun::policy {
namespace {

using Devices = std::vector<oci::ThrottleDevice>;

std::string text_of(const Devices& devices) {
  if (devices.empty()) return {};
  std::string result = "[";
  for (const auto& device : devices) {
    if (result.size() > 1) result += ',';
    result += json_object(
        {{"major", json_text(device.major)}, {"minor", json_text(device.minor)}, {"rate", json_text(device.rate)}});
  }
  return result + "]";
}

struct List {
  std::string_view key;  // of config.json, and of the policy
  std::string_view rule;
  Devices& devices;
  const std::optional<std::int64_t>& bound;
};

void harden_list(const List& list, bool add, const Context& context) {
  if (!list.bound) return;
  const auto bound = static_cast<std::uint64_t>(*list.bound);
  const std::string before = text_of(list.devices);
  // Zero is "no limit".
  for (auto& device : list.devices) device.rate = device.rate == 0 ? bound : std::min(device.rate, bound);
  for (const Disk& disk : add ? context.facts.disks : std::vector<Disk>()) {
    const auto same = [&](const auto& device) { return device.major == disk.major && device.minor == disk.minor; };
    if (std::none_of(list.devices.begin(), list.devices.end(), same)) {
      list.devices.push_back({disk.major, disk.minor, bound});
    }
  }
  const std::string after = text_of(list.devices);
  if (after == before) return;
  context.log.changed("/linux/resources/blockIO/" + std::string(list.key), before, after,
                      "/limits/io/" + std::string(list.rule));
}

}  // namespace

void harden_io(std::optional<oci::BlockIoResources>& io, Missing missing, const Context& context) {
  const IoLimits& limits = context.policy.limits.io;
  if (!limits.read_bps && !limits.write_bps && !limits.read_iops && !limits.write_iops) return;
  const Facts& facts = context.facts;
  if (missing == Missing::add && !facts.cgroup_io) {
    context.log.note("no io controller here: " + context.log.rule_name("/limits/io") + " has no effect");
  } else if (missing == Missing::add && facts.disks.empty()) {
    context.log.note("no disk of this host is known: " + context.log.rule_name("/limits/io") + " has no effect");
  } else if (missing == Missing::add && facts.cgroup_v1_io && (limits.write_bps || limits.write_iops)) {
    context.log.note("cgroup v1 does not count writes through the page cache: " + context.log.rule_name("/limits/io") +
                     " bounds reads and direct writes");
  }
  const bool add = missing == Missing::add && facts.cgroup_io && !facts.disks.empty();
  if (!io && !add) return;
  oci::BlockIoResources result = io.value_or(oci::BlockIoResources());
  const List lists[] = {{"throttleReadBpsDevice", "read_bps", result.read_bps, limits.read_bps},
                        {"throttleWriteBpsDevice", "write_bps", result.write_bps, limits.write_bps},
                        {"throttleReadIOPSDevice", "read_iops", result.read_iops, limits.read_iops},
                        {"throttleWriteIOPSDevice", "write_iops", result.write_iops, limits.write_iops}};
  for (const List& list : lists) harden_list(list, add, context);
  io = std::move(result);
}

}  // namespace agentrun::policy
