#include <utility>

#include "lifecycle/control.h"
#include "lifecycle/facts.h"
#include "lifecycle/liveness.h"
#include "lifecycle/merge_resources.h"
#include "policy/policy.h"

namespace agentrun::lifecycle {
namespace {

struct Alive {
  Container container;
  Record record;
  oci::Status status = oci::Status::running;
};

Result<Alive> lock_alive(const Store& store, const std::string& id) {
  Container container = TRY(store.lock(id));
  Record record = TRY(container.record());
  const oci::Status status = TRY(container.status(record));
  if (status == oci::Status::stopped) return refusal("container not running", "", id);
  if (!has_cgroup(record.cgroup)) return refusal("container " + id, "", "it has no cgroup");
  return Alive{std::move(container), std::move(record), status};
}

}  // namespace

Result<void> pause(const Global& global, const std::string& id) {
  const Store store = TRY(Store::open(global.root));
  const Alive alive = TRY(lock_alive(store, id));
  if (alive.status == oci::Status::paused) return ok();
  return sandbox::freeze_cgroup(alive.record.cgroup);
}

Result<void> resume(const Global& global, const std::string& id) {
  const Store store = TRY(Store::open(global.root));
  const Alive alive = TRY(lock_alive(store, id));
  if (alive.status != oci::Status::paused) return refusal("container not paused", "", id);
  return sandbox::thaw_cgroup(alive.record.cgroup);
}

Result<void> update(const Global& global, const std::string& id, const oci::Resources& resources) {
  const Store store = TRY(Store::open(global.root));
  const Alive alive = TRY(lock_alive(store, id));
  const std::string policy_text = TRY(alive.container.policy_json());
  const policy::Policy policy = TRY(policy::parse_policy(policy_text, alive.record.policy));
  policy::Report report = TRY(alive.container.report());
  oci::Config config = TRY(alive.container.config());
  const policy::Facts facts = host_facts(alive.record.cgroup.manager);

  // What will hold after it is what the policy judges: a change may name only one of two limits that belong together.
  oci::Resources wanted = config.linux.resources.value_or(oci::Resources());
  merge_resources(wanted, resources);
  oci::Resources allowed = TRY(policy::harden_update(wanted, policy, facts, report));
  TRY(sandbox::update_cgroup(alive.record.cgroup, allowed));
  config.linux.resources = std::move(allowed);
  TRY(alive.container.write_config(config));
  return alive.container.write_report(report);
}

}  // namespace agentrun::lifecycle
