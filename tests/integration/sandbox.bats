load helpers

setup() {
  skip_unless_agentrun
  stage
}

sandbox() { POLICY='' agentrun sandbox "$@" < /dev/null; }

@test "sandbox runs a program of the host and returns its code" {
  run sandbox -- /bin/sh -c 'echo out; echo err >&2; exit 5'
  assert_status 5
  assert_line out
  assert_line err
}

@test "sandbox hands standard input on" {
  run agentrun sandbox -- cat <<< "from outside"
  assert_success
  assert_output "from outside"
}

@test "sandbox: an unprivileged user, nothing of the host but its programs" {
  run sandbox -- sh -c 'id -u; ls /; ls -A /home /root 2>&1; cat /etc/shadow 2>&1; ls -d /proc/[0-9]* | wc -l; tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d " "'
  assert_line lo
  refute_matches '^0$'
  refute_matches '\$6\$|\$y\$'
}

@test "sandbox: writes outside the working directory fail, inside they vanish" {
  run sandbox -- sh -c 'echo x > /usr/bin/x; echo x > /etc/x; echo data > file && cat file; echo x > /tmp/t && echo tmp'
  assert_line data
  assert_line tmp
  [ "$(grep -ciE 'read-only|denied' <<< "$output")" -ge 2 ]
}

@test "sandbox: no variable of the caller" {
  MY_API_TOKEN=leak OTHER=leak run sandbox -- env
  assert_success
  refute_contains leak
}

@test "sandbox --env" {
  run sandbox --env NAME=value -- sh -c 'echo $NAME'
  assert_output value
  run sandbox --env API_TOKEN=secret -- sh -c 'echo $API_TOKEN'
  assert_error "org.agentrun.env.keep|API_TOKEN" 125
}

@test "sandbox: the deadline is 124" {
  SECONDS=0
  run sandbox --timeout 2s -- sh -c 'while :; do :; done'
  assert_status 124
  [ "$SECONDS" -le 6 ]
  assert_clean
}

@test "sandbox: exit codes 126, 127 and 125" {
  run sandbox -- nosuchprogram
  assert_status 127
  run sandbox -- /etc/passwd
  assert_status 126
  run sandbox --timeout x -- true
  assert_status 125
  run sandbox --rootfs /no/such/directory -- true
  assert_status 125
  run sandbox
  assert_status 125
}

@test "sandbox: a signal is 128 and its number" {
  # PID 1 does not get what it has no handler for, so its child dies, and the shell hands the code on.
  run sandbox -- sh -c 'sh -c "kill -SEGV \$\$"; exit $?'
  assert_status 139
}

@test "sandbox: a limit of memory in which nothing starts is refused with a reason" {
  run sandbox --memory 100K -- true
  assert_equal "$status" 125
  assert_contains "sandbox --memory: below 512K no program starts"
}

@test "sandbox --memory" {
  run sandbox --memory 64M -- sh -c 'head -c 300m /dev/zero | tail > /dev/null; exit $?'
  assert_status 137
}

@test "sandbox --pids" {
  run sandbox --pids 10 -- sh -c 'i=0; while [ $i -lt 30 ]; do sleep 1000 & i=$((i + 1)); done; echo all'
  refute_matches '^all$'
}

@test "sandbox --bind: read-only, and rw" {
  mkdir "$BUNDLE/shared"
  echo content > "$BUNDLE/shared/file"
  chmod 0777 "$BUNDLE/shared"
  run sandbox --bind "$BUNDLE/shared:/data" -- sh -c 'cat /data/file; echo x > /data/new'
  assert_contains content
  assert_contains "Read-only"
  run sandbox --bind "$BUNDLE/shared:/data:rw" -- sh -c 'echo x > /data/new && echo wrote'
  assert_line wrote
}

@test "sandbox --bind of what must not be inside is refused" {
  local source
  for source in / /etc /proc /root /run; do
    run sandbox --bind "$source:/m" -- true
    assert_status 125 || fail "$source"
  done
}

@test "sandbox --workdir: the directory's content, and changes vanish" {
  mkdir "$BUNDLE/project"
  echo content > "$BUNDLE/project/file"
  run sandbox --workdir "$BUNDLE/project" -- sh -c 'cat file; echo changed > file; cat file; touch new'
  assert_line content
  assert_line changed
  assert_equal "$(cat "$BUNDLE/project/file")" content
  refute_file "$BUNDLE/project/new"
}

@test "sandbox --out: what is written there is kept, and harmless" {
  run sandbox --out "$BUNDLE/out" -- sh -c 'echo result > /out/result; ln -s /etc/shadow /out/link; chmod 4755 /out/result'
  assert_success
  assert_equal "$(cat "$BUNDLE/out/result")" result
  [ ! -u "$BUNDLE/out/result" ] || fail "a setuid file came out"
}

@test "sandbox --rootfs" {
  echo "of the image" > "$BUNDLE/rootfs/marker"
  run sandbox --rootfs "$BUNDLE/rootfs" -- sh -c 'cat /marker; touch /x'
  assert_contains "of the image"
  assert_contains "Read-only"
}

@test "sandbox --json" {
  run sandbox --json "$BUNDLE/result" -- sh -c 'exit 3'
  assert_status 3
  jq -e '.exit == 3 and .policy == "strict" and .backend == "native" and (.wall_us > 0) and (.enforced | length > 5)' "$BUNDLE/result"
  run sandbox --json "$BUNDLE/result" --timeout 1s -- sleep 1000
  assert_status 124
  jq -e '.reason == "deadline"' "$BUNDLE/result"
}

@test "sandbox --explain says what is enforced, and by what" {
  run sandbox --explain -- true
  assert_success
  assert_matches 'network.*namespace'
  assert_matches 'seccomp'
  assert_matches 'cgroup'
}

@test "sandbox leaves nothing" {
  run sandbox -- true
  assert_success
  assert_clean
}

@test "sandbox: ten at the same time" {
  local n pids=()
  for n in $(seq 10); do
    sandbox -- sh -c "echo $n" > "$BUNDLE/out.$n" 2>&1 &
    pids+=($!)
  done
  for n in $(seq 10); do wait "${pids[$((n - 1))]}" || fail "$n: $(cat "$BUNDLE/out.$n")"; done
  for n in $(seq 10); do assert_equal "$(cat "$BUNDLE/out.$n")" "$n"; done
  assert_clean
}
