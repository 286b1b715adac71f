load helpers

# The administrator's directory, where the runtime was built to look for it. An overlay in our own mount namespace hides what
# the host has there.
additions_directory() { grep -aoE '/[A-Za-z0-9_./-]+/agentrun/seccomp\.d' "$RUNTIME" | head -1; }

setup_file() {
  local etc
  ADDITIONS=$(additions_directory)
  export ADDITIONS
  [ -n "$ADDITIONS" ] || return 0
  etc=${ADDITIONS%/agentrun/seccomp.d}
  export ETC=$etc
  [ -d "$etc" ] || skip "there is no $etc"
  mkdir "$SCRATCH/etc-upper" "$SCRATCH/etc-work"
  mount -t overlay -o "lowerdir=$etc,upperdir=$SCRATCH/etc-upper,workdir=$SCRATCH/etc-work" agentrun-test "$etc"
}
teardown_file() { [ -z "${ETC:-}" ] || umount "$ETC"; }

setup() {
  stage
  skip_unless_agentrun
  skip_if_rootless "write to the administrator's directory"
  [ -n "$ADDITIONS" ] || skip "the runtime names no directory of additions"
  rm -rf "$ADDITIONS"
  mkdir -p "$ADDITIONS"
  chmod 0755 "$ADDITIONS"
}

addition() { # NAME JSON
  echo "$2" > "$ADDITIONS/$1"
  chmod 0644 "$ADDITIONS/$1"
}
NO_MKDIR='{"cve": "CVE-2026-12345", "why": "a test", "deny": [{"syscalls": ["mkdir", "mkdirat"], "errno": "EIO"}]}'

create_strict() { detached strict create --bundle "$BUNDLE" "$ID"; }

@test "an addition counts from the next create on, and is in the report" {
  program 'mkdir /tmp/d; grep ^Seccomp_filters: /proc/self/status'
  run_strict
  assert_success
  refute_contains "mkdir:"
  assert_matches 'Seccomp_filters:[[:space:]]+1'
  addition mkdir.json "$NO_MKDIR"
  run_strict
  assert_contains "Input/output error"
  assert_matches 'Seccomp_filters:[[:space:]]+1'
  run agentrun report "$ID"
  assert_contains "seccomp addition $ADDITIONS/mkdir.json (CVE-2026-12345) denies mkdir, mkdirat"
}

@test "and for the next exec in a container that was made before it" {
  wait_program
  create_strict
  assert_success
  start
  assert_success
  run agentrun exec "$ID" /bin/mkdir /tmp/a < /dev/null
  assert_success
  addition mkdir.json "$NO_MKDIR"
  run agentrun exec "$ID" /bin/mkdir /tmp/b < /dev/null
  assert_failure
  assert_contains "Input/output error"
}

@test "conditions on arguments, by their low 32 bits" {
  addition usr1.json '{"deny": [{"syscalls": ["kill"], "args": [{"index": 1, "is": [10, "0x6"]}]}]}'
  program 'trap "echo usr2" USR2; kill -USR1 $$ || echo denied; kill -USR2 $$; sleep 0.1'
  run_strict
  assert_line denied
  assert_line usr2
}

@test "stacked on the config's profile, last; where that denies seccomp(2), before it" {
  addition mkdir.json "$NO_MKDIR"
  program 'mkdir /tmp/d; rmdir /tmp/d; grep ^Seccomp_filters: /proc/self/status'
  config '.linux.seccomp = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}]}'
  run_strict
  assert_contains "Input/output error"
  assert_matches 'Seccomp_filters:[[:space:]]+1'
  agentrun delete --force "$ID" || true
  config '.linux.seccomp.syscalls += [{"names": ["seccomp"], "action": "SCMP_ACT_ERRNO"}]'
  run_strict
  assert_contains "No space left on device"
  assert_matches 'Seccomp_filters:[[:space:]]+3'
}

@test "an addition and a profile that both deny seccomp(2) are refused" {
  addition seccomp.json '{"deny": [{"syscalls": ["seccomp"]}]}'
  program 'echo ran'
  run_strict
  assert_success
  assert_output ran
  config '.linux.seccomp = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["seccomp"], "action": "SCMP_ACT_ERRNO"}]}'
  create_strict
  assert_error "profile refuses seccomp\(2\), and so does an addition"
  assert_clean
}

@test "a malformed addition fails create, and exec, with its file and pointer" {
  wait_program
  create_strict
  assert_success
  start
  assert_success
  addition bad.json '{"deny": [{"syscalls": ["mkdri"]}]}'
  run agentrun exec "$ID" /bin/true < /dev/null
  assert_failure
  assert_contains "$ADDITIONS/bad.json /deny/0/syscalls/0"
  agentrun delete --force "$ID"
  create_strict
  assert_error "$ADDITIONS/bad.json /deny/0/syscalls/0.*mkdri: unknown"
  assert_clean
  local text
  for text in '' '{' '[]' '{}' '{"deny": []}' '{"deny": [{"syscalls": ["mkdir"]}], "allow": ["mount"]}' \
    '{"deny": [{"syscalls": ["mkdir"], "errno": "allow"}]}' '{"deny": [{"syscalls": ["execve"]}]}' \
    '{"deny": [{"syscalls": ["mkdir"], "args": [{"index": 0, "is": [4294967296]}]}]}'; do
    addition bad.json "$text"
    create_strict
    assert_error "$ADDITIONS/bad.json"
  done
  assert_clean
}

@test "a file or a directory that others can write to fails create" {
  program 'echo ran'
  addition mkdir.json "$NO_MKDIR"
  chmod 0666 "$ADDITIONS/mkdir.json"
  create_strict
  assert_error "$ADDITIONS/mkdir.json: others can write to it"
  chmod 0644 "$ADDITIONS/mkdir.json"
  chown 1000 "$ADDITIONS/mkdir.json"
  create_strict
  assert_error "$ADDITIONS/mkdir.json: owned by uid 1000"
  chown 0 "$ADDITIONS/mkdir.json"
  chmod 0777 "$ADDITIONS"
  create_strict
  assert_error "$ADDITIONS: others can write to it"
  chmod 0755 "$ADDITIONS"
  mv "$ADDITIONS/mkdir.json" "$ADDITIONS/elsewhere"
  ln -s elsewhere "$ADDITIONS/mkdir.json"
  create_strict
  assert_error "$ADDITIONS/mkdir.json: a symbolic link"
  assert_clean
}

@test "other files of the directory are nobody's additions; the policy oci has none" {
  addition README 'words'
  addition mkdir.json~ '{'
  addition .mkdir.json '{'
  program 'mkdir /tmp/d && echo made'
  run_strict
  assert_output made
  agentrun delete --force "$ID" || true
  addition mkdir.json "$NO_MKDIR"
  POLICY=oci run_bundle
  assert_output made
}
