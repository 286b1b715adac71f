# agentrun under Podman of an ordinary user, in the machine of tests/vm: the engine calls the runtime as root of the user's
# own user namespace. The user has lingering, thus a systemd of his own, and ranges in /etc/subuid.
bats_require_minimum_version 1.5.0

IMAGE=localhost/python
OWNER=tester

setup_file() {
  loginctl enable-linger "$OWNER"
  local _
  for _ in $(seq 300); do [ -S "/run/user/$(id -u "$OWNER")/bus" ] && break; sleep 0.2; done
  [ -S "/run/user/$(id -u "$OWNER")/bus" ] || { echo "no bus of the user" >&2; return 1; }
  # pasta gives the container a copy of the interface with the default route.
  ip link add uplink type dummy || ip link add uplink type veth peer name uplink2
  ip address add 192.0.2.2/24 dev uplink
  ip link set uplink up
  [ ! -e /sys/class/net/uplink2 ] || ip link set uplink2 up
  ip route add default via 192.0.2.1 dev uplink
  engine import /test/python.tar "$IMAGE" > /dev/null
}

setup() {
  NAME=t$BATS_TEST_NUMBER.$RANDOM
}

teardown() {
  engine rm -f -t 0 "$NAME" > /dev/null 2>&1 || true
  [ -z "${POD:-}" ] || engine pod rm -f -t 0 "$POD" > /dev/null 2>&1 || true
  local left
  left=$(find "/run/user/$(id -u "$OWNER")/agentrun" -mindepth 1 -maxdepth 1 -type d ! -name '.*')
  [ -z "$left" ] || { echo "state is left: $left" >&2; return 1; }
}

as_user() {
  local run=/run/user/$(id -u "$OWNER")
  setpriv --reuid "$OWNER" --regid "$OWNER" --init-groups env -i -C "/home/$OWNER" "PATH=$PATH" "HOME=/home/$OWNER" USER=$OWNER \
    "XDG_RUNTIME_DIR=$run" "DBUS_SESSION_BUS_ADDRESS=unix:path=$run/bus" \
    ${CONTAINERS_CONF_OVERRIDE:+"CONTAINERS_CONF_OVERRIDE=$CONTAINERS_CONF_OVERRIDE"} "$@" 3>&- < /dev/null
}
engine() { as_user timeout 120 podman --log-level=error --runtime=agentrun ${MANAGER:+--cgroup-manager=$MANAGER} ${POLICY:+--runtime-flag=policy=$POLICY} "$@"; }

fail() {
  printf '%s\n' "$@" >&2
  printf 'status %s, output:\n%s\n' "${status:-?}" "${output:-}" >&2
  return 1
}
assert_status() { [ "$status" -eq "$1" ] || fail "expected status $1"; }
assert_output() { [ "$output" = "$1" ] || fail "expected: $1"; }
assert_line() { grep -qxF -- "$1" <<< "$output" || fail "no line: $1"; }
assert_matches() { grep -qE -- "$1" <<< "$output" || fail "does not match: $1"; }

wait_for() { # COMMAND...: at most 60 s
  local _
  for _ in $(seq 300); do "$@" > /dev/null 2>&1 && return; sleep 0.2; done
  fail "not within 60 s: $*"
}
has_state() { [ "$(engine inspect --format '{{.State.Status}}' "$NAME")" = "$1" ]; }
has_log() { engine logs "$NAME" 2>&1 | grep -q "$1"; }

@test "run under the strict policy: output, exit code, no rights, limits in a cgroup of the user" {
  run engine run --network=none --name "$NAME" "$IMAGE" sh -c 'id -u; grep -E "CapEff|NoNewPrivs" /proc/self/status; cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/pids.max; exit 7'
  assert_status 7
  assert_line 0
  assert_matches '^CapEff:\s0000000000000000$'
  assert_matches '^NoNewPrivs:\s1$'
  assert_line 536870912
  assert_line 128
}

@test "-d, exec, stop, rm; the cgroup is below the user's own systemd" {
  run engine run -d --network=none --name "$NAME" "$IMAGE" sh -c 'trap "exit 3" TERM; echo ready; while :; do sleep 0.2; done'
  assert_status 0
  wait_for has_log ready
  local pid
  pid=$(engine inspect --format '{{.State.Pid}}' "$NAME")
  run cat "/proc/$pid/cgroup"
  assert_matches "user@$(id -u "$OWNER").service/"
  run engine exec "$NAME" sh -c 'echo inside $(id -u); grep CapEff /proc/self/status'
  assert_status 0
  assert_line "inside 0"
  assert_matches '0000000000000000$'
  run engine stop -t 30 "$NAME"
  assert_status 0
  wait_for has_state exited
  run engine inspect --format '{{.State.ExitCode}}' "$NAME"
  assert_output 3
  run engine rm "$NAME"
  assert_status 0
}

@test "a pod: containers in it share its network and end with it" {
  POD=p$RANDOM
  export POLICY=oci
  run engine pod create --name "$POD" --infra-command "sleep 1000" --infra-image "$IMAGE"
  assert_status 0
  run engine run -d --pod "$POD" --name "$NAME" "$IMAGE" sleep 1000
  assert_status 0
  run engine run --rm --pod "$POD" "$IMAGE" readlink /proc/self/ns/net
  assert_status 0
  [ "$output" = "$(engine exec "$NAME" readlink /proc/self/ns/net)" ] || fail "not the network of the pod"
  run engine pod rm -f -t 0 "$POD"
  assert_status 0
}

@test "keep-id: the user has his own id inside, and a volume is his" {
  export POLICY=oci
  local own
  own=$(id -u "$OWNER")
  as_user mkdir -p "/home/$OWNER/volume"
  run engine run --network=none --userns=keep-id -v "/home/$OWNER/volume:/data" --name "$NAME" "$IMAGE" sh -c 'id -u; touch /data/mine; stat -c %u /data/mine'
  assert_status 0
  assert_output "$own"$'\n'"$own"
  [ "$(stat -c %u "/home/$OWNER/volume/mine")" = "$own" ] || fail "the file is not the user's"
  engine rm "$NAME" > /dev/null
  run engine run -d --network=none --userns=keep-id --name "$NAME" "$IMAGE" sleep 1000
  assert_status 0
  run engine exec "$NAME" id -u
  assert_output "$own"
}

@test "keep-id under strict" {
  run engine run --network=none --userns=keep-id --name "$NAME" "$IMAGE" sh -c 'id -u; grep CapEff /proc/self/status; touch /x'
  assert_line "$(id -u "$OWNER")"
  assert_matches '^CapEff:\s0000000000000000$'
  assert_matches 'Read-only file system|Permission denied'
}

@test "pasta: an interface under oci, with keep-id too; under strict only lo" {
  POLICY=oci run engine run --rm --network=pasta "$IMAGE" sh -c 'tail -n +3 /proc/net/dev | cut -d: -f1'
  assert_status 0
  assert_matches 'uplink'
  POLICY=oci run engine run --rm --network=pasta --userns=keep-id "$IMAGE" sh -c 'tail -n +3 /proc/net/dev | cut -d: -f1'
  assert_status 0
  assert_matches 'uplink'
  run engine run --rm --network=pasta "$IMAGE" sh -c 'tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d " "'
  assert_status 0
  assert_output lo
}

@test "a published port reaches the container under oci" {
  export POLICY=oci
  local serve='import socket
s = socket.create_server(("0.0.0.0", 8080))
print("ready", flush=True)
while True:
    c, _ = s.accept()
    c.sendall(b"greetings\n")
    c.close()'
  run engine run -d --network=pasta -p 127.0.0.1:18080:8080 --name "$NAME" "$IMAGE" python3 -c "$serve"
  assert_status 0
  wait_for has_log ready
  reply() { [ "$(exec 3<> /dev/tcp/127.0.0.1/18080 && timeout 10 head -n 1 <&3)" = greetings ]; }
  wait_for reply
}

@test "--device is bound" {
  export POLICY=oci
  run engine run --network=none --device /dev/fuse --name "$NAME" "$IMAGE" sh -c 'stat -c "%F %t:%T" /dev/fuse; : > /dev/null && echo null'
  assert_status 0
  assert_line "character special file a:e5"
  assert_line null
}

@test "a limit of Podman's is in the cgroup" {
  export POLICY=oci
  run engine run --network=none --memory 64m --pids-limit 33 --name "$NAME" "$IMAGE" cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/pids.max
  assert_status 0
  assert_output $'67108864\n33'
}

@test "the deadline kills it" {
  run engine run --network=none --annotation org.agentrun.deadline=5s --name "$NAME" "$IMAGE" sleep 600
  assert_status 137
}

@test "the manager cgroupfs" {
  export POLICY=oci MANAGER=cgroupfs
  run engine run --network=none --name "$NAME" "$IMAGE" echo here
  assert_status 0
  assert_output here
}

@test "--cgroups=disabled: oci runs, strict refuses and says how to get limits" {
  # Podman asks only runtimes that its configuration says can.
  printf '[engine]\nruntime_supports_nocgroups = ["agentrun"]\n' > "$BATS_TEST_TMPDIR/containers.conf"
  chmod 0755 "$BATS_TEST_TMPDIR"
  export CONTAINERS_CONF_OVERRIDE=$BATS_TEST_TMPDIR/containers.conf
  POLICY=oci run engine run --network=none --cgroups=disabled --rm "$IMAGE" echo here
  assert_status 0
  assert_output here
  run engine run --network=none --cgroups=disabled --name "$NAME" "$IMAGE" echo here
  assert_status 126
  assert_matches 'cgroup.memory: no memory controller'
}

@test "agentrun sandbox and run, called by the user himself" {
  run as_user agentrun sandbox -- sh -c 'id -u; grep CapEff /proc/self/status; cat /proc/self/cgroup'
  assert_status 0
  assert_line "$(id -u "$OWNER")"
  assert_matches '^CapEff:\s0000000000000000$'
}
