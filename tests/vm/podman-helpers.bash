# For the files that drive Podman: the stage is one container (or pod) named $NAME.
bats_require_minimum_version 1.5.0

IMAGE=localhost/python

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
assert_equal() { [ "$1" = "$2" ] || fail "expected: $2" "     got: $1"; }

# Waits for a condition, at most `$1` seconds.
wait_for() {
  local until=$((SECONDS + $1))
  shift
  while ! "$@" > /dev/null 2>&1; do
    [ $SECONDS -lt $until ] || fail "not in time: $*" || return 1
    sleep 0.2
  done
}

# File descriptor 3 is bats' own: whoever keeps it open makes bats wait. Closed for the program, not for `run`, which
# tells there of its own failure.
outside() { "$@" 3>&- < /dev/null; }
in_terminal() { script --quiet --return --command "$*" /dev/null < /dev/null 3>&-; }
inspect() { podman inspect --format "$1" "${2:-$NAME}"; }

# Podman lets its client go before its cleanup process has turned "stopped" into "exited", and `podman wait` returns for
# either: so the state is asked for, with a bound.
has_state() { [ "$(inspect '{{.State.Status}}' "${2:-$NAME}")" = "$1" ]; }
wait_for_state() { wait_for 60 has_state "$@"; }
log_has() { podman logs "${2:-$NAME}" 2>&1 | grep -q -- "$1"; }
wait_for_log() { wait_for 60 log_has "$@"; }

# Neither state nor cgroup nor mount of a container, by its id. conmon and Podman's cleanup may still be at work.
nothing_of() {
  [ ! -e "/run/agentrun/$1" ] && [ -z "$(find /sys/fs/cgroup -type d -name "*$1*")" ] && ! grep -q "$1" /proc/self/mountinfo
}
