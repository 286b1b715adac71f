# agentrun under containerd's own shim, io.containerd.runc.v2 with BinaryName: a containerd of this file's own, no image, no
# snapshots. What it takes of a runtime is not in any page; tests/vm/containerd.bats has more, with systemd.
load helpers

setup_file() {
  [ -z "${ROOTLESS:-}" ] || skip "containerd as root only"
  command -v containerd > /dev/null && command -v ctr > /dev/null || skip "containerd is not installed: Debian package containerd"
  export CTR_HOME=$BATS_FILE_TMPDIR/containerd
  mkdir -p "$CTR_HOME"
  cat > "$CTR_HOME/config.toml" << TOML
version = 2
root = "$CTR_HOME/root"
state = "$CTR_HOME/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
address = "$CTR_HOME/socket"
TOML
  containerd --config "$CTR_HOME/config.toml" > "$CTR_HOME/log" 2>&1 < /dev/null 3>&- &
  echo $! > "$CTR_HOME/pid"
  wait_for 60 call version || { cat "$CTR_HOME/log" >&2; return 1; }
  printf '#!/bin/sh\nexec "%s" --policy oci "$@"\n' "$RUNTIME" > "$CTR_HOME/oci"
  printf '#!/bin/sh\nexec "%s" "$@"\n' "$RUNTIME" > "$CTR_HOME/strict"
  chmod +x "$CTR_HOME/oci" "$CTR_HOME/strict"
}

teardown_file() {
  [ ! -e "${CTR_HOME:-}/pid" ] || kill "$(cat "$CTR_HOME/pid")"
}

setup() {
  skip_unless_agentrun
  stage
  NAME=c$BATS_TEST_NUMBER-$RANDOM
}

teardown() {
  call task kill --signal KILL "$NAME" > /dev/null 2>&1
  call task delete --force "$NAME" > /dev/null 2>&1
  call containers delete "$NAME" > /dev/null 2>&1
  wait_for 30 nothing_of "$NAME"
}

# A shim keeps descriptor 3, which is bats' own, if it gets it.
call() { timeout 60 ctr --address "$CTR_HOME/socket" "$@" 3>&- < /dev/null; }
# POLICY: the runtime that containerd calls.
run_task() { # OPTIONS... -- COMMAND...
  local options=()
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  call run --runc-binary "$CTR_HOME/$POLICY" --cgroup "/$TEST_CGROUP/c/$NAME" --rootfs "${options[@]}" "$BUNDLE/rootfs" "$NAME" "$@"
}
in_terminal() { timeout 90 script --quiet --return --command "$*" /dev/null < /dev/null 3>&-; }
is() { call task list | grep -qE "^$NAME +[0-9]+ +$1"; }
nothing_of() {
  [ -z "$(find /run/containerd/runc "$CTR_HOME/state/io.containerd.runtime.v2.task" /sys/fs/cgroup -name .reports -prune -o -name "*$1*" -print 2> /dev/null)" ]
}
under_each() { # FUNCTION
  for POLICY in oci strict; do "$1" || fail "under $POLICY" || return; done
}

output_and_codes() {
  run run_task --rm -- sh -c 'echo out; echo err >&2; exit 9'
  assert_equal "$status" 9
  assert_line out
  assert_line err
  run run_task --rm -- no-such-program
  assert_equal "$status" 1
  assert_matches 'OCI runtime create failed: .*no-such-program'
}
@test "containerd: output, exit codes, a program that is not there" { under_each output_and_codes; }

terminal() {
  run in_terminal ctr --address "$CTR_HOME/socket" run --rm -t --runc-binary "$CTR_HOME/$POLICY" --cgroup "/$TEST_CGROUP/c/$NAME" \
    --rootfs "$BUNDLE/rootfs" "$NAME" tty
  assert_success
  assert_contains /dev/pts/0
}
@test "containerd: a terminal" { under_each terminal; }

life() {
  run run_task -d -- sleep 1000
  assert_success
  wait_for 30 is RUNNING
  run call task exec --exec-id one "$NAME" sh -c 'echo from exec; exit 5'
  assert_equal "$status" 5
  assert_line "from exec"
  run in_terminal ctr --address "$CTR_HOME/socket" task exec -t --exec-id two "$NAME" tty
  assert_contains /dev/pts/
  run call task pause "$NAME"
  assert_success
  is PAUSED || fail "not paused"
  run call task resume "$NAME"
  assert_success
  is RUNNING || fail "not running"
  run call task metrics --format json "$NAME"
  assert_success
  run call task kill --signal KILL "$NAME"
  assert_success
  wait_for 30 is STOPPED
  run call task delete "$NAME"
  assert_equal "$status" 137
  run call containers delete "$NAME"
  assert_success
}
@test "containerd: detached, exec, exec with a terminal, pause, resume, metrics, kill, delete" { under_each life; }

killed_shim() {
  local pid
  run run_task -d -- sleep 1000
  assert_success
  pid=$(call task list | awk -v name="$NAME" '$1 == name { print $2 }')
  kill -9 "$(pgrep -f "containerd-shim-runc-v2 .*-id $NAME ")"
  ended() { [ ! -e "/proc/$pid" ] || grep -q '^State:.*Z' "/proc/$pid/status"; }
  wait_for 60 ended
  wait_for 60 nothing_of "$NAME"
  call containers delete "$NAME"
}
@test "containerd: of a task whose shim was killed nothing is left" { under_each killed_shim; }

# The last one: there is no containerd after it.
@test "containerd: the deadline ends a task that neither shim nor containerd is there for" {
  POLICY=strict
  run run_task -d --annotation org.agentrun.deadline=5s -- sleep 1000
  assert_success
  local root=/run/containerd/runc/default shim
  shim=$(pgrep -f "containerd-shim-runc-v2 .*-id $NAME ")
  kill -9 "$(cat "$CTR_HOME/pid")"
  rm "$CTR_HOME/pid"
  kill -9 "$shim"
  ended() { "$RUNTIME" --root "$root" state "$NAME" | jq -e '.status == "stopped"'; }
  wait_for 60 ended
  assert_equal "$("$RUNTIME" --root "$root" state "$NAME" | jq -r '.annotations["org.agentrun.exit.reason"]')" deadline
  "$RUNTIME" --root "$root" delete "$NAME"
  rm -rf "$CTR_HOME/state/io.containerd.runtime.v2.task"
}
