load helpers

setup() {
  stage
  AGENT=$SCRATCH/agent.$ID.sock
  TOLD=$SCRATCH/told.$ID
}

# An agent: takes listeners on $AGENT and answers each notification with ENOMEDIUM. Writes the state that came with each
# listener to $TOLD, one a line, once it has it. With `mute`: it takes the listener and never answers.
start_agent() {
  rm -f "$AGENT" "$TOLD"
  python3 - "$AGENT" "$TOLD" "${1:-answer}" 3>&- > /dev/null 2> "$SCRATCH/agent.$ID.log" << 'PYTHON' &
import array, fcntl, os, socket, struct, sys, threading
path, told, mode = sys.argv[1:]
server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
server.bind(path)
server.listen(8)
RECV, SEND = 0xC0502100, 0xC0182101
def serve(listener):
    while True:
        request = bytearray(80)
        try:
            fcntl.ioctl(listener, RECV, request)
        except OSError:
            return
        ident = struct.unpack_from("Q", request)[0]
        try:
            fcntl.ioctl(listener, SEND, bytearray(struct.pack("QqiI", ident, 0, -123, 0)))
        except OSError:
            pass
kept = []
while True:
    connection, _ = server.accept()
    message, ancillary, _, _ = connection.recvmsg(1 << 20, socket.CMSG_SPACE(64))
    fds = array.array("i")
    for level, kind, data in ancillary:
        fds.frombytes(data[:len(data) - len(data) % fds.itemsize])
    kept.append((connection, fds))
    with open(told, "a") as file:
        file.write(message.decode() + "\n")
    if mode == "answer":
        threading.Thread(target=serve, args=(fds[0],), daemon=True).start()
PYTHON
  AGENT_PID=$!
  wait_for 20 test -S "$AGENT"
}

teardown_agent() { [ -z "${AGENT_PID:-}" ] || { kill -9 "$AGENT_PID"; wait "$AGENT_PID" 2> /dev/null; }; }
teardown() {
  teardown_agent || true
  rm -f "$AGENT" "$TOLD"
  delete_all
  assert_clean
  rm -rf "$BUNDLE" "$LOG" "$ROOT"
}

notify_mkdir() {
  config ".linux.seccomp = {\"defaultAction\": \"SCMP_ACT_ALLOW\", \"listenerPath\": \"$AGENT\", \"listenerMetadata\": \"the metadata\",
    \"syscalls\": [{\"names\": [\"mkdir\", \"mkdirat\"], \"action\": \"SCMP_ACT_NOTIFY\"}]}"
}

@test "the agent gets the listener and the container's state, and decides" {
  start_agent
  notify_mkdir
  config '.annotations = {"some": "annotation"}'
  program 'mkdir /tmp/a 2>&1; echo after'
  run_bundle
  assert_success
  assert_contains "No medium found"
  assert_line after
  jq -e --arg id "$ID" --arg bundle "$BUNDLE" '.ociVersion and .fds == ["seccompFd"] and .metadata == "the metadata"
    and .pid == .state.pid and .pid > 1 and .state.id == $id and .state.bundle == $bundle
    and .state.status == "created" and .state.annotations.some == "annotation"' "$TOLD"
}

@test "the pid is that of the process on the host" {
  start_agent
  notify_mkdir
  wait_program
  create_and_start
  wait_for 20 test -s "$TOLD"
  assert_equal "$(jq .pid "$TOLD")" "$(pid_of)"
}

@test "without no_new_privs as well" {
  start_agent
  notify_mkdir
  config '.process.noNewPrivileges = false'
  program 'mkdir /tmp/a 2>&1; echo after'
  run_bundle
  assert_success
  assert_contains "No medium found"
  assert_equal "$(jq -r .metadata "$TOLD")" "the metadata"
}

@test "exec has a listener of its own, and its pid beside the container's" {
  start_agent
  notify_mkdir
  wait_program
  create_and_start
  wait_for 20 test -s "$TOLD"
  run agentrun exec "$ID" /bin/sh -c 'mkdir /tmp/a 2>&1; true'
  assert_success
  assert_contains "No medium found"
  assert_equal "$(wc -l < "$TOLD")" 2
  tail -1 "$TOLD" | jq -e --argjson pid "$(pid_of)" '.state.pid == $pid and .pid != $pid and .state.status == "running"'
}

@test "under strict the policy's filter is on top and the agent still decides" {
  start_agent
  notify_mkdir
  program 'mkdir /tmp/a 2>&1; unshare -U echo was allowed 2>&1; grep Seccomp_filters /proc/self/status | tr "\t" " "'
  run_strict
  assert_contains "No medium found"
  assert_line "Seccomp_filters: 1" # both, made one
  assert_contains unshare:
  refute_contains "was allowed"
}

# How many listeners the agent got is how many filters it decides for; what strict denies it is never asked.
@test "under strict the agent is not asked about what strict denies" {
  start_agent
  notify_mkdir
  config '.linux.seccomp.syscalls[0].names += ["unshare"]'
  program 'mkdir /tmp/a 2>&1; unshare -U echo was allowed 2>&1'
  run_strict
  assert_equal "$(grep -c "No medium found" <<< "$output")" 1
  assert_contains "Function not implemented"
  refute_contains "was allowed"
}

@test "under strict: a listener and an errno in one profile, in exec as well" {
  start_agent
  notify_mkdir
  config '.linux.seccomp.syscalls += [{"names": ["rmdir", "unlinkat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}]'
  wait_program
  detached strict create --bundle "$BUNDLE" "$ID"
  assert_success
  start
  assert_success
  run agentrun exec "$ID" /bin/sh -c 'mkdir /tmp/a 2>&1; rmdir /tmp 2>&1; unshare -U true 2>&1; grep Seccomp_filters /proc/self/status | tr "\t" " "'
  assert_contains "No medium found"
  assert_contains "No space left on device"
  assert_contains "Function not implemented"
  assert_line "Seccomp_filters: 1" # both, made one
}

@test "under strict: a listener in a profile that denies seccomp(2) has no order, and is refused before anything is made" {
  start_agent
  notify_mkdir
  config '.linux.seccomp.syscalls += [{"names": ["seccomp"], "action": "SCMP_ACT_ERRNO"}]'
  detached strict create --bundle "$BUNDLE" "$ID"
  assert_error "profile refuses seccomp\(2\).*listener"
  refute_file "$TOLD"
  assert_clean
}

@test "under strict: a profile that sends seccomp(2) to the agent is refused as well" {
  start_agent
  notify_mkdir
  config '.linux.seccomp.syscalls[0].names += ["seccomp"]'
  detached strict create --bundle "$BUNDLE" "$ID"
  assert_error "profile refuses seccomp\(2\).*listener"
  assert_clean
}

@test "an agent that is not there: create fails, and nothing is left" {
  notify_mkdir
  create
  assert_error "seccomp listener.*$AGENT"
  assert_clean
}

@test "a listener path that is a file, or too long for a name" {
  notify_mkdir
  : > "$AGENT"
  create
  assert_error "seccomp listener"
  assert_clean
}

@test "no agent is asked for where no rule needs one" {
  config ".linux.seccomp = {\"defaultAction\": \"SCMP_ACT_ALLOW\", \"listenerPath\": \"$AGENT\"}"
  program 'echo ran'
  run_bundle
  assert_success
  assert_output ran
}

@test "a profile that notifies without a listenerPath is refused" {
  skip_unless_agentrun
  config '.linux.seccomp = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir"], "action": "SCMP_ACT_NOTIFY"}]}'
  create
  assert_error "listenerPath"
}

@test "a state that is too long to be told is refused" {
  start_agent
  notify_mkdir
  config '.annotations = {"long": ("x" * 140000)}'
  create
  assert_error "seccomp listener.*128 KiB"
  assert_clean
}

@test "an agent that never answers does not keep delete --force from it" {
  start_agent mute
  notify_mkdir
  config '.linux.seccomp.syscalls[0].names = ["execve"]'
  create
  assert_success
  agentrun start "$ID" > /dev/null 2>&1 < /dev/null &
  local starting=$!
  wait_for 20 test -s "$TOLD"
  run agentrun delete --force "$ID"
  assert_success
  wait "$starting" || true
  assert_clean
}
