load helpers

@test "ps: a table with the pids of the host" {
  wait_program
  create_and_start
  run agentrun ps "$ID"
  assert_success
  assert_matches '^UID +PID +PPID +C +STIME +TTY +TIME +CMD$'
  assert_matches "^0 +$(pid_of) .*/bin/sh"
}

@test "ps --format json: an array of pids, exec's too" {
  wait_program
  create_and_start
  detached agentrun exec --detach --pid-file "$SCRATCH/pid.$ID" "$ID" sleep 1000
  assert_success
  run agentrun ps --format json "$ID"
  assert_success
  jq -e --argjson init "$(pid_of)" --argjson joined "$(cat "$SCRATCH/pid.$ID")" 'index($init) != null and index($joined) != null' <<< "$output"
  run agentrun ps "$ID" --format json
  assert_success
  jq -e --argjson init "$(pid_of)" 'index($init) != null' <<< "$output"
}

@test "ps: options after the id are those of ps(1), and only the container is shown" {
  skip_unless "no ps(1)" command -v ps
  wait_program
  create_and_start
  run agentrun ps "$ID" -e -o pid,comm
  assert_success
  assert_matches '^ *PID COMMAND$'
  assert_matches "^ *$(pid_of) (sh|busybox)$"
  refute_matches "^ *$$ "
  [ "$(wc -l <<< "$output")" -le 4 ] || fail "more than the container"
}

@test "ps: options without a column PID, options that ps(1) refuses" {
  skip_unless "no ps(1)" command -v ps
  wait_program
  create_and_start
  run agentrun ps "$ID" -e -o comm
  assert_error "no column PID"
  run agentrun ps --format json "$ID" -e
  assert_error "json"
  run agentrun ps --format xml "$ID"
  assert_error "table or json"
}

@test "ps of a paused, a stopped and a missing container" {
  wait_program
  create_and_start
  agentrun pause "$ID"
  run agentrun ps --format json "$ID"
  assert_equal "$(jq length <<< "$output" | grep -c '^[1-9]')" 1
  agentrun resume "$ID"
  agentrun kill "$ID" KILL
  wait_for 20 has_status stopped
  run agentrun ps --format json "$ID"
  assert_success
  assert_output '[]'
  run agentrun ps nosuch
  assert_error "does not exist"
}
