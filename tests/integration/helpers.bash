# What every integration file loads. tests/integration/run has set the stage: SCRATCH, UNIFIED, TEST_CGROUP, RUNTIME.
bats_require_minimum_version 1.5.0

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
POLICY=${POLICY:-oci}
LIMIT=${LIMIT:-60} # seconds that one call of the runtime may take

[ -n "${SCRATCH:-}" ] || { echo "start these files by tests/integration/run" >&2; exit 1; }

case $(basename "$RUNTIME") in agentrun*) IS_AGENTRUN=1 ;; *) IS_AGENTRUN= ;; esac

# ---- the stage of one test ----

setup() { stage; }

stage() {
  ID=t$BATS_TEST_NUMBER.$RANDOM
  ROOT=$SCRATCH/state/$ID
  BUNDLE=$SCRATCH/bundle.$ID
  LOG=$SCRATCH/log.$ID
  mkdir -p "$ROOT"
  chmod 0700 "$ROOT"
  : > "$AGENTRUN_AUDIT_LOG"
  MOUNTS_BEFORE=$(mounts)
  PROCESSES_BEFORE=
  PROCESSES_BEFORE=$(runtime_processes)
  make_bundle
}

teardown() {
  local left
  [ -n "${ID:-}" ] || return 0 # skipped before there was anything
  delete_all
  left=$(leftovers)
  remove "$BUNDLE" "$LOG" "$ROOT"
  if [ -n "$left" ]; then
    printf 'left behind:\n%s\n' "$left" >&2
    end_leftovers
    return 1
  fi
}

# Files of other ids of the container are not the user's own to remove: he does it where he is their root.
remove() {
  if [ -z "$ROOTLESS" ]; then
    rm -rf "$@"
  else
    rm -rf "$@" 2> /dev/null || unshare --map-root-user --map-auto rm -rf "$@"
  fi
}

# So that one failure does not become that of every test after it.
end_leftovers() {
  local pid group
  for pid in $(runtime_processes); do kill -9 "$pid" || true; done
  for group in $(cgroup_directories); do
    while read -r pid; do kill -9 "$pid" || true; done < "$group/cgroup.procs"
    wait_for 2 rmdir "$group" || true
  done
}

delete_all() {
  local id
  for id in $(containers); do
    agentrun delete --force "$id" > /dev/null 2>&1 < /dev/null || echo "delete --force $id failed" >&2
  done
}

containers() { [ ! -d "$ROOT" ] || find "$ROOT" -mindepth 1 -maxdepth 1 ! -name '.*' -type d -printf '%f\n'; }
# Sorted, each once: read in several parts, the kernel's list can name a mount twice.
mounts() { awk '{ print $5, $9, $10 }' /proc/self/mountinfo | sort -u; }

# Processes of the runtime itself: supervisors, helpers, a hung create.
runtime_processes() {
  local pid
  for pid in $(cat "${UNIFIED:-/nonexistent}/$TEST_CGROUP/runner/cgroup.procs" 2> /dev/null); do
    # The last program before the payload comes from a detached mount: its path is a bare name.
    case "$(readlink "/proc/$pid/exe" 2> /dev/null)" in "$(readlink -f "$RUNTIME")"* | */agentrun* | *memfd:*) ;; *) continue ;; esac
    grep -qx "$pid" <<< "$PROCESSES_BEFORE" || echo "$pid"
  done
}

cgroup_directories() {
  [ "$CGROUP_MANAGER" != systemd ] || find /sys/fs/cgroup -depth -type d -name "*$ID*"
  local tree
  for tree in /sys/fs/cgroup /sys/fs/cgroup/*; do
    [ -d "$tree/$TEST_CGROUP/c" ] && find "$tree/$TEST_CGROUP/c" -depth -mindepth 1 -type d -path "*$ID*"
  done
  return 0
}

# What a container that is gone must not have left: prints it, or nothing. A supervisor ends a moment after its container,
# so it gets two seconds.
leftovers() {
  local pid _
  for _ in $(seq 20); do [ -z "$(runtime_processes)$(cgroup_directories)" ] && break; sleep 0.1; done
  containers | sed 's/^/state /'
  cgroup_directories | sed 's/^/cgroup /'
  # Only what is there and was not: a mount point that somebody removes elsewhere is unmounted here too. And more than one
  # look: the kernel's list, read in several parts, can miss a line while mounts come and go.
  for _ in $(seq 20); do [ -z "$(new_mounts)" ] && break; sleep 0.1; done
  new_mounts | sed 's/^/mount /'
  for pid in $(runtime_processes); do echo "process $pid $(tr '\0' ' ' < "/proc/$pid/cmdline")"; done
  return 0
}

new_mounts() { comm -13 <(sort <<< "$MOUNTS_BEFORE") <(mounts | sort); }

assert_clean() {
  local left
  left=$(leftovers)
  [ -z "$left" ] || fail "left behind:" "$left"
}

# ---- the runtime ----

# A call as an engine makes it. File descriptor 3 is bats' own: whoever keeps it open makes bats wait for ever.
agentrun() {
  local options=(--root "$ROOT")
  [ "$CGROUP_MANAGER" = systemd ] && options+=(--systemd-cgroup)
  [ -n "$IS_AGENTRUN" ] && [ -n "$POLICY" ] && options+=(--policy "$POLICY")
  timeout --foreground --kill-after=5 "$LIMIT" "$RUNTIME" "${options[@]}" "$@" 3>&-
}

# The same under the strict policy.
strict() { POLICY=strict agentrun "$@"; }

# Runs a call whose container outlives it: its output goes to a file, since a pipe would stay open as long as the container.
# Sets `status` and `output` as `run` does.
detached() {
  status=0
  "$@" > "$LOG" 2>&1 < /dev/null || status=$?
  output=$(cat "$LOG")
}

create() { detached agentrun create --bundle "$BUNDLE" "$@" "$ID"; }
start() { run agentrun start "${1:-$ID}"; }
create_and_start() {
  create "$@"
  assert_success
  start
  assert_success
}
run_bundle() { run agentrun run --bundle "$BUNDLE" "$@" "$ID" < /dev/null; }
run_strict() { run strict run --bundle "$BUNDLE" "$@" "$ID" < /dev/null; }

state_of() { agentrun state "${2:-$ID}" | jq -r "$1"; }
pid_of() { state_of .pid "$@"; }

# Waits for a condition, at most `$1` seconds: wait_for 5 test -e FILE
wait_for() {
  local limit=$1 _
  shift
  for _ in $(seq $((limit * 20))); do
    "$@" > /dev/null 2>&1 && return 0
    sleep 0.05
  done
  fail "not within $limit s: $*"
}
has_status() { [ "$(state_of .status "${2:-$ID}")" = "$1" ]; }
gone() { ! kill -0 "$1" 2> /dev/null || grep -q '^State:[[:space:]]*Z' "/proc/$1/status"; }

# ---- bundles ----

make_bundle() {
  mkdir -p "$BUNDLE"
  cp -a "$SCRATCH/rootfs" "$BUNDLE/rootfs"
  base_config > "$BUNDLE/config.json"
}

base_config() {
  local path=/$TEST_CGROUP/c/$ID
  [ "$CGROUP_MANAGER" = systemd ] && path=system.slice:agentrun-test:$ID
  jq --arg path "$path" '.linux.cgroupsPath = $path' "$here/config.json"
}

# Changes config.json by jq filters, each applied to the result of the one before.
config() {
  local filter
  for filter in "$@"; do
    jq "$filter" "$BUNDLE/config.json" > "$BUNDLE/config.new" || fail "jq: $filter"
    mv "$BUNDLE/config.new" "$BUNDLE/config.json"
  done
}

# The program of the container: a line of shell, or its arguments one by one.
program() {
  if [ $# -eq 1 ]; then set -- /bin/sh -c "$1"; fi
  jq --argjson args "$(json_strings "$@")" '.process.args = $args' "$BUNDLE/config.json" > "$BUNDLE/config.new"
  mv "$BUNDLE/config.new" "$BUNDLE/config.json"
}

# The arguments as a JSON array.
json_strings() {
  local argument
  for argument in "$@"; do printf '%s' "$argument" | jq -Rs .; done | jq -sc .
}

# A program that does nothing until it is killed, and dies at once from SIGTERM although it is PID 1.
wait_program() { program 'trap "exit 143" TERM; echo ready; while :; do sleep 0.1; done'; }

# How a system call that a filter refuses may end: a program that probes takes either well.
DENIED="Operation not permitted|Function not implemented"

# ---- what must be there ----

skip_unless_agentrun() { [ -n "$IS_AGENTRUN" ] || skip "the runtime under test is not agentrun"; }
skip_if_rootless() { [ -z "$ROOTLESS" ] || skip "only root can: $1"; }
# The strict policy wants limits of memory and processes, and a user has what is delegated to him.
skip_unless_strict() {
  [ -z "$ROOTLESS" ] || grep -qw memory "$UNIFIED/$TEST_CGROUP/cgroup.controllers" || skip "no memory controller for users"
}
skip_unless() {
  local reason=$1
  shift
  "$@" > /dev/null 2>&1 || skip "$reason"
}

# The directory of a controller for the container, whatever the layout of the host; empty where there is none.
cgroup_of() {
  local controller=$1 pid=${2:-$(pid_of)} path
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    path=/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$pid/cgroup")
    [ "$controller" = unified ] || grep -qw "$controller" "$path/cgroup.controllers" || return 0
    echo "$path"
  elif [ "$controller" = unified ]; then
    [ -n "$UNIFIED" ] && echo "$UNIFIED$(sed -n 's/^0:://p' "/proc/$pid/cgroup")"
  else
    path=$(awk -F: -v c="$controller" '{ n = split($2, l, ","); for (i = 1; i <= n; i++) if (l[i] == c) print $3 }' "/proc/$pid/cgroup")
    [ -n "$path" ] && echo "/sys/fs/cgroup/$controller$path"
  fi
}
is_unified() { [ -e /sys/fs/cgroup/cgroup.controllers ]; }

# ---- assertions: each shows what there was ----

fail() {
  printf '%s\n' "$@" >&2
  [ -z "${output:-}" ] || printf 'status %s, output:\n%s\n' "${status:-?}" "$output" >&2
  return 1
}

assert_success() { [ "$status" -eq 0 ] || fail "expected success"; }
assert_status() { [ "$status" -eq "$1" ] || fail "expected status $1"; }
assert_failure() { [ "$status" -ne 0 ] || fail "expected a failure"; }
assert_output() { [ "$output" = "$1" ] || fail "expected: $1"; }
assert_line() { grep -qxF -- "$1" <<< "$output" || fail "no line: $1"; }
assert_contains() { [[ $output == *"$1"* ]] || fail "does not contain: $1"; }
assert_matches() { grep -qE -- "$1" <<< "$output" || fail "does not match: $1"; }
refute_contains() { [[ $output != *"$1"* ]] || fail "contains: $1"; }
refute_matches() { ! grep -qE -- "$1" <<< "$output" || fail "matches: $1"; }
assert_equal() { [ "$1" = "$2" ] || fail "expected: $2" "     got: $1"; }
assert_file() { [ -e "$1" ] || fail "no file $1"; }
refute_file() { [ ! -e "$1" ] && [ ! -L "$1" ] || fail "there is a file $1: $(ls -ld "$1")"; }

# One clear error: status 1 (or $2), exactly one line, of our form, that matches.
assert_error() {
  assert_status "${2:-1}" || return 1
  [ -z "$IS_AGENTRUN" ] || [ "$(wc -l <<< "$output")" -eq 1 ] || fail "expected one line" || return 1
  [ -z "$IS_AGENTRUN" ] || [[ $output == "agentrun: "* ]] || fail "expected: agentrun: <operation> <object>: <reason>" || return 1
  [ -z "$IS_AGENTRUN" ] || grep -qiE -- "$1" <<< "$output" || fail "the error does not match: $1"
}

# A record of the audit trail that matches a jq condition.
assert_audit() {
  jq -e -s --arg id "$ID" "map(select($1)) | length > 0" "$AGENTRUN_AUDIT_LOG" > /dev/null ||
    fail "no audit record with $1 in:" "$(cat "$AGENTRUN_AUDIT_LOG")"
}
