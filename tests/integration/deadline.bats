load helpers

setup() {
  skip_unless_agentrun
  stage
}

with_deadline() { config ".annotations[\"org.agentrun.deadline\"] = \"$1\""; }
supervisor_of() { jq -r .supervisor.pid "$ROOT/${1:-$ID}/state.json"; }
# Any call of agentrun ends what is overdue; did it?
swept() { agentrun list > /dev/null && gone "$1"; }
reason_of() { state_of '.annotations["org.agentrun.exit.reason"] // ""' "$@"; }

@test "a program that runs for ever ends at its deadline: 137" {
  with_deadline 2s
  program 'while :; do :; done'
  SECONDS=0
  run_strict
  assert_status 137
  [ "$SECONDS" -ge 2 ] && [ "$SECONDS" -le 6 ] || fail "took $SECONDS s"
  assert_audit '.container == $id and .reason == "deadline"'
  assert_clean
}

@test "create and start: the reason is in the state and in the audit trail" {
  with_deadline 2s
  program 'trap "" TERM INT HUP; while :; do sleep 0.1; done'
  detached strict create --bundle "$BUNDLE" "$ID"
  assert_success
  start
  local pid
  pid=$(pid_of)
  wait_for 8 has_status stopped
  gone "$pid"
  assert_equal "$(reason_of)" deadline
  assert_audit '.container == $id and .event == "kill" and .reason == "deadline"'
}

@test "everything in the container ends, not only PID 1" {
  with_deadline 2s
  program '(setsid sleep 1000 &) ; (trap "" TERM; sleep 1000) & sleep 1000 & wait; sleep 1000'
  detached strict create --bundle "$BUNDLE" "$ID"
  start
  local pids pid
  sleep 0.5
  pids=$(cat "$(cgroup_of pids)/cgroup.procs")
  [ "$(wc -w <<< "$pids")" -ge 3 ] || fail "expected more processes"
  wait_for 8 has_status stopped
  for pid in $pids; do wait_for 2 gone "$pid"; done
}

@test "the client's death does not save the program" {
  with_deadline 3s
  program 'while :; do sleep 0.1; done'
  "$RUNTIME" --root "$ROOT" --policy strict run --bundle "$BUNDLE" "$ID" > /dev/null 2>&1 < /dev/null 3>&- &
  local client=$!
  wait_for 5 has_status running
  local pid
  pid=$(pid_of)
  kill -9 "$client"
  wait_for 8 gone "$pid"
  assert_audit '.container == $id and .reason == "deadline"'
}

@test "the supervisor's death: the next call of agentrun ends what is overdue" {
  with_deadline 2s
  program 'while :; do sleep 0.1; done'
  detached strict create --bundle "$BUNDLE" "$ID"
  start
  assert_success
  local pid
  pid=$(pid_of)
  kill -9 "$(supervisor_of)"
  sleep 2.5
  run agentrun list
  assert_success
  wait_for 5 gone "$pid"
  assert_equal "$(reason_of)" deadline
}

@test "the supervisor died before start: start makes another" {
  with_deadline 2s
  program 'while :; do sleep 0.1; done'
  detached strict create --bundle "$BUNDLE" "$ID"
  local pid
  pid=$(pid_of)
  kill -9 "$(supervisor_of)"
  start
  assert_success
  wait_for 8 gone "$pid"
  assert_equal "$(reason_of)" deadline
}

@test "created and never started ends too" {
  printf '{"extends": "strict", "deadline": {"container": "10m", "exec": "10m", "created": "2s"}}' > "$BUNDLE/policy.json"
  chmod 0600 "$BUNDLE/policy.json"
  POLICY=$BUNDLE/policy.json detached agentrun create --bundle "$BUNDLE" "$ID"
  assert_success
  local pid
  pid=$(pid_of)
  wait_for 8 gone "$pid"
  start
  assert_failure
}

@test "exec ends with the container's deadline" {
  with_deadline 4s
  program 'while :; do sleep 0.1; done'
  detached strict create --bundle "$BUNDLE" "$ID"
  start
  SECONDS=0
  run agentrun exec "$ID" sh -c 'while :; do :; done' < /dev/null
  assert_status 137
  [ "$SECONDS" -le 8 ] || fail "took $SECONDS s"
}

@test "a deadline of exec alone is refused: nothing would enforce it" {
  printf '{"extends": "strict", "deadline": {"container": "10m", "exec": "2s", "created": "10m"}}' > "$BUNDLE/policy.json"
  chmod 0600 "$BUNDLE/policy.json"
  wait_program
  POLICY=$BUNDLE/policy.json detached agentrun create --bundle "$BUNDLE" "$ID"
  assert_error '/deadline/exec'
  assert_clean
}

@test "a program that ends in time is not touched, and its supervisor ends with it" {
  with_deadline 5m
  program 'exit 3'
  detached strict create --bundle "$BUNDLE" "$ID"
  local supervisor
  supervisor=$(supervisor_of)
  start
  wait_for 5 has_status stopped
  wait_for 5 gone "$supervisor"
  [ "$(reason_of)" != deadline ] || fail "the reason is deadline"
}

@test "the supervisor is small, in a session of its own, and holds no descriptor of the caller" {
  wait_program
  status=0
  timeout 30 "$RUNTIME" --root "$ROOT" --policy strict create --bundle "$BUNDLE" "$ID" \
    > "$LOG" 2>&1 < /dev/null 7< /etc/passwd 3>&- || status=$?
  assert_success
  local supervisor
  supervisor=$(supervisor_of)
  # An engine that waits for the end of its pipe must not wait for the supervisor.
  output=$(ls -l "/proc/$supervisor/fd")
  refute_contains /etc/passwd
  refute_contains "$LOG"
  assert_equal "$(readlink "/proc/$supervisor/fd/1")" /dev/null
  assert_equal "$(awk '{ print $6 }' "/proc/$supervisor/stat")" "$supervisor"
  # Outside the container's cgroup: killing that does not kill the killer.
  output=$(cat "/proc/$supervisor/cgroup")
  refute_contains "$ID"
  [ "$(awk '/^RssAnon/ { print $2 }' "/proc/$supervisor/status")" -lt 1024 ] || fail "more than 1 MiB of its own memory"
}

@test "stopping the supervisor does not stop the deadline for ever" {
  with_deadline 2s
  program 'while :; do sleep 0.1; done'
  detached strict create --bundle "$BUNDLE" "$ID"
  start
  local pid supervisor
  pid=$(pid_of)
  supervisor=$(supervisor_of)
  kill -STOP "$supervisor"
  wait_for 15 swept "$pid"
  kill -CONT "$supervisor" 2> /dev/null || true
}

@test "a deadline in the oci policy is only what was asked" {
  with_deadline 2s
  program 'while :; do sleep 0.1; done'
  SECONDS=0
  run_bundle
  assert_status 137
  [ "$SECONDS" -le 7 ] || fail "took $SECONDS s"
}

@test "nothing that a container sends to start's socket or to the supervisor moves the deadline" {
  program 'find / -xdev -type s 2> /dev/null; ls -A /run /tmp; cat /proc/net/unix | tail -n +2'
  run_strict
  assert_success
  refute_contains sock
}

@test "a paused container ends at its deadline all the same" {
  agentrun --help | grep -qw pause || skip "pause is not there yet"
  with_deadline 2s
  program 'while :; do sleep 0.1; done'
  detached strict create --bundle "$BUNDLE" "$ID"
  start
  local pid
  pid=$(pid_of)
  agentrun pause "$ID" || skip "no freezer"
  wait_for 8 gone "$pid"
}
