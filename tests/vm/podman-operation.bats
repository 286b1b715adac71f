# What people do with Podman from day to day, through agentrun under the policy `oci`: rootful, systemd's cgroups. In the
# machine of tests/vm. Not in CI's run: `./quickstart engines` runs it.
load podman-helpers

OCI=/usr/local/bin/agentrun-oci

setup_file() {
  # Podman 5.4 has no flags of a runtime in its configuration, and --runtime-flag is not for the calls that come later.
  printf '#!/bin/sh\nexec /usr/bin/agentrun --policy oci "$@"\n' > "$OCI"
  chmod +x "$OCI"
  cat > /etc/containers/containers.conf.d/90-test.conf << CONF
[engine]
runtime = "agentrun-oci"
[engine.runtimes]
agentrun-oci = ["$OCI"]
CONF
  podman --log-level=error import /test/python.tar "$IMAGE" > /dev/null
  podman volume create shared > /dev/null
  # What is run in the foreground of a test that only needs a container.
  export IDS=$BATS_FILE_TMPDIR/ids
}
teardown_file() { rm -f /etc/containers/containers.conf.d/90-test.conf "$OCI"; }

setup() { NAME=t$BATS_TEST_NUMBER.$RANDOM; }
teardown() {
  podman ps -a --no-trunc --format '{{.ID}}' >> "$IDS"
  podman pod rm -a -f -t 0 > /dev/null 2>&1 < /dev/null || true
  podman rm -a -f -t 0 > /dev/null 2>&1 < /dev/null || true
  local id
  for id in $(sort -u "$IDS"); do wait_for 60 nothing_of "$id" || return 1; done
  : > "$IDS"
}

run_podman() { podman --log-level=error run --network=none --name "$NAME" "$@" 3>&- < /dev/null; }
detached() {
  run run_podman -d "$@"
  assert_status 0
}
# A container's cgroup, and a file of it.
cgroup() { echo "/sys/fs/cgroup$(inspect '{{.State.CgroupPath}}')"; }
of() { cat "$(cgroup)/$1"; }

@test "the policy oci, systemd's scope in machine.slice" {
  detached "$IMAGE" sleep 1000
  assert_equal "$(cgroup)" "/sys/fs/cgroup/machine.slice/libpod-$output.scope"
  assert_equal "$(agentrun --root /run/agentrun state "$output" | jq -r '.annotations["org.agentrun.policy"]')" oci
  run podman exec "$NAME" grep CapEff /proc/1/status
  assert_matches '00000000800405fb'
}

@test "limits, and update: memory, pids, CPU, weight, block IO" {
  detached --memory 128m --memory-reservation 64m --pids-limit 99 --cpus 0.5 --cpuset-cpus 0 --blkio-weight 505 "$IMAGE" sleep 1000
  assert_equal "$(of memory.max) $(of memory.low) $(of pids.max)" "134217728 67108864 99"
  assert_equal "$(of cpu.max) $(of cpuset.cpus) $(of io.weight)" "50000 100000 0 default 5000"
  run podman update --memory 256m --cpus 0.7 --pids-limit 77 "$NAME"
  assert_status 0
  assert_equal "$(of memory.max) $(of cpu.max) $(of pids.max)" "268435456 70000 100000 77"
}

@test "pause and unpause" {
  detached "$IMAGE" sh -c 'while :; do date +%s%N > /dev/shm/tick; sleep 0.1; done'
  run podman pause "$NAME"
  assert_status 0
  has_state paused
  grep -qx 'frozen 1' "$(cgroup)/cgroup.events"
  run outside podman exec "$NAME" true
  [ "$status" -ne 0 ] || fail "exec in a paused container"
  run podman unpause "$NAME"
  assert_status 0
  has_state running
  grep -qx 'frozen 0' "$(cgroup)/cgroup.events"
}

@test "healthchecks: by hand, and by systemd's timer" {
  detached --health-cmd 'test -e /tmp/well' --health-interval 5s --health-retries 1 --health-start-period 0s "$IMAGE" sleep 1000
  run outside podman healthcheck run "$NAME"
  assert_status 1
  podman exec "$NAME" touch /tmp/well 3>&-
  run outside podman healthcheck run "$NAME"
  assert_status 0
  podman exec "$NAME" rm /tmp/well 3>&-
  is_health() { [ "$(inspect '{{.State.Health.Status}}')" = "$1" ]; }
  wait_for 120 is_health unhealthy
  podman exec "$NAME" touch /tmp/well 3>&-
  wait_for 120 is_health healthy
}

@test "--init: a PID 1 that reaps" {
  detached --init "$IMAGE" sh -c '(sleep 0.1 &) ; echo started; sleep 1000'
  wait_for_log started
  run outside podman exec "$NAME" cat /proc/1/comm
  assert_matches 'catatonit|podman-init'
  run podman stop -t 20 "$NAME"
  assert_status 0
  wait_for_state exited
  assert_equal "$(inspect '{{.State.ExitCode}}')" 143
}

@test "--systemd=always: its mounts, a cgroup of its own to write in" {
  run run_podman --rm --systemd=always "$IMAGE" sh -c 'echo "$container"; stat -f -c %T /run /tmp /run/lock; mkdir /sys/fs/cgroup/inner && echo made'
  assert_status 0
  assert_line podman
  assert_line made
  assert_equal "$(grep -c tmpfs <<< "$output")" 3
}

@test "volumes: named, bound, tmpfs, read-only, :U, --volumes-from" {
  mkdir -p "$BATS_TEST_TMPDIR/data" "$BATS_TEST_TMPDIR/owned"
  echo content > "$BATS_TEST_TMPDIR/data/file"
  run run_podman -v shared:/shared -v "$BATS_TEST_TMPDIR/data:/data" -v "$BATS_TEST_TMPDIR/data:/fixed:ro" -v "$BATS_TEST_TMPDIR/owned:/owned:U" \
    --user 1000 --tmpfs /scratch:size=1m,mode=1777 "$IMAGE" sh -c 'cat /data/file; touch /fixed/x; touch /owned/x && echo owned; stat -f -c "%b %S" /scratch; touch /scratch/x'
  assert_status 0
  assert_line content
  assert_matches 'Read-only'
  assert_line owned
  assert_line "256 4096"
  assert_equal "$(stat -c %u "$BATS_TEST_TMPDIR/owned/x")" 1000
  run outside podman run --rm --network=none -v shared:/shared "$IMAGE" sh -c 'echo kept > /shared/file'
  assert_status 0
  run outside podman run --rm --network=none --volumes-from "$NAME" "$IMAGE" cat /shared/file /data/file
  assert_line kept # beside a warning: a tmpfs is nobody else's
  assert_line content
}

@test "--secret: a file and a variable, and nothing of it in the state" {
  printf 'open sesame' | podman secret create "$NAME" - > /dev/null
  run run_podman --rm --secret "$NAME" --secret "$NAME,type=env,target=WORD" "$IMAGE" sh -c "cat /run/secrets/$NAME; echo; echo \$WORD"
  assert_status 0
  assert_output $'open sesame\nopen sesame'
  podman secret rm "$NAME"
}

@test "--timeout" {
  run run_podman --timeout 5 "$IMAGE" sleep 1000
  assert_status 255
  has_state exited
}

@test "stats, top, ps, inspect" {
  detached --memory 128m "$IMAGE" sh -c 'sleep 1001 & sleep 1000'
  run podman stats --no-stream --format json "$NAME"
  assert_status 0
  assert_equal "$(jq -r '.[0].mem_usage' <<< "$output" | sed 's/.* \/ //')" 134.2MB
  assert_equal "$(jq -r '.[0].pids' <<< "$output")" 3
  run podman top "$NAME" pid comm
  assert_status 0
  assert_equal "$(grep -c sleep <<< "$output")" 2
  run podman ps --format '{{.Names}} {{.State}}'
  assert_line "$NAME running"
  assert_equal "$(inspect '{{.OCIRuntime}}')" agentrun-oci
}

@test "cp, both ways; diff, commit, export" {
  detached "$IMAGE" sleep 1000
  echo outside > "$BATS_TEST_TMPDIR/file"
  run podman cp "$BATS_TEST_TMPDIR/file" "$NAME:/root/file"
  assert_status 0
  run outside podman exec "$NAME" sh -c 'cat /root/file; echo inside > /root/back'
  assert_output outside
  run podman cp "$NAME:/root/back" "$BATS_TEST_TMPDIR/back"
  assert_status 0
  assert_equal "$(cat "$BATS_TEST_TMPDIR/back")" inside
  run podman diff "$NAME"
  assert_line "A /root/back"
  run outside podman --log-level=error commit -q "$NAME" localhost/committed
  assert_status 0
  run outside podman --log-level=error run --rm --network=none localhost/committed cat /root/back
  assert_output inside
  podman rmi localhost/committed > /dev/null
}

@test "logs: all, the last, followed" {
  detached "$IMAGE" sh -c 'echo one; echo two >&2; sleep 1; echo three'
  run timeout 120 podman logs -f "$NAME"
  assert_status 0
  assert_line one
  assert_line two
  assert_line three
  wait_for_state exited
  run podman logs --tail 1 "$NAME"
  assert_output three
}

@test "exec: user, directory, environment, terminal, detached" {
  detached "$IMAGE" sleep 1000
  run outside podman exec --user 1000:1000 --workdir /tmp -e WORD=here "$NAME" sh -c 'id -u; id -g; pwd; echo $WORD'
  assert_output $'1000\n1000\n/tmp\nhere'
  run outside podman exec -d "$NAME" sh -c 'echo done > /root/detached'
  assert_status 0
  wait_for 30 podman exec "$NAME" test -s /root/detached
  run in_terminal podman exec -it "$NAME" tty
  assert_matches '/dev/pts/'
}

@test "attach, stop, start, restart, rename, wait" {
  detached "$IMAGE" sh -c 'trap "exit 3" TERM; echo run >> /root/runs; echo ready; while :; do sleep 0.1; done'
  wait_for_log ready
  run podman restart -t 30 "$NAME"
  assert_status 0
  wait_for 60 podman exec "$NAME" sh -c 'test $(wc -l < /root/runs) -eq 2'
  podman rename "$NAME" "$NAME.new"
  NAME=$NAME.new
  run podman stop -t 30 "$NAME"
  assert_status 0
  wait_for_state exited
  assert_equal "$(inspect '{{.State.ExitCode}}')" 3
  run podman wait "$NAME"
  assert_output 3
}

@test "--restart=on-failure:2" {
  detached --restart=on-failure:2 -v shared:/shared "$IMAGE" sh -c 'echo again >> /shared/restarts; exit 4'
  three() { podman volume export shared | tar -xO ./restarts restarts 2> /dev/null | wc -l | grep -qx 3; }
  wait_for 120 three
  wait_for_state exited
  assert_equal "$(inspect '{{.RestartCount}} {{.State.ExitCode}}')" "2 4"
}

@test "--userns=auto, keep-id's like: ids of the host's unprivileged range" {
  detached --userns=auto "$IMAGE" sh -c 'cat /proc/self/uid_map; touch /root/mine; stat -c %u /root/mine; sleep 1000'
  wait_for_log '^0$'
  run podman logs "$NAME"
  refute_matches '^ *0 +0 '
  [ "$(stat -c %u "/proc/$(inspect '{{.State.Pid}}')")" -ge 2000000 ]
  run outside podman exec "$NAME" id -u
  assert_output 0
}

@test "the default network: an address, and a published port" {
  run outside podman --log-level=error run -d --name "$NAME" -p 127.0.0.1:18080:8080 "$IMAGE" python3 -c 'import socket
s = socket.create_server(("", 8080))
print("ready", flush=True)
while True:
    c, _ = s.accept()
    c.sendall(b"from inside\n")
    c.close()'
  assert_status 0
  wait_for_log ready
  run python3 -c 'import socket
print(socket.create_connection(("127.0.0.1", 18080), 30).recv(100).decode(), end="")'
  assert_output "from inside"
}

@test "a pod: one network, IPC and host name for its containers; stop, start, rm" {
  run outside podman --log-level=error pod create --name "$NAME.pod" --network=none --hostname inthepod
  assert_status 0
  run outside podman --log-level=error run -d --pod "$NAME.pod" --name "$NAME" "$IMAGE" python3 -c 'import socket
s = socket.create_server(("127.0.0.1", 8080))
print("ready", flush=True)
while True:
    c, _ = s.accept()
    c.sendall(socket.gethostname().encode() + b"\n")
    c.close()'
  assert_status 0
  wait_for_log ready
  run outside podman --log-level=error run --rm --pod "$NAME.pod" "$IMAGE" python3 -c 'import socket
print(socket.create_connection(("127.0.0.1", 8080), 30).recv(100).decode(), end="")
print(socket.gethostname())'
  assert_output $'inthepod\ninthepod'
  run podman pod stop -t 1 "$NAME.pod"
  assert_status 0
  wait_for_state exited
  run outside podman pod start "$NAME.pod"
  assert_status 0
  wait_for_state running
  run podman pod rm -f -t 0 "$NAME.pod"
  assert_status 0
}

@test "kube play: a pod from YAML" {
  cat > "$BATS_TEST_TMPDIR/pod.yaml" << YAML
apiVersion: v1
kind: Pod
metadata: {name: played}
spec:
  containers:
  - name: one
    image: $IMAGE
    command: [sh, -c, "echo played; sleep 1000"]
    resources: {limits: {memory: 64Mi}}
YAML
  run outside podman --log-level=error kube play --network=none "$BATS_TEST_TMPDIR/pod.yaml"
  assert_status 0
  NAME=played-one
  wait_for_log played
  assert_equal "$(of memory.max)" 67108864
  run podman --log-level=error kube down "$BATS_TEST_TMPDIR/pod.yaml"
  assert_status 0
}

@test "generate systemd: a unit that starts and stops the container" {
  podman --log-level=error create --network=none --name "$NAME" "$IMAGE" sh -c 'trap "exit 0" TERM; echo ready; while :; do sleep 0.1; done' > /dev/null 3>&-
  podman --log-level=error generate systemd "$NAME" > "/run/systemd/system/by-test.service" 2> /dev/null
  systemctl daemon-reload
  run systemctl start by-test.service
  assert_status 0
  wait_for_log ready
  run systemctl stop by-test.service
  assert_status 0
  rm -f /run/systemd/system/by-test.service
  systemctl daemon-reload
  wait_for_state exited
  assert_equal "$(inspect '{{.State.ExitCode}}')" 0
}

@test "a quadlet" {
  mkdir -p /run/containers/systemd
  cat > /run/containers/systemd/quad.container << UNIT
[Container]
Image=$IMAGE
ContainerName=$NAME
Network=none
Exec=sh -c 'echo ready; sleep 1000'
[Service]
TimeoutStopSec=30
UNIT
  systemctl daemon-reload
  run systemctl start quad.service
  assert_status 0
  wait_for_log ready
  assert_equal "$(inspect '{{.OCIRuntime}}')" agentrun-oci
  systemctl daemon-reload
  has_state running
  run systemctl stop quad.service
  rm -f /run/containers/systemd/quad.container
  systemctl daemon-reload
}

@test "user, groups, ulimit, sysctl, host name, hosts, shm, devices, capabilities, read-only" {
  run run_podman --rm --user 1000:1000 --group-add 2000 --ulimit nofile=77:99 --sysctl net.ipv4.ip_forward=1 --hostname named \
    --add-host far:192.0.2.9 --shm-size 2m --device /dev/fuse --cap-drop all --cap-add net_bind_service --read-only "$IMAGE" \
    sh -c 'id -G; ulimit -n; cat /proc/sys/net/ipv4/ip_forward; hostname; grep -c far /etc/hosts; stat -f -c "%b %S" /dev/shm; test -c /dev/fuse && echo fuse; grep CapBnd /proc/self/status; touch /etc/x'
  assert_line "1000 2000"
  assert_line 77
  assert_line named
  assert_line "512 4096"
  assert_line fuse
  assert_matches 'CapBnd:[[:space:]]0000000000000400'
  assert_matches 'Read-only'
}

@test "out of memory: 137, and Podman knows why" {
  detached --memory 48m --memory-swap 48m "$IMAGE" python3 -c 'b = bytearray(1 << 29)
for i in range(0, len(b), 4096): b[i] = 1'
  wait_for_state exited
  assert_equal "$(inspect '{{.State.ExitCode}}')" 137
}

@test "twenty containers one after the other, five at a time, and nothing is left" {
  local round n pids
  for round in 1 2 3 4; do
    pids=()
    for n in 1 2 3 4 5; do
      podman --log-level=error run --rm --network=none "$IMAGE" echo "$round.$n" > "$BATS_TEST_TMPDIR/$n" 2>&1 < /dev/null 3>&- &
      pids+=($!)
    done
    for n in 1 2 3 4 5; do
      wait "${pids[$((n - 1))]}" || fail "$(cat "$BATS_TEST_TMPDIR/$n")"
      assert_equal "$(cat "$BATS_TEST_TMPDIR/$n")" "$round.$n"
    done
  done
}

@test "nothing is left of all these containers" {
  no_conmon() { ! pgrep -x conmon; }
  wait_for 60 no_conmon
  assert_equal "$(agentrun --root /run/agentrun list --quiet)" ""
  output=$(find /sys/fs/cgroup -type d -name '*libpod-*')
  [ -z "$output" ] || fail "cgroups are left"
  output=$(systemctl list-units --all --no-legend '*libpod*' | grep -v healthcheck || true)
  [ -z "$output" ] || fail "units are left"
  output=$(ps -eo pid,comm,args | grep -E 'agentrun|conmon' | grep -vE 'bats|grep|guest|agentrun-test' || true)
  [ -z "$output" ] || fail "processes are left"
}
