# agentrun under Debian's containerd: io.containerd.runc.v2 with BinaryName, by `ctr`. Each test runs under the policies
# `oci` and `strict` (the default). In the machine of tests/vm. Not in CI's run: `./quickstart engines` runs it.
load podman-helpers

OCI=/usr/local/bin/agentrun-oci

setup_file() {
  printf '#!/bin/sh\nexec /usr/bin/agentrun --policy oci "$@"\n' > "$OCI"
  chmod +x "$OCI"
  systemd-run --quiet --unit=containerd-test --property=Delegate=yes --property=KillMode=process --property=LimitNOFILE=65536 containerd
  podman --log-level=error import /test/python.tar "$IMAGE" > /dev/null
  podman --log-level=error save -q --format oci-archive -o "$BATS_FILE_TMPDIR/image.tar" "$IMAGE" > /dev/null
  wait_for 120 ctr version
  ctr images import "$BATS_FILE_TMPDIR/image.tar" > /dev/null
  # Something of what Podman called it.
  CTR_IMAGE=$(ctr images ls -q | head -1)
  export CTR_IMAGE
}
teardown_file() {
  systemctl stop containerd-test.service
  rm -f "$OCI"
}

setup() {
  NAME=t$BATS_TEST_NUMBER.$RANDOM
  RUNTIME=/usr/bin/agentrun
}
teardown() {
  local id
  for id in $(ctr containers ls -q); do
    ctr task kill -s KILL "$id" > /dev/null 2>&1 || true
    wait_for 30 ctr task delete -f "$id" || true
    ctr containers delete "$id" > /dev/null 2>&1 || true
  done
  wait_for 30 clean "$NAME" || { left "$NAME" >&2; return 1; }
}

# What containerd, its shim and the runtime may not leave. The report of a container outlives it.
left() {
  find /run/containerd/runc -name .reports -prune -o -name "*$1*" -print 2> /dev/null
  find /run/containerd/io.containerd.runtime.v2.task /sys/fs/cgroup -name "*$1*" 2> /dev/null
  grep "$1" /proc/self/mountinfo
  pgrep -af "containerd-shim.*$1"
  return 0
}
clean() { [ -z "$(left "$1")" ]; }

run_ctr() { ctr run --runc-binary "$RUNTIME" "$@" < /dev/null 3>&-; }
detached() { # OPTIONS... -- COMMAND...
  local options=()
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  run run_ctr -d "${options[@]}" "$CTR_IMAGE" "$NAME" "$@"
  assert_status 0
}
task_is() { ctr task ls | grep -qE "^$NAME +[0-9]+ +$1"; }
pid_of() { ctr task ls | awk -v id="$NAME" '$1 == id { print $2 }'; }
cgroup_of() { echo "/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$(pid_of)/cgroup")"; }

under_each() { # FUNCTION
  local base=$NAME
  RUNTIME=$OCI NAME=$base.oci
  "$1" oci || return 1
  RUNTIME=/usr/bin/agentrun NAME=$base.strict
  "$1" strict || return 1
  NAME=$base
}

output_and_codes() {
  run run_ctr --rm "$CTR_IMAGE" "$NAME" python3 -c 'print(6 * 7); raise SystemExit(9)'
  assert_status 9
  assert_output 42
  # PID 1 cannot kill itself.
  run run_ctr --rm "$CTR_IMAGE" "$NAME" /bin/sh -c 'sleep 1000 & kill -9 $!; wait $!'
  assert_status 137
  run run_ctr --rm "$CTR_IMAGE" "$NAME" no-such-program
  assert_status 1
  assert_matches 'OCI runtime create failed.*no-such-program.*not found'
  wait_for 30 clean "$NAME"
}
@test "ctr run --rm: output, exit codes, a program that is not there" { under_each output_and_codes; }

stdin_to_its_end() {
  # ctr tells its shim of the end only where that comes after the task is there, whatever the runtime.
  local feed="seq 20000; until ctr task ls | grep -q '^$NAME .*RUNNING'; do sleep 0.2; done"
  run outside sh -c "{ $feed; } | timeout 120 ctr run --rm --runc-binary $RUNTIME $CTR_IMAGE $NAME wc -l"
  assert_status 0
  assert_output 20000
}
@test "standard input, to its end" { under_each stdin_to_its_end; }

terminal() {
  run in_terminal ctr run --rm -t --runc-binary "$RUNTIME" "$CTR_IMAGE" "$NAME" python3 -c '"import os; print(os.isatty(0), os.ttyname(0))"'
  assert_status 0
  assert_matches 'True /dev/(pts/0|console)'
}
@test "a terminal" { under_each terminal; }

life() {
  detached -- sleep 1000
  wait_for 30 task_is RUNNING
  run outside ctr task exec --exec-id one "$NAME" sh -c 'echo from exec; exit 5'
  assert_status 5
  assert_output "from exec"
  run in_terminal ctr task exec -t --exec-id two "$NAME" tty
  assert_matches '/dev/pts/'
  run ctr task ps "$NAME"
  assert_matches "^$(pid_of) "
  run ctr task pause "$NAME"
  assert_status 0
  task_is PAUSED
  grep -qx 'frozen 1' "$(cgroup_of)/cgroup.events"
  run ctr task resume "$NAME"
  assert_status 0
  task_is RUNNING
  run ctr task metrics --format json "$NAME"
  assert_status 0
  jq -e '.memory.usage > 0 and .pids.current > 0' <<< "$output" > /dev/null || fail "metrics"
  run ctr task kill -s TERM "$NAME"
  assert_status 0
  # PID 1 without a handler takes no TERM.
  run ctr task kill -s KILL "$NAME"
  assert_status 0
  wait_for 30 task_is STOPPED
  run ctr task delete "$NAME"
  # ctr ends with the task's status.
  assert_status 137
  run ctr containers delete "$NAME"
  assert_status 0
  wait_for 30 clean "$NAME"
}
@test "run -d, exec, exec -t, ps, pause, resume, metrics, kill, delete" { under_each life; }

limits() {
  detached --memory-limit 67108864 --cpus 0.5 -- sleep 1000
  assert_equal "$(cat "$(cgroup_of)/memory.max")" 67108864
  assert_equal "$(cat "$(cgroup_of)/cpu.max")" "50000 100000"
}
@test "limits" { under_each limits; }

@test "strict is strict: no capability, no network, a read-only root, the caller's environment cut" {
  run run_ctr --rm --env API_TOKEN=leak "$CTR_IMAGE" "$NAME" sh -c 'grep -E "CapEff|NoNewPrivs|Seccomp:" /proc/self/status; tail -n +3 /proc/net/dev | cut -d: -f1; env; touch /etc/x'
  assert_matches 'CapEff:[[:space:]]0000000000000000'
  assert_matches 'NoNewPrivs:[[:space:]]1'
  assert_matches 'Seccomp:[[:space:]]2'
  refute_matches leak
  assert_matches 'Read-only'
}

@test "strict: --net-host gives only lo, --privileged nothing" {
  run run_ctr --rm --net-host --privileged "$CTR_IMAGE" "$NAME" sh -c 'tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d " "; grep CapEff /proc/self/status; ls /dev'
  assert_status 0
  assert_line lo
  assert_matches 'CapEff:[[:space:]]0000000000000000'
  refute_matches '^(vda|kmsg|mem)$'
}

@test "strict: a mount of the host's root is refused with a sentence" {
  run run_ctr --rm --mount type=bind,src=/,dst=/host,options=rbind:ro "$CTR_IMAGE" "$NAME" ls /host
  assert_status 1
  assert_matches 'OCI runtime create failed.*/mounts/[0-9]+'
}

@test "systemd's cgroups" {
  RUNTIME=$OCI
  detached --runc-systemd-cgroup --cgroup "system.slice:ctr:$NAME" -- sleep 1000
  assert_equal "$(cgroup_of)" "/sys/fs/cgroup/system.slice/ctr-$NAME.scope"
  assert_equal "$(systemctl show --value -p ActiveState "ctr-$NAME.scope")" active
}

@test "five at once, and nothing is left: neither state nor shim nor cgroup" {
  local n pids=()
  for n in 1 2 3 4 5; do
    run_ctr --rm "$CTR_IMAGE" "$NAME.$n" echo "$n" > "$BATS_TEST_TMPDIR/$n" 2>&1 &
    pids+=($!)
  done
  for n in 1 2 3 4 5; do
    wait "${pids[$((n - 1))]}" || fail "$(cat "$BATS_TEST_TMPDIR/$n")"
    assert_equal "$(cat "$BATS_TEST_TMPDIR/$n")" "$n"
  done
  no_shim() { ! pgrep -f containerd-shim && [ -z "$(find /run/containerd/runc -mindepth 2 -maxdepth 2)" ]; }
  wait_for 30 no_shim
}
