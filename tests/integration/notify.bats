load helpers

setup() {
  stage
  HOST=$SCRATCH/notify.$ID
  SAID=$SCRATCH/said.$ID
}

# The service manager: writes each datagram to $SAID, and closes the descriptors that come with it, which is its answer to
# a barrier.
start_manager() {
  python3 - "$1" "$SAID" 3>&- > /dev/null 2>&1 << 'PYTHON' &
import array, os, socket, sys
name, said = sys.argv[1:]
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind("\0" + name[1:] if name[0] == "@" else name)
open(said, "w").close()
while True:
    data, ancillary, _, _ = manager.recvmsg(65536, socket.CMSG_SPACE(64))
    with open(said, "a") as file:
        file.write(data.decode(errors="replace") + "\n")
    for level, kind, fds in ancillary:
        for fd in array.array("i", fds):
            os.close(fd)
PYTHON
  MANAGER=$!
  wait_for 20 test -e "$SAID"
}

teardown() {
  [ -z "${MANAGER:-}" ] || { kill -9 "$MANAGER"; wait "$MANAGER" 2> /dev/null; } || true
  rm -f "$HOST" "$SAID"
  delete_all
  assert_clean
  rm -rf "$BUNDLE" "$LOG" "$ROOT"
}

# busybox has no sender of datagrams: a program of the host's, with its libraries.
give_sender() {
  config '.mounts += [{"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]}]'
  local name
  for name in lib lib64; do
    [ ! -L "/$name" ] || ln -sfn "usr/$name" "$BUNDLE/rootfs/$name"
  done
}
says() { # says TEXT...: the program that sends these, each in a datagram; "wait" waits for /tmp/go
  local code='import os, socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for text in sys.argv[1:]:
    if text == "wait":
        open("/tmp/sent", "w").close()
        while not os.path.exists("/tmp/go"): time.sleep(0.05)
        continue
    s.sendto(text.encode().decode("unicode_escape").encode(), os.environ["NOTIFY_SOCKET"])
print("sent", flush=True)
while True: time.sleep(1)'
  program /usr/bin/python3 -c "$code" "$@"
}

@test "READY=1 reaches the service manager, and nothing else does" {
  start_manager "$HOST"
  give_sender
  says 'MAINPID=1' 'STATUS=hello' 'WATCHDOG=1\nREADY=0' 'READY=11' 'XREADY=1' wait 'FDSTORE=1\nREADY=1\nMAINPID=1' 'STOPPING=1'
  NOTIFY_SOCKET=$HOST create
  assert_success
  start
  assert_success
  wait_for 20 test -e "$BUNDLE/rootfs/tmp/sent"
  sleep 0.5 # for what must not come
  assert_equal "$(cat "$SAID")" ""
  touch "$BUNDLE/rootfs/tmp/go"
  wait_for 20 grep -qx READY=1 "$SAID"
  wait_for 20 grep -qx BARRIER=1 "$SAID"
  assert_equal "$(cat "$SAID")" $'READY=1\nBARRIER=1'
}

@test "run, an abstract socket, and a user of the container" {
  start_manager "@agentrun-test-$ID"
  give_sender
  config '.process.user = {"uid": 1000, "gid": 1000}'
  says READY=1
  NOTIFY_SOCKET=@agentrun-test-$ID detached agentrun run --detach --bundle "$BUNDLE" "$ID"
  assert_success
  wait_for 20 grep -qx READY=1 "$SAID"
}

@test "the socket in the container, and no other way out" {
  start_manager "$HOST"
  config '.process.env += ["NOTIFY_SOCKET=/elsewhere"]'
  program 'echo $NOTIFY_SOCKET; ls /run/notify; touch /run/notify/x 2>&1; grep -c NOTIFY_SOCKET /proc/1/environ'
  NOTIFY_SOCKET=$HOST run_bundle
  assert_contains "/run/notify/notify.sock"
  assert_line notify.sock
  assert_contains "Read-only file system"
  assert_equal "$(cat "$SAID")" ""
}

@test "strict gives no notify socket" {
  start_manager "$HOST"
  program 'echo [$NOTIFY_SOCKET]; ls /run/notify 2>&1'
  config '.process.env += ["NOTIFY_SOCKET=/run/notify/notify.sock"]'
  NOTIFY_SOCKET=$HOST run_strict
  assert_line '[]'
  assert_contains "No such file"
}

@test "the one who waits for READY=1 ends with the container" {
  start_manager "$HOST"
  wait_program
  NOTIFY_SOCKET=$HOST create
  assert_success
  agentrun delete --force "$ID"
  assert_clean
}

@test "a NOTIFY_SOCKET that is not there, or is none" {
  program true
  NOTIFY_SOCKET=$HOST run_bundle
  assert_error "NOTIFY_SOCKET.*$HOST"
  NOTIFY_SOCKET=vsock:2:1 run_bundle
  assert_error "NOTIFY_SOCKET vsock:2:1"
  NOTIFY_SOCKET=/$(printf 'x%.0s' $(seq 200)) run_bundle
  assert_error "NOTIFY_SOCKET"
  assert_clean
}
