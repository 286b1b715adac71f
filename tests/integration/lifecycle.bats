load helpers

@test "create, start, state, kill, delete" {
  wait_program
  create
  assert_success
  assert_output ""
  run agentrun state "$ID"
  assert_success
  assert_equal "$(jq -r .status <<< "$output")" created
  assert_equal "$(jq -r .id <<< "$output")" "$ID"
  assert_equal "$(jq -r .bundle <<< "$output")" "$BUNDLE"
  [ "$(jq -r .pid <<< "$output")" -gt 1 ]
  assert_matches '"ociVersion": *"1\.'

  start
  assert_success
  assert_output ""
  wait_for 5 has_status running
  local pid
  pid=$(pid_of)
  assert_file "/proc/$pid"

  run agentrun kill "$ID" TERM
  assert_success
  wait_for 5 has_status stopped
  run agentrun delete "$ID"
  assert_success
  run agentrun state "$ID"
  assert_error "does not exist"
}

@test "the program does not run before start" {
  program 'echo ran > /ran'
  create
  assert_success
  sleep 0.3
  refute_file "$BUNDLE/rootfs/ran"
  start
  wait_for 5 test -e "$BUNDLE/rootfs/ran"
}

@test "start twice is refused" {
  wait_program
  create_and_start
  start
  assert_failure
}

@test "run prints, returns the exit code, and leaves nothing" {
  program 'echo out; echo err >&2; exit 7'
  run_bundle
  assert_status 7
  assert_line out
  assert_line err
  assert_clean
}

@test "run returns 128 and the signal of a killed program" {
  # PID 1 of a namespace ignores what it has no handler for, so the program kills its child.
  program 'sh -c "kill -9 \$\$"; exit $?'
  run_bundle
  assert_status 137
}

@test "run hands standard input to the program" {
  program cat
  run agentrun run --bundle "$BUNDLE" "$ID" <<< "from outside"
  assert_success
  assert_output "from outside"
}

@test "run --detach returns at once and the container stays" {
  wait_program
  detached agentrun run --detach --bundle "$BUNDLE" "$ID"
  assert_success
  wait_for 5 has_status running
}

@test "run --keep leaves a stopped container" {
  program true
  run_bundle --keep
  assert_success
  has_status stopped
  run agentrun delete "$ID"
  assert_success
}

@test "the pid file holds digits only" {
  wait_program
  create --pid-file "$BUNDLE/pid"
  assert_success
  assert_equal "$(tr -d '0-9' < "$BUNDLE/pid" | wc -c)" 0
  assert_equal "$(cat "$BUNDLE/pid")" "$(pid_of)"
}

@test "options may stand after the id" {
  skip_unless_agentrun
  wait_program
  detached agentrun create "$ID" --bundle "$BUNDLE" --pid-file "$BUNDLE/pid"
  assert_success
  assert_equal "$(cat "$BUNDLE/pid")" "$(pid_of)"
  run agentrun delete "$ID" --force
  assert_success
  assert_clean
}

@test "--option=value and --option value are the same" {
  wait_program
  detached agentrun create "--bundle=$BUNDLE" "--pid-file=$BUNDLE/pid" "$ID"
  assert_success
  assert_file "$BUNDLE/pid"
}

@test "the bundle is the working directory by default" {
  cd "$BUNDLE"
  run agentrun run "$ID" < /dev/null
  assert_success
  assert_output hello
}

@test "an id that exists is refused, and the container stays" {
  wait_program
  create
  assert_success
  local pid
  pid=$(pid_of)
  detached agentrun create --bundle "$BUNDLE" "$ID"
  assert_error "exist"
  assert_equal "$(pid_of)" "$pid"
  has_status created
}

@test "two creates of one id at the same moment: one wins" {
  wait_program
  local first second wins=0
  agentrun create --bundle "$BUNDLE" "$ID" > "$LOG.1" 2>&1 < /dev/null &
  first=$!
  agentrun create --bundle "$BUNDLE" "$ID" > "$LOG.2" 2>&1 < /dev/null &
  second=$!
  wait "$first" && wins=$((wins + 1))
  wait "$second" && wins=$((wins + 1))
  output=$(cat "$LOG.1" "$LOG.2")
  rm -f "$LOG.1" "$LOG.2"
  assert_equal "$wins" 1
  assert_contains exist
  start
  assert_success
  wait_for 5 has_status running
}

@test "delete refuses a running container, delete --force does not" {
  wait_program
  create_and_start
  run agentrun delete "$ID"
  assert_failure
  local pid
  pid=$(pid_of)
  run agentrun delete --force "$ID"
  assert_success
  gone "$pid"
  assert_clean
}

@test "delete --force of a created container" {
  create
  assert_success
  run agentrun delete --force "$ID"
  assert_success
  assert_clean
}

@test "delete --force ends every process of the container" {
  program 'trap "" TERM; (trap "" TERM; while :; do sleep 1; done) & (setsid sleep 1000) & wait'
  create_and_start
  local group
  group=$(cgroup_of pids)
  [ -n "$group" ] || group=$(cgroup_of unified)
  wait_for 5 sh -c "[ \$(wc -l < $group/cgroup.procs) -ge 3 ]"
  local pids
  pids=$(cat "$group/cgroup.procs")
  run agentrun delete --force "$ID"
  assert_success
  local pid
  for pid in $pids; do gone "$pid" || fail "process $pid is still there"; done
}

@test "delete --force of a container that does not exist succeeds, delete does not" {
  run agentrun delete --force nosuch
  assert_success
  run agentrun delete nosuch
  assert_error "does not exist"
}

@test "state, kill and start of a container that does not exist say so" {
  run agentrun state nosuch
  assert_error "does not exist"
  run agentrun kill nosuch KILL
  assert_error "does not exist"
  run agentrun start nosuch
  assert_error "does not exist"
}

@test "kill takes numbers and names, with and without SIG" {
  program 'for s in USR1 USR2 HUP INT; do trap "echo $s >> /signals" $s; done; echo up > /up; while :; do sleep 0.05; done'
  create_and_start
  wait_for 5 test -e "$BUNDLE/rootfs/up"
  local signal
  for signal in 10 SIGUSR2 hup INT; do
    run agentrun kill "$ID" "$signal"
    assert_success
    sleep 0.3
  done
  assert_equal "$(tr '\n' ' ' < "$BUNDLE/rootfs/signals")" "USR1 USR2 HUP INT "
}

@test "kill sends TERM by default" {
  wait_program
  create_and_start
  sleep 0.3
  run agentrun kill "$ID"
  assert_success
  wait_for 5 has_status stopped
}

@test "kill of a created container" {
  create
  run agentrun kill "$ID" KILL
  assert_success
  wait_for 5 has_status stopped
}

@test "kill of a stopped container says that it is not running" {
  program true
  create_and_start
  wait_for 5 has_status stopped
  run agentrun kill "$ID" TERM
  assert_error "container not running"
}

@test "kill with a signal that is none" {
  wait_program
  create_and_start
  run agentrun kill "$ID" NOSUCH
  assert_error signal
  run agentrun kill "$ID" 1000
  assert_error signal
  has_status running
}

@test "kill --all reaches every process" {
  program 'trap "" TERM; (trap "echo child > /child; exit" TERM; while :; do sleep 0.05; done) & echo up > /up; while :; do sleep 0.1; done'
  create_and_start
  wait_for 5 test -e "$BUNDLE/rootfs/up"
  sleep 0.3
  run agentrun kill --all "$ID" TERM
  assert_success
  wait_for 5 test -e "$BUNDLE/rootfs/child"
}

@test "list shows containers as table, ids and JSON" {
  wait_program
  create_and_start
  run agentrun list
  assert_success
  assert_matches '^ID +PID +STATUS'
  assert_contains "$ID"
  run agentrun list --quiet
  assert_output "$ID"
  run agentrun list --format json
  assert_equal "$(jq -r '.[0].id' <<< "$output")" "$ID"
  assert_equal "$(jq -r '.[0].status' <<< "$output")" running
  assert_equal "$(jq -r '.[0].bundle' <<< "$output")" "$BUNDLE"
}

@test "list of an empty root" {
  run agentrun list --quiet
  assert_success
  assert_output ""
  run agentrun list --format json
  assert_success
  assert_matches '^(null|\[ *\])$'
}

@test "a relative bundle path becomes absolute in the state" {
  wait_program
  cd "$BUNDLE/.."
  detached agentrun create --bundle "$(basename "$BUNDLE")" "$ID"
  assert_success
  assert_equal "$(state_of .bundle)" "$BUNDLE"
}

@test "annotations are in the state" {
  config '.annotations = {"org.example.key": "a value", "empty": ""}'
  create
  assert_success
  assert_equal "$(state_of '.annotations["org.example.key"]')" "a value"
}

@test "an ended container is stopped, not gone" {
  program true
  create_and_start
  wait_for 5 has_status stopped
  run agentrun list --quiet
  assert_output "$ID"
  run agentrun delete "$ID"
  assert_success
  assert_clean
}

@test "an id may be used again after delete" {
  program true
  local _
  for _ in 1 2 3; do
    run_bundle
    assert_success
  done
}

@test "the working directory and umask of the caller do not matter" {
  program 'pwd; umask'
  cd /tmp
  umask 0777
  run_bundle
  umask 0022
  assert_success
  assert_line /
  assert_line 0022
}

@test "no file descriptor of the caller reaches the program" {
  program 'ls /proc/self/fd | tr "\n" " "'
  # 7 and 11 are leaks of a careless engine; ls itself opens 3.
  run agentrun run --bundle "$BUNDLE" "$ID" < /dev/null 7< /etc/passwd 11< /
  assert_success
  assert_output "0 1 2 3 "
}

@test "--preserve-fds hands on exactly so many" {
  program 'cat <&3; ls /proc/self/fd | tr "\n" " "'
  echo "third" > "$BUNDLE/three"
  status=0
  timeout 30 "$RUNTIME" --root "$ROOT" ${IS_AGENTRUN:+--policy oci} run --preserve-fds 1 --bundle "$BUNDLE" "$ID" \
    3< "$BUNDLE/three" 4< /etc/passwd > "$LOG" 2>&1 < /dev/null || status=$?
  output=$(cat "$LOG")
  assert_success
  assert_line third
  assert_contains "0 1 2 3 4 "
  refute_contains "5"
}

@test "run in the background forwards signals" {
  program 'trap "echo got; exit 9" TERM; echo up > /up; while :; do sleep 0.05; done'
  "$RUNTIME" --root "$ROOT" ${IS_AGENTRUN:+--policy oci} run --bundle "$BUNDLE" "$ID" > "$LOG" 2>&1 < /dev/null 3>&- &
  local pid=$!
  wait_for 5 test -e "$BUNDLE/rootfs/up"
  sleep 0.2
  kill -TERM "$pid"
  status=0
  wait "$pid" || status=$?
  output=$(cat "$LOG")
  assert_status 9
  assert_contains got
}

@test "pause and resume" {
  [ -n "$IS_AGENTRUN" ] && ! agentrun --help 2>&1 | grep -qw pause && skip "pause is not there yet"
  program 'while :; do date +%s%N > /beat; sleep 0.02; done'
  create_and_start
  wait_for 5 test -s "$BUNDLE/rootfs/beat"
  run agentrun pause "$ID"
  assert_success
  has_status paused
  local before
  before=$(cat "$BUNDLE/rootfs/beat")
  sleep 0.3
  assert_equal "$(cat "$BUNDLE/rootfs/beat")" "$before"
  run agentrun resume "$ID"
  assert_success
  has_status running
  wait_for 5 sh -c "[ \"\$(cat $BUNDLE/rootfs/beat)\" != '$before' ]"
}

@test "--log-format json: one object, and the file is truncated first" {
  skip_unless_agentrun
  local _
  for _ in 1 2; do
    run agentrun --log "$BUNDLE/log" --log-format json state nosuch
    assert_status 1
    assert_equal "$(wc -l < "$BUNDLE/log")" 1
    jq -e '.level == "error" and (.time | length > 18) and (.msg | contains("does not exist"))' "$BUNDLE/log"
  done
}

@test "nothing on stderr on success, nor in the log" {
  program true
  status=0
  agentrun --log "$BUNDLE/log" --log-format json create --bundle "$BUNDLE" "$ID" > "$LOG" 2>&1 < /dev/null || status=$?
  output=$(cat "$LOG")
  assert_success
  assert_output ""
  [ ! -s "$BUNDLE/log" ]
}
