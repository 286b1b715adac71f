# agentrun under a real engine, in the machine of tests/vm: `podman run --runtime=agentrun`. Rootful.
bats_require_minimum_version 1.5.0

IMAGE=localhost/python
AUDIT=/var/log/agentrun/audit.jsonl

setup_file() {
  podman --log-level=error import /test/python.tar "$IMAGE" > /dev/null
}

setup() {
  NAME=t$BATS_TEST_NUMBER.$RANDOM
}

teardown() {
  podman rm -f -t 0 "$NAME" > /dev/null 2>&1 < /dev/null || true
  # Nothing of the container is left: neither state nor cgroup nor process. conmon and the cleanup that it starts may
  # still be at work.
  local id _
  for id in $(cat "$BATS_TEST_TMPDIR/ids" 2> /dev/null); do
    for _ in $(seq 150); do
      [ -e "/run/agentrun/$id" ] || [ -n "$(find /sys/fs/cgroup -type d -name "*$id*")" ] || break
      sleep 0.2
    done
    [ ! -e "/run/agentrun/$id" ] || { echo "state of $id is left" >&2; return 1; }
    [ -z "$(find /sys/fs/cgroup -type d -name "*$id*")" ] || { echo "a cgroup of $id is left" >&2; return 1; }
  done
}

fail() {
  printf '%s\n' "$@" >&2
  printf 'status %s, output:\n%s\n' "${status:-?}" "${output:-}" >&2
  return 1
}
assert_status() { [ "$status" -eq "$1" ] || fail "expected status $1"; }
assert_output() { [ "$output" = "$1" ] || fail "expected: $1"; }
assert_line() { grep -qxF -- "$1" <<< "$output" || fail "no line: $1"; }
assert_matches() { grep -qE -- "$1" <<< "$output" || fail "does not match: $1"; }
refute_matches() { ! grep -qE -- "$1" <<< "$output" || fail "matches: $1"; }

# --network=none: Podman's own set-up of a network that the container does not get is wasted time. --init-path and the
# like are left at their defaults: this is how people call it.
run_podman() {
  podman --log-level=error run --runtime=agentrun --network=none --name "$NAME" "$@" 3>&- < /dev/null
}
detached() { # OPTIONS IMAGE COMMAND...
  run run_podman -d "$@"
  assert_status 0
  echo "$output" >> "$BATS_TEST_TMPDIR/ids"
}
# File descriptor 3 is bats' own: whoever keeps it open makes bats wait. Closed for the program, not for `run`, which
# tells there of its own failure.
outside() { "$@" 3>&- < /dev/null; }
in_terminal() { script --quiet --return --command "$*" /dev/null < /dev/null 3>&-; }

# Podman lets its client go before its cleanup process has turned "stopped" into "exited", and `podman wait` returns for
# either: so the state is asked for, with a bound.
wait_for_state() { # STATE
  local _
  for _ in $(seq 150); do
    [ "$(podman inspect --format '{{.State.Status}}' "$NAME" 2> /dev/null)" = "$1" ] && return
    sleep 0.2
  done
  fail "not $1 but $(podman inspect --format '{{.State.Status}}' "$NAME")"
}
wait_for_log() { # TEXT
  local _
  for _ in $(seq 150); do
    podman logs "$NAME" 2>&1 | grep -q "$1" && return
    sleep 0.2
  done
  fail "no '$1' in: $(podman logs "$NAME" 2>&1)"
}

@test "agentrun is registered, and the host's default runtime is what it was" {
  run podman info --format '{{.Host.OCIRuntime.Name}}'
  assert_output crun
  run podman --runtime=agentrun info --format '{{.Host.OCIRuntime.Name}} {{.Host.OCIRuntime.Version}}'
  assert_matches '^agentrun.* version'
  run cat /etc/containers/containers.conf.d/*agentrun* /usr/share/containers/containers.conf.d/*agentrun* 2> /dev/null
  assert_matches 'agentrun *= *\['
  assert_matches 'runtime_supports_json'
  refute_matches '^ *runtime *='
}

@test "run --rm: a Python snippet prints its result" {
  run run_podman --rm "$IMAGE" python3 -c 'import json; print(json.dumps([n * n for n in range(5)]))'
  assert_status 0
  assert_output "[0, 1, 4, 9, 16]"
}

@test "exit codes 0, 1 and 42" {
  local code
  for code in 0 1 42; do
    run run_podman --rm "$IMAGE" sh -c "exit $code"
    assert_status $code
  done
}

@test "exit code 125: an error of Podman itself" {
  run run_podman --rm --no-such-option "$IMAGE" true
  assert_status 125
}

@test "exit codes 126 and 127: what cannot be run, what is not there" {
  run run_podman --rm "$IMAGE" /etc
  assert_status 126
  run run_podman --rm "$IMAGE" /etc/passwd
  assert_status 126
  run run_podman --rm "$IMAGE" nosuchprogram
  assert_status 127
  assert_matches 'executable file .*not found in \$PATH'
  run run_podman --rm "$IMAGE" /no/such/program
  assert_status 127
}

@test "run -it: a terminal" {
  run in_terminal podman --log-level=error run --runtime=agentrun --network=none --rm -it --name "$NAME" "$IMAGE" \
    python3 -c '"import os; print(os.isatty(0), os.isatty(1), os.ttyname(0))"'
  assert_status 0
  assert_matches 'True True /dev/(pts/0|console)'
}

@test "exec and exec -it" {
  detached "$IMAGE" sleep 1000
  run outside podman exec "$NAME" python3 -c 'import os; print(os.getuid()); raise SystemExit(7)'
  assert_status 7
  assert_line 0
  run in_terminal podman exec -it "$NAME" python3 -c '"import os; print(os.isatty(0))"'
  assert_status 0
  assert_matches True
}

@test "exec: exit codes 126 and 127" {
  detached "$IMAGE" sleep 1000
  run outside podman exec "$NAME" nosuchprogram
  assert_status 127
  run outside podman exec "$NAME" /etc
  assert_status 126
}

@test "exec is as strict as the container" {
  detached "$IMAGE" sleep 1000
  run outside podman exec --privileged -e API_TOKEN=leak "$NAME" sh -c 'grep -E "CapEff|NoNewPrivs|Seccomp:" /proc/self/status; env; touch /etc/x'
  assert_matches 'CapEff:[[:space:]]+0000000000000000'
  assert_matches 'NoNewPrivs:[[:space:]]+1'
  assert_matches 'Seccomp:[[:space:]]+2'
  refute_matches leak
  assert_matches 'Read-only'
}

@test "logs" {
  detached "$IMAGE" sh -c 'echo to stdout; echo to stderr >&2'
  wait_for_state exited
  run podman logs "$NAME"
  assert_line "to stdout"
  assert_line "to stderr"
}

@test "kill: 137, and by another signal" {
  detached "$IMAGE" sleep 1000
  run podman kill "$NAME"
  assert_status 0
  wait_for_state exited
  run podman inspect --format '{{.State.ExitCode}}' "$NAME"
  assert_output 137
}

@test "stop: TERM first, and the program's own exit code" {
  detached "$IMAGE" python3 -c 'import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
print("ready", flush=True)
while True: time.sleep(0.1)'
  wait_for_log ready
  run podman stop -t 20 "$NAME"
  assert_status 0
  wait_for_state exited
  run podman inspect --format '{{.State.ExitCode}}' "$NAME"
  assert_output 9
}

@test "stop: KILL after the timeout" {
  detached "$IMAGE" sh -c 'trap "" TERM; echo ready; while :; do sleep 1; done'
  wait_for_log ready
  run podman stop -t 1 "$NAME"
  assert_status 0
  wait_for_state exited
  run podman inspect --format '{{.State.ExitCode}}' "$NAME"
  assert_output 137
}

@test "rm -f of a running container" {
  detached "$IMAGE" sleep 1000
  local id pid
  id=$output
  pid=$(podman inspect --format '{{.State.Pid}}' "$NAME")
  run podman rm -f -t 0 "$NAME"
  assert_status 0
  [ ! -e "/proc/$pid" ] || fail "process $pid is still there"
  [ ! -e "/run/agentrun/$id" ] || fail "its state is still there"
}

@test "create, start, wait: each by itself" {
  run outside podman --runtime=agentrun create --network=none --name "$NAME" "$IMAGE" sh -c 'echo ran; exit 3'
  assert_status 0
  run outside podman start "$NAME"
  assert_status 0
  wait_for_state exited
  run podman inspect --format '{{.State.ExitCode}}' "$NAME"
  assert_output 3
  run outside podman start -a "$NAME"
  assert_status 3
  assert_line ran
}

@test "standard input" {
  run outside sh -c "echo from outside | podman --log-level=error run --runtime=agentrun --network=none --rm -i --name $NAME $IMAGE cat"
  assert_status 0
  assert_output "from outside"
}

@test "--memory is seen inside, and cut to the policy's" {
  run run_podman --rm --memory 128m "$IMAGE" sh -c 'cat /sys/fs/cgroup/memory.max'
  assert_status 0
  assert_output $((128 << 20))
  run run_podman --rm --memory 2g "$IMAGE" sh -c 'cat /sys/fs/cgroup/memory.max'
  assert_output $((512 << 20))
}

@test "--memory kills: 137" {
  run run_podman --rm --memory 64m "$IMAGE" python3 -c 'data = bytearray(512 << 20)
for i in range(0, len(data), 4096): data[i] = 1
print("I HAVE IT")'
  assert_status 137
  refute_matches "I HAVE IT"
}

@test "--pids-limit" {
  run run_podman --rm --pids-limit 20 "$IMAGE" cat /sys/fs/cgroup/pids.max
  assert_output 20
}

@test "the default network: only lo, whatever Podman configured" {
  run outside podman --log-level=error run --runtime=agentrun --rm --name "$NAME" "$IMAGE" tail -n +3 /proc/net/dev
  [ "$status" -eq 0 ] || fail "it did not run"
  assert_matches '^ *lo:'
  [ "$(grep -c . <<< "$output")" -eq 1 ] || fail "more than lo"
}

@test "-v of an ordinary directory is read-only" {
  mkdir -p "$BATS_TEST_TMPDIR/data"
  echo content > "$BATS_TEST_TMPDIR/data/file"
  run run_podman --rm -v "$BATS_TEST_TMPDIR/data:/data" "$IMAGE" sh -c 'cat /data/file; touch /data/new'
  assert_line content
  assert_matches 'Read-only'
  [ ! -e "$BATS_TEST_TMPDIR/data/new" ]
}

@test "--userns=auto: only lo, also after start" {
  run outside podman --log-level=error run --runtime=agentrun --userns=auto --rm --name "$NAME" "$IMAGE" sh -c 'cat /proc/self/uid_map; tail -n +3 /proc/net/dev'
  assert_status 0
  refute_matches '^ *0 +0 '
  assert_matches '^ *lo:'
  refute_matches '(eth|tap|veth)[0-9]*:'
}

@test "--env of a secret is not there, an ordinary one by annotation is" {
  run run_podman --rm --env API_TOKEN=leak --env SETTING=kept --annotation org.agentrun.env.keep=SETTING "$IMAGE" env
  assert_status 0
  assert_line SETTING=kept
  refute_matches leak
}

@test "--secret: readable, and nobody writes to it" {
  printf 'open sesame' | podman secret create "$NAME" - > /dev/null
  run run_podman --rm --secret "$NAME" "$IMAGE" sh -c "cat /run/secrets/$NAME; echo; touch /run/secrets/new; echo x > /run/secrets/$NAME"
  podman secret rm "$NAME" > /dev/null
  assert_line "open sesame"
  assert_matches '/run/secrets/new.*Read-only file system'
  assert_matches "create /run/secrets/$NAME: Read-only file system"
}

@test "--user and --workdir" {
  run run_podman --rm --user 1000:1000 --workdir /tmp "$IMAGE" sh -c 'id -u; id -g; pwd; touch here && echo wrote'
  assert_status 0
  assert_output $'1000\n1000\n/tmp\nwrote'
}

@test "the deadline: 137, and the reason in the audit trail" {
  local before=$SECONDS
  run run_podman --annotation org.agentrun.deadline=3s "$IMAGE" python3 -c 'while True: pass'
  assert_status 137
  [ $((SECONDS - before)) -lt 30 ] || fail "took $((SECONDS - before)) s"
  local id
  id=$(podman inspect --format '{{.Id}}' "$NAME")
  output=$(grep "$id" "$AUDIT")
  jq -e -s --arg id "$id" 'map(select(.container == $id and .reason == "deadline")) | length > 0' "$AUDIT" > /dev/null || fail "no such record"
  run podman inspect --format '{{.State.ExitCode}}' "$NAME"
  assert_output 137
}

@test "the deadline of a detached container whose client and conmon are gone" {
  detached --annotation org.agentrun.deadline=6s "$IMAGE" sleep 1000
  local pid conmon _
  pid=$(podman inspect --format '{{.State.Pid}}' "$NAME")
  conmon=$(podman inspect --format '{{.State.ConmonPid}}' "$NAME")
  kill -9 "$conmon"
  for _ in $(seq 200); do [ -e "/proc/$pid" ] || break; sleep 0.1; done
  [ ! -e "/proc/$pid" ] || fail "it still runs"
}

@test "policy explain of the bundle that Podman wrote, and report of the container" {
  detached --memory 2g "$IMAGE" sleep 1000
  local id bundle
  id=$(podman inspect --format '{{.Id}}' "$NAME")
  bundle=$(agentrun --root /run/agentrun state "$id" | jq -r .bundle)
  run agentrun policy explain --bundle "$bundle"
  assert_status 0
  assert_matches '/linux/resources/memory/limit'
  echo "$output" | head -40 | sed 's/^/# /' >&3
  run agentrun report "$id"
  assert_status 0
  assert_matches '536870912|512 ?M'
}

@test "ten containers at once" {
  local n pids=()
  for n in $(seq 10); do
    podman --log-level=error run --runtime=agentrun --network=none --rm --name "$NAME.$n" "$IMAGE" sh -c "echo $n" \
      > "$BATS_TEST_TMPDIR/out.$n" 2>&1 < /dev/null 3>&- &
    pids+=($!)
  done
  for n in $(seq 10); do
    wait "${pids[$((n - 1))]}" || fail "$n: $(cat "$BATS_TEST_TMPDIR/out.$n")"
    [ "$(cat "$BATS_TEST_TMPDIR/out.$n")" = "$n" ] || fail "$n: $(cat "$BATS_TEST_TMPDIR/out.$n")"
  done
}

@test "a pod: containers share what a pod shares" {
  run outside podman pod create --name "$NAME.pod" --infra=false --share ""
  assert_status 0
  run outside podman --log-level=error run --runtime=agentrun --network=none --rm --pod "$NAME.pod" --name "$NAME" "$IMAGE" echo in a pod
  local result=$status text=$output
  podman pod rm -f "$NAME.pod" > /dev/null 2>&1
  status=$result output=$text
  assert_status 0
  assert_output "in a pod"
}

@test "cgroups=disabled is refused under strict: nothing could be enforced" {
  run run_podman --rm --cgroups=disabled "$IMAGE" echo ran
  [ "$status" -ne 0 ] || fail "it ran"
  refute_matches '^ran$'
}

@test "nothing is left of all these containers" {
  podman rm -a -f -t 0 > /dev/null 2>&1
  local _
  # conmon removes what is its own after its container, and Podman's cleanup runs below it.
  for _ in $(seq 300); do [ -z "$(agentrun --root /run/agentrun list --quiet)$(pgrep -x 'agentrun-sup|conmon')" ] && break; sleep 0.2; done
  output=$(agentrun --root /run/agentrun list --quiet)
  [ -z "$output" ] || fail "containers are left"
  output=$(ps -eo pid,comm,args | grep -i agentrun | grep -vE 'bats|grep|guest|agentrun-test' || true)
  [ -z "$output" ] || fail "processes are left"
}
