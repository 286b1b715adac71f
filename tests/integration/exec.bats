load helpers

running() {
  wait_program
  create_and_start
}

@test "exec runs a program in the container and returns its output and code" {
  running
  run agentrun exec "$ID" /bin/sh -c 'hostname; pwd; echo err >&2; exit 5' < /dev/null
  assert_status 5
  assert_line contained
  assert_line /
  assert_line err
}

@test "exec hands standard input on" {
  running
  run agentrun exec "$ID" cat <<< "to the inside"
  assert_success
  assert_output "to the inside"
}

@test "exec leaves the program's own options alone" {
  running
  run agentrun exec "$ID" echo --help -t --cwd /nowhere < /dev/null
  assert_success
  assert_output "--help -t --cwd /nowhere"
}

@test "exec joins every namespace of the container" {
  running
  local pid name
  pid=$(pid_of)
  for name in mnt net pid ipc uts cgroup; do
    run agentrun exec "$ID" readlink "/proc/self/ns/$name" < /dev/null
    assert_success
    assert_output "$(readlink "/proc/$pid/ns/$name")"
  done
}

@test "exec joins the cgroup of the container" {
  running
  local group
  group=$(cgroup_of pids)
  [ -n "$group" ] || skip "no pids controller"
  detached agentrun exec --detach --pid-file "$BUNDLE/exec.pid" "$ID" sleep 1000
  assert_success
  # Directly, or in a child cgroup of it.
  [[ "$(cgroup_of pids "$(cat "$BUNDLE/exec.pid")")" == "$group"* ]]
}

@test "exec --process FILE" {
  running
  cat > "$BUNDLE/process.json" <<< '{
    "terminal": false, "user": {"uid": 1000, "gid": 1000, "additionalGids": [20, 30], "umask": 63}, "cwd": "/tmp",
    "args": ["sh", "-c", "id -u; id -G; umask; pwd; echo $KEY"], "env": ["PATH=/bin", "KEY=value"]
  }'
  run agentrun exec --process "$BUNDLE/process.json" "$ID" < /dev/null
  assert_success
  assert_line 1000
  assert_line "1000 20 30"
  assert_line 0077
  assert_line /tmp
  assert_line value
}

@test "exec as an engine calls it: --process, --detach, --pid-file" {
  running
  jq '.process | .args = ["sh", "-c", "echo started > /started; sleep 1000"]' "$BUNDLE/config.json" > "$BUNDLE/process.json"
  detached agentrun exec --process "$BUNDLE/process.json" --detach --pid-file "$BUNDLE/exec.pid" "$ID"
  assert_success
  assert_output ""
  wait_for 5 test -e "$BUNDLE/rootfs/started"
  assert_equal "$(tr -d 0-9 < "$BUNDLE/exec.pid" | wc -c)" 0
  assert_equal "$(readlink "/proc/$(cat "$BUNDLE/exec.pid")/ns/pid")" "$(readlink "/proc/$(pid_of)/ns/pid")"
}

@test "exec --user, --cwd, --env" {
  running
  run agentrun exec --user 1000:1000 --cwd /home/user --env KEY=value --env OTHER=x "$ID" sh -c 'id -u; id -g; pwd; echo $KEY$OTHER' < /dev/null
  assert_success
  assert_output $'1000\n1000\n/home/user\nvaluex'
}

@test "exec --user takes numbers strictly" {
  # CVE-2026-30892: a user that does not parse must never become 0.
  skip_unless_agentrun
  running
  local user
  for user in 1x x -1 4294967296 99999999999999999999 '0x0' ' 1' '1:' ':1' '1:-1' '+1'; do
    run agentrun exec --user "$user" "$ID" id -u < /dev/null
    assert_failure || fail "user '$user'"
    refute_matches '^[0-9]+$'
  done
}

@test "exec --tty gives a terminal" {
  skip_unless "this user gets no terminal here" script --quiet --command true /dev/null
  running
  run script --quiet --return --command "'$RUNTIME' --root '$ROOT' exec --tty $ID sh -c 'tty; test -t 0 && test -t 1 && test -t 2 && echo terminal'" /dev/null < /dev/null 3>&-
  assert_success
  assert_contains /dev/pts/
  assert_contains terminal
}

@test "exec --console-socket" {
  running
  "$here/recvtty" "$BUNDLE/tty" > "$LOG.tty" < /dev/null 3>&- &
  local receiver=$!
  wait_for 5 test -S "$BUNDLE/tty"
  detached agentrun exec --tty --detach --console-socket "$BUNDLE/tty" "$ID" sh -c 'tty; test -t 0 && echo terminal'
  assert_success
  wait "$receiver"
  output=$(cat "$LOG.tty")
  rm -f "$LOG.tty"
  assert_contains /dev/pts/
  assert_contains terminal
}

@test "exec: exit codes 126 and 127" {
  running
  run agentrun exec "$ID" nosuchprogram < /dev/null
  assert_status 127 || [ -z "$IS_AGENTRUN" ]
  assert_matches 'executable file.* not found in \$PATH'
  run agentrun exec "$ID" /no/such/program < /dev/null
  assert_status 127 || [ -z "$IS_AGENTRUN" ]
  assert_matches '[nN]o such file or directory'
  run agentrun exec "$ID" /etc < /dev/null
  assert_status 126 || [ -z "$IS_AGENTRUN" ]
  assert_matches '[pP]ermission denied|[iI]s a directory'
  run agentrun exec "$ID" /etc/passwd < /dev/null
  assert_status 126 || [ -z "$IS_AGENTRUN" ]
  assert_matches '[pP]ermission denied'
}

@test "exec returns 128 and the signal" {
  running
  run agentrun exec "$ID" sh -c 'kill -9 $$' < /dev/null
  assert_status 137
}

@test "exec of a working directory that does not exist" {
  running
  run agentrun exec --cwd /nowhere "$ID" pwd < /dev/null
  assert_failure
  assert_matches '/nowhere|cwd'
}

@test "exec into a container that is not there, or not running" {
  run agentrun exec nosuch true < /dev/null
  assert_failure
  assert_contains "does not exist"
  program true
  create_and_start
  wait_for 5 has_status stopped
  run agentrun exec "$ID" true < /dev/null
  assert_failure
  assert_matches 'not running|stopped'
}

@test "exec without a program" {
  running
  run agentrun exec "$ID" < /dev/null
  assert_failure
}

@test "exec has the capabilities of the container and no more" {
  running
  run agentrun exec "$ID" grep Cap /proc/self/status < /dev/null
  assert_success
  assert_equal "$(awk '/CapBnd/ { print $2 }' <<< "$output")" "$(awk '/CapBnd/ { print $2 }' "/proc/$(pid_of)/status")"
  # CVE-2022-29162 and its kin: never inheritable.
  assert_equal "$(awk '/CapInh/ { print $2 }' <<< "$output")" 0000000000000000
}

@test "exec leaks no file descriptor" {
  running
  run agentrun exec "$ID" sh -c 'ls /proc/self/fd | tr "\n" " "' < /dev/null 7< /etc/passwd 11< /
  assert_success
  assert_output "0 1 2 3 "
}

@test "exec of a hundred programs leaves nothing" {
  running
  local n before
  before=$(ls "$ROOT/$ID" | sort)
  for n in $(seq 20); do
    agentrun exec "$ID" true < /dev/null || fail "exec $n"
  done
  assert_equal "$(ls "$ROOT/$ID" | sort)" "$before"
  local group
  group=$(cgroup_of pids)
  [ -z "$group" ] || assert_equal "$(find "$group" -mindepth 1 -type d)" ""
}

@test "kill of the container ends what exec started" {
  running
  detached agentrun exec --detach --pid-file "$BUNDLE/exec.pid" "$ID" sleep 1000
  assert_success
  local pid
  pid=$(cat "$BUNDLE/exec.pid")
  run agentrun kill "$ID" KILL
  wait_for 5 gone "$pid"
}

@test "exec into a strict container is as strict as the container" {
  skip_unless_agentrun
  skip_unless_strict
  wait_program
  detached strict create --bundle "$BUNDLE" "$ID"
  assert_success
  start
  assert_success
  # The stored policy counts, not the flag of the exec.
  run agentrun exec --env AWS_SECRET_KEY=s3cret --cap CAP_SYS_ADMIN "$ID" \
    sh -c 'grep -E "CapEff|CapBnd|NoNewPrivs|Seccomp:" /proc/self/status; env; touch /bin/x 2>&1; unshare -m true 2>&1; ls /sys/class/net' < /dev/null
  assert_matches 'CapEff:[[:space:]]+0000000000000000'
  assert_matches 'CapBnd:[[:space:]]+0000000000000000'
  assert_matches 'NoNewPrivs:[[:space:]]+1'
  assert_matches 'Seccomp:[[:space:]]+2'
  refute_contains s3cret
  assert_contains "Read-only file system"
  assert_matches 'Operation not permitted|Function not implemented'
}

@test "exec --process into a strict container cannot ask for more" {
  skip_unless_agentrun
  skip_unless_strict
  wait_program
  detached strict create --bundle "$BUNDLE" "$ID"
  assert_success
  start
  jq '.process | .args = ["sh", "-c", "grep -E \"Cap(Eff|Prm|Bnd|Amb|Inh)|NoNewPrivs\" /proc/self/status; ulimit -n"]
    | .capabilities = ({bounding:["CAP_SYS_ADMIN"],effective:["CAP_SYS_ADMIN"],permitted:["CAP_SYS_ADMIN"],inheritable:["CAP_SYS_ADMIN"],ambient:["CAP_SYS_ADMIN"]})
    | .noNewPrivileges = false | .rlimits = [{"type":"RLIMIT_NOFILE","hard":100000,"soft":100000}]' "$BUNDLE/config.json" > "$BUNDLE/process.json"
  run agentrun exec --process "$BUNDLE/process.json" "$ID" < /dev/null
  assert_success
  assert_equal "$(grep -c '0000000000000000$' <<< "$output")" 5
  assert_matches 'NoNewPrivs:[[:space:]]+1'
  assert_line 1024
}
