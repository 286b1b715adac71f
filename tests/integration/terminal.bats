load helpers

# Starts the receiver of a console socket; what the terminal prints goes to $LOG.tty.
receiver() {
  "$here/recvtty" "$@" "$BUNDLE/tty" > "$LOG.tty" 2>&1 < "${INPUT:-/dev/null}" 3>&- &
  RECEIVER=$!
  wait_for 5 test -S "$BUNDLE/tty"
}
received() {
  wait "$RECEIVER"
  output=$(tr -d '\r' < "$LOG.tty")
  rm -f "$LOG.tty"
}

@test "console socket: the terminal arrives before start, and works" {
  config '.process.terminal = true'
  program 'tty; test -t 0 && test -t 1 && test -t 2 && echo all three; stty size'
  receiver
  create --console-socket "$BUNDLE/tty"
  assert_success
  start
  assert_success
  received
  assert_contains /dev/pts/0
  assert_contains "all three"
}

# containerd reads what create prints to its end before it calls start: whoever kept the pipe would never be started.
@test "console socket: nothing that waits for start keeps the output of create open" {
  config '.process.terminal = true'
  program 'echo ran'
  receiver
  local printed
  printed=$(agentrun create --bundle "$BUNDLE" --console-socket "$BUNDLE/tty" "$ID" 2>&1 < /dev/null | timeout 30 cat) ||
    fail "the output of create has no end" || return
  assert_equal "$printed" ""
  start
  received
  assert_contains ran
}

@test "console socket: what is typed reaches the program" {
  config '.process.terminal = true'
  program 'stty -echo; echo ready; read line; echo "got $line"'
  mkfifo "$BUNDLE/typed"
  sleep 1000 > "$BUNDLE/typed" 3>&- &
  local holder=$!
  INPUT=$BUNDLE/typed receiver
  create --console-socket "$BUNDLE/tty"
  start
  wait_for 5 grep -q ready "$LOG.tty"
  echo "hello terminal" > "$BUNDLE/typed"
  received
  kill "$holder"
  assert_contains "got hello terminal"
}

@test "the console is the controlling terminal, and /dev/console" {
  config '.process.terminal = true'
  program 'echo x > /dev/tty && echo has one; stat -c %t:%T /dev/console; stat -Lc %t:%T /proc/self/fd/0'
  receiver
  create --console-socket "$BUNDLE/tty"
  start
  received
  assert_contains "has one"
  assert_equal "$(grep -c '^88:' <<< "$output")" 2
}

@test "consoleSize" {
  config '.process.terminal = true' '.process.consoleSize = {"height": 33, "width": 111}'
  program 'stty size'
  receiver
  create --console-socket "$BUNDLE/tty"
  start
  received
  assert_contains "33 111"
}

@test "the terminal belongs to the user" {
  config '.process.terminal = true' '.process.user = {"uid": 1000, "gid": 1000}'
  program 'stat -Lc "%u" /proc/self/fd/0; echo again > /dev/tty'
  receiver
  create --console-socket "$BUNDLE/tty"
  start
  received
  assert_line 1000
  assert_contains again
}

@test "a terminal without a console socket is refused by create" {
  config '.process.terminal = true'
  create
  assert_failure
  assert_matches 'console|terminal|tty'
  assert_clean
}

@test "a console socket without a terminal is refused" {
  receiver
  create --console-socket "$BUNDLE/tty"
  kill "$RECEIVER"
  rm -f "$LOG.tty"
  assert_failure
  assert_clean
}

@test "a console socket that is gone" {
  config '.process.terminal = true'
  create --console-socket "$BUNDLE/nosuchsocket"
  assert_failure
  assert_contains nosuchsocket
  assert_clean
  echo > "$BUNDLE/file"
  create --console-socket "$BUNDLE/file"
  assert_failure
  assert_clean
}

@test "run with a terminal of its own" {
  config '.process.terminal = true'
  program 'tty; test -t 1 && echo terminal; exit 4'
  run script --quiet --return --command "'$RUNTIME' --root '$ROOT' run --bundle '$BUNDLE' $ID" /dev/null < /dev/null 3>&-
  assert_status 4
  assert_contains /dev/pts/
  assert_contains terminal
}

@test "a terminal in a root whose /dev/pts and /dev/console are links to the host" {
  # CVE-2025-52565
  mkdir -p "$SCRATCH/host"
  echo "of the host" > "$SCRATCH/host/secret"
  ln -s "$SCRATCH/host/secret" "$BUNDLE/rootfs/dev/console"
  config '.process.terminal = true' 'del(.mounts[] | select(.destination == "/dev"))'
  program 'echo ran'
  receiver
  create --console-socket "$BUNDLE/tty"
  [ "$status" -ne 0 ] || start
  agentrun delete --force "$ID" || true
  kill "$RECEIVER" 2> /dev/null || true
  rm -f "$LOG.tty"
  assert_equal "$(cat "$SCRATCH/host/secret")" "of the host"
  assert_equal "$(stat -c %a:%u "$SCRATCH/host/secret")" 644:0
}
