load helpers

# Field 19 of stat is the nice value, 41 the scheduling policy.
show='awk "{ print \$19, \$41 }" /proc/self/stat; ionice -p $$; grep ^Cpus_allowed_list /proc/self/status | tr "\t" " "'

@test "scheduler, nice value and I/O priority of the container" {
  config '.process.scheduler = {"policy": "SCHED_BATCH", "nice": 5}' '.process.ioPriority = {"class": "IOPRIO_CLASS_BE", "priority": 6}'
  program "$show"
  run_bundle
  assert_success
  assert_line "5 3"
  assert_contains "best-effort: prio 6"
}

@test "scheduler and I/O priority of an exec are its own" {
  wait_program
  create_and_start
  jq --arg show "$show" '.process | .args = ["/bin/sh", "-c", $show] | .scheduler = {"policy": "SCHED_IDLE"}
    | .ioPriority = {"class": "IOPRIO_CLASS_IDLE", "priority": 0}' "$BUNDLE/config.json" > "$BUNDLE/process.json"
  run agentrun exec --process "$BUNDLE/process.json" "$ID"
  assert_success
  assert_line "0 5"
  assert_contains idle
}

@test "execCPUAffinity: the final CPUs are those of the process" {
  local cpu
  cpu=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\).*/\1/p' /proc/self/status)
  config ".process.execCPUAffinity = {\"initial\": \"$cpu\", \"final\": \"$cpu\"}"
  wait_program
  create_and_start
  run agentrun exec "$ID" grep ^Cpus_allowed_list /proc/self/status
  assert_success
  assert_matches "Cpus_allowed_list:[[:space:]]+$cpu$"
  # It is for exec only.
  assert_equal "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$(pid_of)/status")" "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
}

@test "wrong schedulers, priorities and CPUs are refused" {
  local filter
  for filter in '.process.scheduler = {"policy": "SCHED_NOSUCH"}' '.process.scheduler = {"policy": "SCHED_OTHER", "nice": 99}' \
    '.process.scheduler = {"policy": "SCHED_OTHER", "flags": ["SCHED_FLAG_NOSUCH"]}' \
    '.process.ioPriority = {"class": "IOPRIO_CLASS_NOSUCH", "priority": 0}' '.process.ioPriority = {"class": "IOPRIO_CLASS_BE", "priority": 9}'; do
    base_config | jq ".process.args = [\"true\"] | $filter" > "$BUNDLE/config.json"
    run_bundle
    assert_failure
    assert_matches 'scheduler|ioPriority|I/O priority|SCHED'
    assert_clean
  done
  base_config > "$BUNDLE/config.json"
  wait_program
  create_and_start
  for filter in '"final": "x"' '"final": "99999999"' '"initial": "1-0"'; do
    jq ".process | .args = [\"true\"] | .execCPUAffinity = {$filter}" "$BUNDLE/config.json" > "$BUNDLE/process.json"
    run agentrun exec --process "$BUNDLE/process.json" "$ID"
    assert_error "affinity"
  done
}
