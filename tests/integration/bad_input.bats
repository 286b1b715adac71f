load helpers
# Each gets one clear error and leaves nothing: no mount, cgroup, process, namespace, file.

refused() { # REGEX [STATUS]
  assert_error "$1" "${2:-1}" && assert_clean
}

@test "config.json is missing, empty, a directory, unreadable" {
  rm "$BUNDLE/config.json"
  create
  refused config.json
  : > "$BUNDLE/config.json"
  create
  refused config.json
  rm "$BUNDLE/config.json"
  mkdir "$BUNDLE/config.json"
  create
  refused config.json
}

@test "config.json is a FIFO: no hang" {
  rm "$BUNDLE/config.json"
  mkfifo "$BUNDLE/config.json"
  SECONDS=0
  LIMIT=10 create
  [ "$SECONDS" -lt 8 ] || fail "it hung"
  refused config.json
}

@test "config.json is malformed" {
  local text
  for text in '{' '[]' 'null' '"text"' '{"ociVersion": "1.2.0",}' '{"a": 1} trailing' '{"ociVersion": "1.2.0" "root": 1}' $'\xff\xfe' '{"a": "\ud800"}' '{"ociVersion": NaN}'; do
    printf '%s' "$text" > "$BUNDLE/config.json"
    create
    assert_error config.json || fail "$text"
  done
  assert_clean
}

@test "config.json is truncated at any point" {
  skip_unless_agentrun
  local size n
  cp "$BUNDLE/config.json" "$BUNDLE/whole"
  size=$(stat -c %s "$BUNDLE/whole")
  for n in $(seq 1 97 $((size - 3))); do
    head -c "$n" "$BUNDLE/whole" > "$BUNDLE/config.json"
    create
    assert_error config.json || fail "at byte $n"
  done
  assert_clean
}

@test "config.json is 10,000 levels deep" {
  python3 -c 'print("{\"ociVersion\":\"1.2.0\",\"x\":" + "[" * 10000 + "]" * 10000 + "}")' > "$BUNDLE/config.json"
  create
  refused "config.json"
  python3 -c 'print("{\"a\":" * 10000 + "1" + "}" * 10000)' > "$BUNDLE/config.json"
  create
  refused "config.json"
}

@test "config.json is 64 MiB" {
  skip_unless_agentrun
  python3 -c 'print("{\"ociVersion\":\"1.2.0\",\"annotations\":{\"x\":\"" + "a" * (64 << 20) + "\"}}")' > "$BUNDLE/config.json"
  create
  refused "config.json"
}

@test "config.json never ends" {
  skip_unless_agentrun
  ln -sf /dev/zero "$BUNDLE/config.json"
  SECONDS=0
  LIMIT=20 create
  [ "$SECONDS" -lt 15 ] || fail "it hung"
  refused "config.json"
}

@test "wrong types are named by JSON pointer" {
  skip_unless_agentrun
  local pointer filter
  while read -r pointer filter; do
    base_config | jq "$filter" > "$BUNDLE/config.json"
    create
    assert_error "$pointer" || fail "$filter"
  done << 'TABLE'
/ociVersion .ociVersion = 1
/ociVersion .ociVersion = "abc"
/ociVersion .ociVersion = "2.0.0"
/ociVersion del(.ociVersion)
/root .root = "rootfs"
/root/path .root.path = 1
/root/path .root = {}
/root/readonly .root.readonly = "yes"
/process .process = []
/process/args .process.args = "sh"
/process/args/0 .process.args = [1]
/process/env .process.env = {}
/process/cwd .process.cwd = 5
/process/cwd .process.cwd = "relative"
/process/user/uid .process.user.uid = "0"
/process/terminal .process.terminal = 1
/process/rlimits/0/hard .process.rlimits = [{"type": "RLIMIT_CORE", "hard": -1, "soft": 0}]
/process/oomScoreAdj .process.oomScoreAdj = 1.5
/mounts .mounts = {}
/mounts/0/destination .mounts = [{"destination": 1}]
/mounts/0/options .mounts[0].options = "ro"
/hostname .hostname = []
/annotations .annotations = []
/annotations .annotations = {"a": 1}
/linux/namespaces .linux.namespaces = "pid"
/linux/namespaces/0/type .linux.namespaces = [{"type": 1}]
/linux/resources/memory/limit .linux.resources.memory = {"limit": "512M"}
/linux/resources/pids/limit .linux.resources.pids = {"limit": 1.5}
/linux/resources/cpu/shares .linux.resources.cpu = {"shares": -1}
/linux/uidMappings/0/size .linux.uidMappings = [{"containerID": 0, "hostID": 0, "size": 4294967296}]
/linux/maskedPaths .linux.maskedPaths = "/proc"
/linux/sysctl .linux.sysctl = {"kernel.shmmax": 1}
/linux/devices/0/type .linux.devices = [{"path": "/dev/x", "type": "z", "major": 1, "minor": 1}]
/hooks/prestart .hooks = {"prestart": {}}
/hooks/prestart/0/path .hooks = {"prestart": [{"path": 1}]}
TABLE
  assert_clean
}

@test "unknown fields are ignored, as the specification says" {
  config '.unknown = {"a": [1, 2, {"b": null}]} | .process.unknown = 1 | .linux.unknown = [] | .linux.resources.unknown = {} | .mounts[0].unknown = "x"'
  run_bundle
  assert_success
  assert_output hello
}

@test "strings with a NUL, or control characters" {
  skip_unless_agentrun
  local field
  for field in '.process.args[0]' '.process.cwd' '.root.path' '.hostname' '.mounts[0].destination' '.process.env[0]'; do
    base_config | jq "$field = \"/a\\u0000b\"" > "$BUNDLE/config.json"
    create
    assert_error . || fail "$field"
    refute_matches "$(printf '[\001-\010]')"
  done
  base_config | jq '.hostname = "a\u001b[31m\nb"' > "$BUNDLE/config.json"
  create
  [ "$status" -eq 0 ] || assert_equal "$(wc -l <<< "$output")" 1
  agentrun delete --force "$ID"
  assert_clean
}

@test "the rootfs is missing, a file, or a symlink to nowhere" {
  rm -rf "$BUNDLE/rootfs"
  create
  refused rootfs
  echo > "$BUNDLE/rootfs"
  create
  refused rootfs
  rm "$BUNDLE/rootfs"
  ln -s /nowhere "$BUNDLE/rootfs"
  create
  refused rootfs
}

@test "the root is the host's /" {
  skip_unless_agentrun
  config '.root.path = "/"'
  run_strict
  assert_failure
  assert_clean
}

@test "the rootfs has symlinks at /proc, /sys and /dev that point to the host" {
  rm -rf "$SCRATCH/host" # of another file, run before
  mkdir -p "$SCRATCH/host"
  local name
  for name in proc sys dev; do
    rmdir "$BUNDLE/rootfs/$name"
    ln -s "$SCRATCH/host" "$BUNDLE/rootfs/$name"
    create
    [ "$name" = dev ] || refused "/$name"
    [ -z "$(ls -A "$SCRATCH/host")" ] || fail "the host was written to: $(ls -A "$SCRATCH/host")"
    agentrun delete --force "$ID"
    rm "$BUNDLE/rootfs/$name"
    mkdir "$BUNDLE/rootfs/$name"
  done
}

@test "ids that are none" {
  local id
  for id in a/b ../up . .. .hidden -x 'a b' $'a\nb' 'ä' '' 'a:b' 'a%b' "$(printf 'x%.0s' $(seq 2000))" "$(printf 'x%.0s' $(seq 201))"; do
    detached agentrun create --bundle "$BUNDLE" -- "$id"
    assert_failure || fail "id '$id'"
    [ -z "$IS_AGENTRUN" ] || [ "$(wc -l <<< "$output")" -eq 1 ] || fail "more than one line for '$id'"
  done
  assert_clean
  refute_file "$SCRATCH/state/up"
}

@test "ids at the edge" {
  skip_unless_agentrun
  local id
  for id in a A.b_c+d-e 0 "$(printf 'x%.0s' $(seq 200))"; do
    program true
    run agentrun run --bundle "$BUNDLE" "$id" < /dev/null
    assert_success || fail "id '$id'"
  done
}

@test "commands other than create check the id as well" {
  skip_unless_agentrun
  mkdir -p "$SCRATCH/state/victim"
  local command
  for command in state start "delete --force" delete kill; do
    run agentrun $command ../victim
    assert_failure || fail "$command"
  done
  run agentrun exec ../victim true < /dev/null
  assert_failure
  assert_file "$SCRATCH/state/victim"
  rmdir "$SCRATCH/state/victim"
}

@test "uid and gid beyond 32 bits, negative, or with a fraction" {
  # CVE-2024-40635: an overflow became root.
  local value
  for value in 4294967296 18446744073709551616 -1 1.5 1e3 '"0"' null; do
    base_config | sed "s/\"uid\": 0/\"uid\": $value/" > "$BUNDLE/config.json"
    grep -q "\"uid\": $value" "$BUNDLE/config.json"
    run_bundle
    # 1e3 is the integer 1000 for JSON; both answers are right, root is not.
    [ "$status" -ne 0 ] || refute_contains "uid=0"
    [ "$value" = 1e3 ] || [ -z "$IS_AGENTRUN" ] || assert_error /process/user/uid || fail "$value"
  done
  assert_clean
}

@test "the largest uid" {
  skip_unless_agentrun
  config '.process.user.uid = 4294967294'
  program 'id -u'
  run_bundle
  assert_success
  assert_output 4294967294
  # (uid_t)-1 means "leave it" to the kernel: it would stay root.
  config '.process.user.uid = 4294967295'
  run_bundle
  assert_failure
  assert_clean
}

@test "a cwd that does not exist in a read-only root" {
  config '.process.cwd = "/does/not/exist"' '.root.readonly = true'
  run_bundle
  refused /does/not/exist
}

@test "a cwd that is a file" {
  config '.process.cwd = "/etc/passwd"'
  run_bundle
  refused /etc/passwd
}

@test "args empty, missing, or an empty string" {
  config '.process.args = []'
  create
  refused args
  config 'del(.process.args)'
  create
  refused args
  config '.process.args = [""]'
  create
  assert_failure
  assert_clean
}

@test "the program is a directory, not executable, or of another architecture" {
  config '.process.args = ["/etc"]'
  run_bundle
  refused "permission denied|is a directory" 126
  config '.process.args = ["/etc/passwd"]'
  run_bundle
  refused "permission denied" 126
  printf '\x7fELF\x02\x01\x01garbage' > "$BUNDLE/rootfs/bin/garbage"
  chmod +x "$BUNDLE/rootfs/bin/garbage"
  config '.process.args = ["/bin/garbage"]'
  run_bundle
  assert_failure
  assert_clean
}

@test "a script whose interpreter is missing" {
  printf '#!/no/such/interpreter\n' > "$BUNDLE/rootfs/bin/script"
  chmod +x "$BUNDLE/rootfs/bin/script"
  config '.process.args = ["/bin/script"]'
  run_bundle
  assert_failure
  assert_matches '[nN]o such file'
  assert_clean
}

@test "a hook that fails, hangs, or does not exist" {
  config '.hooks = {"createRuntime": [{"path": "/bin/false"}]}'
  create
  refused "hook #0"
  config '.hooks.createRuntime[0].path = "/no/such/hook"'
  create
  refused "/no/such/hook"
  config '.hooks.createRuntime[0] = {"path": "/bin/sleep", "args": ["sleep", "1000"], "timeout": 1}'
  create
  refused "hook #0"
}

@test "a console socket that is gone" {
  config '.process.terminal = true'
  create --console-socket "$BUNDLE/gone"
  refused "$BUNDLE/gone"
}

@test "a console socket with a path that is too long" {
  config '.process.terminal = true'
  create --console-socket "$BUNDLE/$(printf 'x%.0s' $(seq 150))"
  assert_failure
  assert_clean
}

@test "a pid file that cannot be written" {
  create --pid-file /no/such/directory/pid
  refused /no/such/directory
}

@test "a full disk under the state root" {
  mount -t tmpfs -o size=64k,mode=0700 full "$ROOT"
  dd if=/dev/zero of="$ROOT/.fill" bs=1k count=64 2> /dev/null || true
  create
  local result=$status text=$output left
  left=$(find "$ROOT" -mindepth 1 ! -name '.*' | head)
  umount "$ROOT"
  MOUNTS_BEFORE=$(mounts)
  status=$result output=$text
  refused "no space left"
  assert_equal "$left" ""
}

@test "a state root that cannot be used" {
  skip_unless_agentrun
  run "$RUNTIME" --root /proc/nosuch --policy oci create --bundle "$BUNDLE" "$ID" < /dev/null
  assert_error /proc/nosuch
  echo > "$BUNDLE/file"
  run "$RUNTIME" --root "$BUNDLE/file" --policy oci list
  assert_error "$BUNDLE/file"
  # One that others can write to: they could plant a container's state.
  mkdir "$BUNDLE/open"
  chmod 0777 "$BUNDLE/open"
  run "$RUNTIME" --root "$BUNDLE/open" --policy oci create --bundle "$BUNDLE" "$ID" < /dev/null
  assert_error "$BUNDLE/open"
}

@test "an unknown option is named" {
  detached agentrun create --no-such-option --bundle "$BUNDLE" "$ID"
  assert_failure
  assert_contains no-such-option
  run "$RUNTIME" --no-such-global list
  assert_failure
  assert_contains no-such-global
}

@test "an unknown command, no command, no id, too many" {
  run agentrun nosuchcommand
  assert_failure
  run "$RUNTIME"
  assert_failure || [ -z "$IS_AGENTRUN" ]
  run agentrun state
  assert_failure
  run agentrun state a b
  assert_failure
  run agentrun kill
  assert_failure
}

@test "an option without its value" {
  skip_unless_agentrun
  run agentrun create --bundle
  assert_error "--bundle"
  # Podman looks for these words to learn what restore can do.
  assert_matches "requires an argument|needs an argument"
}

@test "duplicate keys in config.json" {
  skip_unless_agentrun
  # Which of two counts must not depend on who reads: jq and other checkers take the last.
  sed 's/"noNewPrivileges": true/"noNewPrivileges": true, "noNewPrivileges": false/' "$BUNDLE/config.json" > "$BUNDLE/config.new"
  mv "$BUNDLE/config.new" "$BUNDLE/config.json"
  create
  [ "$status" -ne 0 ] || assert_equal "$(awk '/NoNewPrivs/ { print $2 }' "/proc/$(pid_of)/status")" 0
}
