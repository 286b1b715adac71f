load helpers

stats() { agentrun events --stats "$ID"; }

@test "events --stats: one object in runc's form" {
  wait_program
  create_and_start
  run stats
  assert_success
  assert_equal "$(wc -l <<< "$output")" 1
  jq -e --arg id "$ID" '.type == "stats" and .id == $id and (.data | has("cpu") and has("memory") and has("pids")
    and has("blkio") and has("hugetlb")) and (.data.blkio.ioServiceBytesRecursive | type == "array")' <<< "$output"
}

@test "events --stats agrees with the cgroup" {
  config '.linux.resources.memory = {"limit": 67108864}' '.linux.resources.pids = {"limit": 21}'
  wait_program
  create
  assert_success
  start
  assert_success
  run stats
  assert_success
  [ -z "$(cgroup_of memory)" ] || assert_equal "$(jq .data.memory.usage.limit <<< "$output")" 67108864
  [ -z "$(cgroup_of pids)" ] || assert_equal "$(jq .data.pids.limit <<< "$output")" 21
  [ -z "$(cgroup_of memory)" ] || [ "$(jq .data.memory.usage.usage <<< "$output")" -gt 0 ]
  [ -z "$(cgroup_of pids)" ] || [ "$(jq .data.pids.current <<< "$output")" -gt 0 ]
}

@test "the use of CPU time only grows, in nanoseconds" {
  program 'echo; while :; do :; done'
  create_and_start
  local first
  first=$(stats | jq .data.cpu.usage.total)
  [ "$first" != null ] || skip "nothing counts CPU time here"
  more() { [ "$(stats | jq .data.cpu.usage.total)" -gt $((first + 10000000)) ]; }
  wait_for 30 more
}

@test "events streams in its interval, and ends with the container" {
  wait_program
  create_and_start
  agentrun events --interval 200ms "$ID" > "$SCRATCH/events.$ID" 2>&1 < /dev/null &
  local streaming=$!
  several() { [ "$(grep -c '"stats"' "$SCRATCH/events.$ID")" -ge 3 ]; }
  wait_for 30 several
  agentrun kill "$ID" KILL
  wait_for 20 gone "$streaming"
  wait "$streaming"
  jq -e -s 'length >= 3 and all(.[]; .type == "stats")' "$SCRATCH/events.$ID"
}

@test "a kill for memory is an oom event" {
  config '.linux.resources.memory = {"limit": 33554432, "swap": 33554432}'
  program 'while [ ! -e /go ]; do sleep 0.05; done; head -c 100m /dev/zero | tail; while :; do sleep 0.1; done'
  create
  assert_success
  [ -n "$(cgroup_of memory)" ] || skip "no memory controller"
  start
  agentrun events --interval 1h "$ID" > "$SCRATCH/events.$ID" 2>&1 < /dev/null &
  local streaming=$!
  wait_for 20 grep -q '"stats"' "$SCRATCH/events.$ID"
  touch "$BUNDLE/rootfs/go"
  wait_for 30 grep -q '"type":"oom"' "$SCRATCH/events.$ID"
  jq -e -s --arg id "$ID" 'any(.[]; .type == "oom" and .id == $id)' "$SCRATCH/events.$ID"
  agentrun kill "$ID" KILL
  wait "$streaming"
}

@test "events of a container that is not there, or has ended" {
  run agentrun events --stats "$ID"
  assert_error "does not exist"
  program true
  create_and_start
  wait_for 20 has_status stopped
  run agentrun events --stats "$ID"
  assert_error "container not running"
  run agentrun events "$ID"
  assert_error "container not running"
}

@test "an interval that is none" {
  local interval
  for interval in 0s x 5 -1s; do
    run agentrun events --interval=$interval "$ID"
    assert_error "events --interval"
  done
}
