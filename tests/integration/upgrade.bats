load helpers

# The binary that makes the containers is a copy, which is replaced as a package manager does it: by rename.
setup() {
  stage
  INSTALLED=$SCRATCH/agentrun-installed.$ID
  cp "$RUNTIME" "$INSTALLED"
  NEW=$RUNTIME
  RUNTIME=$INSTALLED
}
teardown() {
  delete_all
  rm -f "$INSTALLED"
  RUNTIME=$NEW
  assert_clean
  rm -rf "$BUNDLE" "$LOG" "$ROOT"
}

upgrade() {
  cp "$NEW" "$INSTALLED.new"
  printf x >> "$INSTALLED.new" # another file, with other bytes, as a new release is
  mv "$INSTALLED.new" "$INSTALLED"
}

@test "a running container does not notice, and every command goes on" {
  program 'trap "echo term > /term; exit 7" TERM; echo up > /up; while :; do sleep 0.05; done'
  create_and_start
  wait_for 20 test -e "$BUNDLE/rootfs/up"
  local pid
  pid=$(pid_of)
  upgrade
  has_status running
  assert_equal "$(pid_of)" "$pid"
  run agentrun exec "$ID" echo from the new one
  assert_output "from the new one"
  run agentrun ps --format json "$ID"
  assert_success
  jq -e --argjson pid "$pid" 'index($pid) != null' <<< "$output"
  agentrun pause "$ID"
  has_status paused
  agentrun resume "$ID"
  run agentrun kill "$ID" TERM
  assert_success
  wait_for 20 has_status stopped
  assert_file "$BUNDLE/rootfs/term"
  run agentrun delete "$ID"
  assert_success
  assert_clean
}

@test "a container that waits for start is started by the new one" {
  program 'echo started > /started'
  create
  assert_success
  upgrade
  start
  assert_success
  wait_for 20 test -e "$BUNDLE/rootfs/started"
}

@test "a strict container keeps its supervisor and its policy" {
  skip_unless_agentrun
  wait_program
  detached strict run --detach --bundle "$BUNDLE" "$ID"
  assert_success
  upgrade
  run strict exec "$ID" sh -c 'grep -c NoNewPrivs:.1 /proc/self/status; touch /x 2>&1'
  assert_line 1
  assert_contains "Read-only"
  run strict delete --force "$ID"
  assert_success
  assert_clean
}

@test "a state of a newer format is refused with a sentence, and only its own container" {
  skip_unless_agentrun
  wait_program
  create_and_start
  local state=$ROOT/$ID/state.json
  cp "$state" "$SCRATCH/state.$ID"
  jq -c '.format = 999' "$SCRATCH/state.$ID" > "$state"
  run agentrun state "$ID"
  assert_error "newer"
  run agentrun kill "$ID" KILL
  assert_error "newer"
  run agentrun list --quiet
  assert_output "$ID"
  cp "$SCRATCH/state.$ID" "$state"
  has_status running
}

@test "delete --force ends a container whose state is of a newer format" {
  skip_unless_agentrun
  wait_program
  create_and_start
  local pid state=$ROOT/$ID/state.json
  pid=$(pid_of)
  jq -c '.format = 999' "$state" > "$SCRATCH/state.$ID"
  cp "$SCRATCH/state.$ID" "$state"
  run agentrun delete --force "$ID"
  assert_success
  wait_for 20 gone "$pid"
  assert_clean
}

@test "a state of an older release, without the fields that came since, is read" {
  skip_unless_agentrun
  wait_program
  create_and_start
  local state=$ROOT/$ID/state.json
  jq -c 'del(.console, .killPending, .unknown) | .laterAddition = {"a": 1}' "$state" > "$SCRATCH/state.$ID"
  cp "$SCRATCH/state.$ID" "$state"
  has_status running
  run agentrun exec "$ID" echo still
  assert_output still
  run agentrun kill "$ID" KILL
  assert_success
  wait_for 20 has_status stopped
}
