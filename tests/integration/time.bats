load helpers

setup() {
  [ -e /proc/self/ns/time ] || skip "the kernel has no time namespaces"
  skip_unless_agentrun
  stage
  config '.linux.namespaces += [{"type": "time"}]' '.linux.timeOffsets = {"boottime": {"secs": 1000000}, "monotonic": {"secs": 500000, "nanosecs": 5}}'
}

@test "both offsets, from the program's first instruction" {
  program 'cat /proc/self/timens_offsets; cut -d. -f1 /proc/uptime'
  run_bundle
  assert_success
  assert_matches '^monotonic +500000 +5$'
  assert_matches '^boottime +1000000 +0$'
  [ "$(tail -1 <<< "$output")" -gt 1000000 ]
}

@test "exec joins the time namespace" {
  wait_program
  create_and_start
  run agentrun exec "$ID" cut -d. -f1 /proc/uptime
  assert_success
  [ "$output" -gt 1000000 ]
  run agentrun exec "$ID" readlink /proc/self/ns/time
  assert_output "$(readlink "/proc/$(pid_of)/ns/time")"
}

@test "a time namespace beside a user namespace, and joined by path" {
  wait_program
  create_and_start
  local pid other=$ID
  pid=$(pid_of)
  config "(.linux.namespaces[] | select(.type == \"time\")).path = \"/proc/$pid/ns/time\"" 'del(.linux.timeOffsets)' ".linux.cgroupsPath += \"-2\""
  program 'readlink /proc/self/ns/time'
  run agentrun run --bundle "$BUNDLE" "$other-2" < /dev/null
  assert_success
  assert_output "$(readlink "/proc/$pid/ns/time")"
}

@test "the host's clocks stay" {
  local before after
  before=$(cut -d. -f1 /proc/uptime)
  program true
  run_bundle
  assert_success
  after=$(cut -d. -f1 /proc/uptime)
  [ $((after - before)) -lt 100000 ]
}

@test "offsets without a time namespace, an unknown clock, an offset before the boot" {
  config 'del(.linux.namespaces[] | select(.type == "time"))'
  create
  assert_error "time"
  base_config | jq '.linux.namespaces += [{"type": "time"}] | .linux.timeOffsets = {"realtime": {"secs": 1}}' > "$BUNDLE/config.json"
  create
  assert_error "/linux/timeOffsets"
  base_config | jq '.linux.namespaces += [{"type": "time"}] | .linux.timeOffsets = {"boottime": {"secs": -9000000000}}' > "$BUNDLE/config.json"
  create
  assert_error "timens_offsets"
  assert_clean
}
