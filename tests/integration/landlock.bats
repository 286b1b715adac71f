# Landlock behind the mounts. What the mounts deny by themselves is "Read-only file system"; Landlock says "Permission
# denied", and to show it the mounts are opened behind its back, as a mistake in them would.
load helpers

landlocked() {
  skip_unless_agentrun
  skip_if_rootless "change the mounts of a container"
  skip_unless_landlock
}
skip_unless_landlock() {
  skip_unless "no Landlock of version 3 here" python3 -c '
import ctypes, sys
sys.exit(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) < 3)'
}

policy_file() {
  printf '%s' "$1" > "$BUNDLE/policy.json"
  POLICY=$BUNDLE/policy.json
}

# Makes the mount at a place of the container, its root by default, one that can be written to. By a program of the host:
# what the container has for mount(8) wants its own /proc.
make_writable() {
  python3 -c '
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
MS_REMOUNT, MS_BIND, CLONE_NEWNS = 32, 4096, 0x20000
namespace = os.open("/proc/%s/ns/mnt" % sys.argv[1], os.O_RDONLY)
if libc.setns(namespace, CLONE_NEWNS) or libc.mount(None, sys.argv[2].encode(), None, MS_REMOUNT | MS_BIND, None):
    sys.exit(os.strerror(ctypes.get_errno()))
' "$(pid_of)" "${1:-/}"
}

# Runs the bundle with its root opened between create and start; the program's output is then in `output`.
run_with_open_root() {
  create
  assert_success
  make_writable
  start
  assert_success
  wait_for 20 has_status stopped
  output=$(cat "$LOG")
}

@test "files: a place that became writable behind the policy's back takes no write" {
  landlocked
  POLICY=strict
  chmod 0777 "$BUNDLE/rootfs/etc"
  program 'echo x > /etc/new; echo x > /etc/passwd; rm /etc/group; mkdir /etc/d; ln -s x /etc/l; mkfifo /etc/f
    mv /etc/group /etc/other; truncate -s 0 /etc/passwd; cat /etc/group; echo x > /tmp/new && echo works'
  run_with_open_root
  assert_equal "$(grep -c "Permission denied" <<< "$output")" 8
  refute_contains "Read-only"
  assert_line works
  assert_line root:x:0:
  assert_equal "$(ls "$BUNDLE/rootfs/etc" | tr '\n' ' ')" "$(ls "$SCRATCH/rootfs/etc" | tr '\n' ' ')"
}

@test "files: it is Landlock that denies: without it the same write is done" {
  landlocked
  policy_file '{"landlock": {"files": false}}'
  program 'echo x > /etc/new && echo written'
  run_with_open_root
  assert_line written
  assert_file "$BUNDLE/rootfs/etc/new"
}

@test "files: a bind that the policy lets be written to takes writes, another does not although it is writable" {
  landlocked
  mkdir -p "$BUNDLE/given" "$BUNDLE/kept"
  policy_file "{\"mounts\": {\"allow_writable\": [\"$BUNDLE/given\"]}}"
  config "$(printf '.mounts += [{"destination": "/given", "type": "bind", "source": "%s/given", "options": ["rbind", "rw"]},
    {"destination": "/kept", "type": "bind", "source": "%s/kept", "options": ["rbind", "rw"]}]' "$BUNDLE" "$BUNDLE")"
  program 'mkdir /given/a /given/b; echo x > /given/a/f && mv /given/a/f /given/b/f && ls /given/b; echo x > /kept/f'
  create
  assert_success
  make_writable /kept
  start
  assert_success
  wait_for 20 has_status stopped
  output=$(cat "$LOG")
  assert_line f
  assert_matches "/kept/f: Permission denied"
  assert_file "$BUNDLE/given/b/f"
  refute_file "$BUNDLE/kept/f"
}

@test "files: rename and link across directories work in the working directory and /tmp" {
  landlocked
  mkdir "$BUNDLE/rootfs/project"
  config '.process.cwd = "/project"'
  program 'for d in /project /tmp /dev/shm; do cd $d && mkdir a b && echo x > a/f && mv a/f b/g && ln b/g a/h && mv b c && cat c/g; done
    stat -c %h /project/a/h'
  run_strict
  assert_success
  assert_equal "$(grep -cx x <<< "$output")" 3
  assert_line 2
}

@test "files: devices, /proc/self, message queues and /dev/stdout can be written to" {
  landlocked
  policy_file '{"seccomp": {"program": "none"}, "require": ["landlock"]}'
  program 'echo x > /dev/null && echo 500 > /proc/self/oom_score_adj && echo name > /proc/self/comm && echo to-stdout > /dev/stdout
    echo x > /dev/full; touch /dev/mqueue/q && grep QSIZE /dev/mqueue/q && rm /dev/mqueue/q && echo queue; echo end'
  run_bundle
  assert_line to-stdout
  assert_line queue
  assert_matches "No space left|write error"
  refute_contains "Permission denied"
  # Standard output as a file of the host, which is in no tree of the container.
  : > "$LOG"
  agentrun run --bundle "$BUNDLE" "$ID.file" < /dev/null >> "$LOG" 2>&1
  output=$(cat "$LOG")
  assert_line to-stdout
  refute_contains "Permission denied"
}

@test "files: a terminal can be opened again and asked for its size" {
  landlocked
  config '.process.terminal = true | .process.consoleSize = {"height": 33, "width": 77}'
  program 'stty size < /dev/tty; stty size < /dev/console; echo typed > /dev/tty; stty -echo < $(tty); echo end'
  run python3 -c 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' \
    "$RUNTIME" --root "$ROOT" --policy strict run --bundle "$BUNDLE" "$ID" 3>&-
  assert_contains typed
  assert_contains end
  refute_contains denied
  refute_contains "not a tty"
}

@test "exec: signals, and everything that looks into the container, as without Landlock" {
  landlocked
  policy_file '{"seccomp": {"program": "none"}, "require": ["landlock"]}'
  program 'trap "echo reloaded > /tmp/reloaded" HUP; sleep 1000 & echo $! > /tmp/child; while :; do sleep 0.1; done'
  create_and_start
  wait_for 10 agentrun exec "$ID" test -s /tmp/child
  # What debuggers and profilers need; each is denied to a process in a Landlock domain of its own.
  run agentrun exec "$ID" /bin/sh -c 'for link in /proc/1/exe /proc/1/cwd /proc/$(cat /tmp/child)/exe; do readlink $link || echo denied; done; ls /proc/1/fd; head -c 1 /proc/1/maps'
  assert_success
  assert_contains /bin/busybox
  refute_contains denied
  run agentrun exec "$ID" kill -HUP 1
  assert_success
  wait_for 10 agentrun exec "$ID" test -e /tmp/reloaded
  run agentrun report "$ID"
  assert_contains "/landlock/exec"
}

@test "exec: held by the mounts, and by Landlock too where the policy says so" {
  landlocked
  chmod 0777 "$BUNDLE/rootfs/etc"
  policy_file '{"landlock": {"exec": true}}'
  wait_program
  create_and_start
  run agentrun exec "$ID" /bin/sh -c 'echo x > /etc/new'
  assert_contains "Read-only file system"
  make_writable
  run agentrun exec "$ID" /bin/sh -c 'echo x > /etc/new; echo x > /tmp/new && mkdir /tmp/a && mv /tmp/new /tmp/a && echo x > /dev/null && echo works; kill -0 1 && echo signal; readlink /proc/1/exe || echo apart'
  assert_matches "/etc/new: Permission denied"
  assert_line works
  assert_line signal
  assert_line apart
  refute_file "$BUNDLE/rootfs/etc/new"
  run agentrun report "$ID"
  refute_contains "/landlock/exec"
}

@test "ports: only those of the list, for exec too" {
  landlocked
  policy_file '{"network": {"mode": "config"}, "landlock": {"tcp_connect": [8080]}}'
  # Nobody listens: what is allowed is refused by the other end.
  program 'nc 127.0.0.1 8080 < /dev/null; nc 127.0.0.1 80 < /dev/null; touch /tmp/ready; while :; do sleep 0.1; done'
  create_and_start
  wait_for 10 agentrun exec "$ID" test -e /tmp/ready
  output=$(cat "$LOG")
  assert_matches "refused"
  assert_equal "$(grep -c "Permission denied" <<< "$output")" 1
  run agentrun exec "$ID" nc 127.0.0.1 80
  assert_contains "Permission denied"
  run agentrun exec "$ID" nc 127.0.0.1 8080
  assert_contains refused
}

@test "ports: a list under network none is refused" {
  landlocked
  policy_file '{"landlock": {"tcp_connect": [443]}}'
  program true
  run_bundle
  assert_error "/landlock.*network"
  assert_clean
}

@test "scopes: a container in another's pid namespace signals only its own, an exec of it everyone there" {
  landlocked
  policy_file '{"extends": "oci", "user": {"no_new_privileges": true}, "landlock": {"scopes": true}}'
  wait_program
  create_and_start
  local pod=$ID first
  first=$(pid_of)
  ID=$pod.second
  config ".linux.namespaces |= map(if .type == \"pid\" then .path = \"/proc/$first/ns/pid\" else . end)" \
    '.linux.cgroupsPath += ".second"'
  program 'kill -0 1 && echo reached; sleep 1000 & kill $! && echo own; touch /ready; while :; do sleep 0.1; done'
  create_and_start
  wait_for 10 test -e "$BUNDLE/rootfs/ready"
  output=$(cat "$LOG")
  assert_contains "Operation not permitted"
  assert_line own
  refute_contains reached
  run agentrun exec "$ID" kill -0 1
  assert_success
  agentrun delete --force "$ID"
  ID=$pod
}

@test "require: landlock is a requirement that this host meets" {
  landlocked
  policy_file '{"require": {"add": ["landlock"]}}'
  program 'echo ran'
  run_bundle
  assert_success
  assert_line ran
}

@test "sandbox: claims Landlock where it holds" {
  landlocked
  run agentrun --policy strict sandbox --explain -- true
  assert_success
  assert_matches "Landlock"
  policy_file '{"landlock": {"files": false}}'
  run agentrun sandbox --explain -- true
  assert_success
  refute_contains Landlock
}
