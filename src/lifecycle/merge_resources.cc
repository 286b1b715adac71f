#include "lifecycle/merge_resources.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace agentrun::lifecycle {
namespace {

template <typename T>
void lay(std::optional<T>& base, const std::optional<T>& change) {
  if (change) base = change;
}

void lay(std::string& base, const std::string& change) {
  if (!change.empty()) base = change;
}

template <typename T>
void lay(std::vector<T>& base, const std::vector<T>& change) {
  if (!change.empty()) base = change;
}

template <typename Map>
void lay_map(Map& base, const Map& change) {
  for (const auto& [key, value] : change) base[key] = value;
}

// `swap` is memory and swap together: a new limit alone must not leave it below the limit, nor turn what is between the
// two into more swap than there was.
void move_swap(oci::MemoryResources& base, const oci::MemoryResources& change) {
  if (!change.limit || change.swap || !base.limit || !base.swap) return;
  if (*base.limit < 0 || *base.swap < *base.limit) return;  // -1 is no limit, and stays so
  base.swap = *change.limit < 0 ? *change.limit : *change.limit + (*base.swap - *base.limit);
}

void merge(oci::MemoryResources& base, const oci::MemoryResources& change) {
  move_swap(base, change);
  lay(base.limit, change.limit);
  lay(base.reservation, change.reservation);
  lay(base.swap, change.swap);
  lay(base.kernel, change.kernel);
  lay(base.kernel_tcp, change.kernel_tcp);
  lay(base.swappiness, change.swappiness);
  lay(base.disable_oom_killer, change.disable_oom_killer);
  lay(base.use_hierarchy, change.use_hierarchy);
  lay(base.check_before_update, change.check_before_update);
}

void merge(oci::CpuResources& base, const oci::CpuResources& change) {
  lay(base.shares, change.shares);
  lay(base.quota, change.quota);
  lay(base.burst, change.burst);
  lay(base.period, change.period);
  lay(base.realtime_runtime, change.realtime_runtime);
  lay(base.realtime_period, change.realtime_period);
  lay(base.cpus, change.cpus);
  lay(base.mems, change.mems);
  lay(base.idle, change.idle);
}

void merge(oci::BlockIoResources& base, const oci::BlockIoResources& change) {
  lay(base.weight, change.weight);
  lay(base.leaf_weight, change.leaf_weight);
  lay(base.weight_devices, change.weight_devices);
  lay(base.read_bps, change.read_bps);
  lay(base.write_bps, change.write_bps);
  lay(base.read_iops, change.read_iops);
  lay(base.write_iops, change.write_iops);
}

template <typename T>
void merge_part(std::optional<T>& base, const std::optional<T>& change) {
  if (!change) return;
  if (!base) base.emplace();
  merge(*base, *change);
}

}  // namespace

void merge_resources(oci::Resources& base, const oci::Resources& change) {
  lay(base.devices, change.devices);
  merge_part(base.memory, change.memory);
  merge_part(base.cpu, change.cpu);
  lay(base.pids_limit, change.pids_limit);
  merge_part(base.block_io, change.block_io);
  for (const oci::HugepageLimit& limit : change.hugepage_limits) {
    const auto same = std::find_if(base.hugepage_limits.begin(), base.hugepage_limits.end(),
                                   [&](const oci::HugepageLimit& other) { return other.page_size == limit.page_size; });
    if (same == base.hugepage_limits.end()) {
      base.hugepage_limits.push_back(limit);
    } else {
      *same = limit;
    }
  }
  lay(base.network, change.network);
  lay_map(base.rdma, change.rdma);
  lay_map(base.unified, change.unified);
}

}  // namespace agentrun::lifecycle
