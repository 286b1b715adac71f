load helpers
# kill -9 of the runtime at every one of its system calls, then `delete --force`: nothing is left. The moments are found
# by tracing one whole run; strace then injects the signal at the n-th call of each kind.
#
#   KILL9_STEP   look at every n-th moment only (3); 1 for all of them, by hand

setup() {
  skip_unless_agentrun
  command -v strace > /dev/null || skip "strace is missing"
  strace -o /dev/null true 2> /dev/null || skip "ptrace is not allowed here"
  stage
}

# Lines "CALL N": the N-th CALL of the command. Calls that change nothing outside the process's own memory are left out.
moments() {
  strace -o "$BUNDLE/strace" "$@" > "$LOG" 2>&1 < /dev/null 3>&- || true
  awk -F'(' '/^[a-z0-9_]+\(/ { print $1 }' "$BUNDLE/strace" |
    grep -vE '^(brk|mmap|munmap|mprotect|madvise|rt_sig.*|arch_prctl|set_.*|rseq|prlimit64|getrandom|exit_group|get.id|getpid|gettid|fstat|newfstatat|lseek)$' |
    awk '{ print $1, ++seen[$1] }' | awk -v step="${KILL9_STEP:-3}" 'NR % step == 0'
}

killed_at() { # CALL N COMMAND...
  local call=$1 n=$2
  shift 2
  timeout --kill-after=5 30 strace -o /dev/null -e "trace=$call" -e "inject=$call:signal=KILL:when=$n" "$@" > "$LOG" 2>&1 < /dev/null 3>&- || true
}

runtime() { echo "$RUNTIME --root $ROOT --policy $1"; }

each_moment_of_create() { # POLICY
  local prefix call n count=0 left
  prefix=$(runtime "$1")
  wait_program
  moments $prefix create --bundle "$BUNDLE" "$ID" > "$BUNDLE/moments"
  agentrun delete --force "$ID"
  [ "$(wc -l < "$BUNDLE/moments")" -ge 10 ] || fail "few moments: $(cat "$BUNDLE/strace")"
  while read -r call n; do
    killed_at "$call" "$n" $prefix create --bundle "$BUNDLE" "$ID"
    run agentrun delete --force "$ID"
    assert_success || fail "delete --force after a kill at $call $n"
    left=$(leftovers)
    [ -z "$left" ] || fail "after a kill at $call $n:" "$left"
    count=$((count + 1))
  done < "$BUNDLE/moments"
  echo "# $count moments" >&3
  # And the id is free again.
  create
  assert_success
}

@test "create, oci policy" { each_moment_of_create oci; }

@test "create, strict policy" { each_moment_of_create strict; }

@test "start" {
  local prefix call n left
  prefix=$(runtime oci)
  wait_program
  create
  moments $prefix start "$ID" > "$BUNDLE/moments"
  agentrun delete --force "$ID"
  while read -r call n; do
    create
    assert_success
    killed_at "$call" "$n" $prefix start "$ID"
    # Created, running or stopped, but never without an answer.
    run agentrun state "$ID"
    assert_success || fail "state after a kill at $call $n"
    run agentrun delete --force "$ID"
    assert_success || fail "delete --force after a kill at $call $n"
    left=$(leftovers)
    [ -z "$left" ] || fail "after a kill at $call $n:" "$left"
  done < "$BUNDLE/moments"
}

@test "delete --force" {
  local prefix call n left
  prefix=$(runtime strict)
  wait_program
  detached strict create --bundle "$BUNDLE" "$ID"
  start
  moments $prefix delete --force "$ID" > "$BUNDLE/moments"
  while read -r call n; do
    detached strict create --bundle "$BUNDLE" "$ID"
    assert_success || fail "create before a kill at $call $n"
    start
    killed_at "$call" "$n" $prefix delete --force "$ID"
    run agentrun delete --force "$ID"
    assert_success || fail "delete --force after a kill at $call $n"
    left=$(leftovers)
    [ -z "$left" ] || fail "after a kill at $call $n:" "$left"
  done < "$BUNDLE/moments"
}

@test "run: the container does not outlive it without being known" {
  local prefix call n left
  prefix=$(runtime strict)
  program 'sleep 0.2'
  moments $prefix run --bundle "$BUNDLE" "$ID" > "$BUNDLE/moments"
  if [ "${KILL9_STEP:-3}" -eq 1 ]; then
    # What create does was looked at call by call above.
    awk 'NR % 4 == 0' "$BUNDLE/moments" > "$BUNDLE/some"
    mv -f "$BUNDLE/some" "$BUNDLE/moments"
  fi
  while read -r call n; do
    killed_at "$call" "$n" $prefix run --bundle "$BUNDLE" "$ID"
    run agentrun delete --force "$ID"
    assert_success || fail "delete --force after a kill at $call $n"
    left=$(leftovers)
    [ -z "$left" ] || fail "after a kill at $call $n:" "$left"
  done < "$BUNDLE/moments"
}

@test "the container's process is killed while it builds its root: create says so and leaves nothing" {
  local call n tracer _ tried=0
  wait_program
  # Calls that only the child makes.
  for call in pivot_root sethostname fsmount move_mount open_tree mount_setattr capset; do
    for n in 1 3; do
      # strace -f stays as long as the container does, so the end of create is told by a file; -I 2: it can be ended.
      rm -f "$BUNDLE/code"
      strace -I 2 -f -o "$BUNDLE/strace" -e "trace=$call" -e "inject=$call:signal=KILL:when=$n" \
        sh -c "$(runtime oci) create --bundle $BUNDLE $ID; echo \$? > $BUNDLE/code" > "$LOG" 2>&1 < /dev/null 3>&- &
      tracer=$!
      wait_for 20 test -s "$BUNDLE/code"
      kill "$tracer" 2> /dev/null || true
      wait "$tracer" || true
      status=$(cat "$BUNDLE/code")
      output=$(cat "$LOG")
      if grep -q 'killed by SIGKILL' "$BUNDLE/strace"; then
        tried=$((tried + 1))
        assert_status 1 || fail "$call $n"
        assert_clean || fail "$call $n"
      fi
      agentrun delete --force "$ID"
    done
  done
  [ "$tried" -ge 3 ] || fail "only $tried moments were hit"
}

@test "a system call that fails instead: one error, and nothing is left" {
  # ENOMEM at every call of create's own process, in turn.
  local prefix call n left
  prefix=$(runtime oci)
  wait_program
  moments $prefix create --bundle "$BUNDLE" "$ID" > "$BUNDLE/moments"
  agentrun delete --force "$ID"
  while read -r call n; do
    # Nobody asks close for its result; main's first three fcntl look whether 0 to 2 are open, and end without a word if not.
    case "$call $n" in "close "* | "wait"* | "fcntl "[123]) continue ;; esac
    timeout --kill-after=5 60 strace -o /dev/null -e "trace=$call" -e "inject=$call:error=ENOMEM:when=$n" \
      $prefix create --bundle "$BUNDLE" "$ID" > "$LOG" 2>&1 < /dev/null 3>&- && status=0 || status=$?
    output=$(cat "$LOG")
    if [ "$status" -ne 0 ]; then
      [ "$status" -eq 1 ] || fail "$call $n"
      [ "$(grep -c '^agentrun: ' <<< "$output")" -eq 1 ] || fail "$call $n: expected one error"
      left=$(leftovers)
      [ -z "$left" ] || fail "after ENOMEM at $call $n:" "$left"
    fi
    run agentrun delete --force "$ID"
    assert_success || fail "delete --force after ENOMEM at $call $n"
  done < "$BUNDLE/moments"
}
