load helpers

host_namespace() { readlink "/proc/self/ns/$1"; }

@test "every namespace of the config is new" {
  program 'for n in /proc/self/ns/*; do readlink $n; done'
  run_bundle
  assert_success
  local name
  for name in pid net ipc uts mnt cgroup; do refute_contains "$(host_namespace $name)"; done
}

@test "a namespace that is not in the config is the caller's" {
  local type name pair
  for pair in network:net ipc:ipc uts:uts cgroup:cgroup; do
    type=${pair%:*} name=${pair#*:}
    base_config | jq --arg type "$type" 'del(.linux.namespaces[] | select(.type == $type)) | del(.hostname)' > "$BUNDLE/config.json"
    [ "$type" != network ] || config '.mounts |= map(select(.type != "sysfs")) | .linux.maskedPaths = []'
    [ "$type" != ipc ] || config '.mounts |= map(select(.type != "mqueue"))'
    program "readlink /proc/self/ns/$name"
    run_bundle
    assert_success || fail "$type"
    assert_output "$(host_namespace "$name")"
  done
}

@test "a namespace is joined by path" {
  unshare --net --uts --ipc sleep 1000 3>&- &
  local other=$!
  wait_for 5 sh -c "[ \"\$(readlink /proc/$other/ns/net)\" != '$(host_namespace net)' ]"
  config "(.linux.namespaces[] | select(.type == \"network\")).path = \"/proc/$other/ns/net\"" \
    "(.linux.namespaces[] | select(.type == \"ipc\")).path = \"/proc/$other/ns/ipc\""
  program 'readlink /proc/self/ns/net; readlink /proc/self/ns/ipc'
  run_bundle
  local expected
  expected=$(readlink "/proc/$other/ns/net" "/proc/$other/ns/ipc")
  kill -9 "$other"
  assert_success
  assert_output "$expected"
}

@test "the pid namespace of another container is joined" {
  wait_program
  create_and_start
  local first=$ID pid
  pid=$(pid_of)
  ID=$ID.second
  base_config > "$BUNDLE/config.json"
  config "(.linux.namespaces[] | select(.type == \"pid\")).path = \"/proc/$pid/ns/pid\""
  program 'readlink /proc/self/ns/pid; echo $$'
  run_bundle
  assert_success
  assert_line "$(readlink "/proc/$pid/ns/pid")"
  refute_matches '^1$'
  agentrun delete --force "$first"
}

@test "a path that is no namespace, or of another type, is refused" {
  local path
  for path in /etc/passwd /nonexistent "/proc/self/ns/uts"; do
    base_config | jq --arg path "$path" '(.linux.namespaces[] | select(.type == "network")).path = $path' > "$BUNDLE/config.json"
    run_bundle
    assert_failure || fail "$path"
    assert_clean
  done
}

@test "a namespace given twice is refused" {
  config '.linux.namespaces += [{"type": "pid"}]'
  run_bundle
  assert_error namespace
}

@test "an unknown namespace is refused" {
  config '.linux.namespaces += [{"type": "nosuch"}]'
  run_bundle
  assert_error nosuch
}

@test "the network namespace has lo, and it is up" {
  program 'ls /sys/class/net; cat /sys/class/net/lo/flags; ping -c 1 -w 2 127.0.0.1 > /dev/null && echo reached'
  config '.process.capabilities.effective += ["CAP_NET_RAW"] | .process.capabilities.permitted += ["CAP_NET_RAW"] | .process.capabilities.bounding += ["CAP_NET_RAW"]'
  run_bundle
  assert_success
  assert_line lo
  assert_line 0x9
  assert_line reached
}

@test "hostname of the host is untouched" {
  local before
  before=$(hostname)
  config '.hostname = "changed"'
  run_bundle
  assert_success
  assert_equal "$(hostname)" "$before"
}

# Nobody in a user namespace may raise a hard limit, so it is raised from outside.
@test "a user namespace, and a hard limit above the caller's own" {
  local capabilities
  capabilities=0x$(awk '/^CapEff/ { print $2 }' /proc/self/status)
  ((capabilities >> 24 & 1)) || skip "no CAP_SYS_RESOURCE"
  config '.linux.namespaces += [{"type": "user"}]' \
    '.linux.uidMappings = [{"containerID": 0, "hostID": 200000, "size": 65536}]' \
    '.linux.gidMappings = [{"containerID": 0, "hostID": 300000, "size": 65536}]' \
    '.process.rlimits = [{"type": "RLIMIT_NOFILE", "hard": 2000, "soft": 1000}, {"type": "RLIMIT_NPROC", "hard": 3000, "soft": 3000}]' \
    'del(.linux.resources)'
  chown -hR 200000:300000 "$BUNDLE/rootfs"
  chmod 0755 "$BUNDLE"
  wait_program
  ulimit -Sn 500
  ulimit -Hn 500
  ulimit -Su 900
  ulimit -Hu 900
  create_and_start
  output=$(cat "/proc/$(pid_of)/limits")
  assert_matches '^Max open files +1000 +2000 '
  assert_matches '^Max processes +3000 +3000 '
  run agentrun exec "$ID" sh -c 'ulimit -Hn; ulimit -Sn'
  assert_output $'2000\n1000'
}

@test "a user namespace with id maps" {
  config '.linux.namespaces += [{"type": "user"}]' \
    '.linux.uidMappings = [{"containerID": 0, "hostID": 200000, "size": 65536}]' \
    '.linux.gidMappings = [{"containerID": 0, "hostID": 300000, "size": 65536}]' \
    'del(.linux.resources)'
  chown -hR 200000:300000 "$BUNDLE/rootfs"
  chmod 0755 "$BUNDLE"
  program 'cat /proc/self/uid_map /proc/self/gid_map | tr -s " "; id -u; readlink /proc/self/ns/user; touch /mine && stat -c %u /mine; echo > /dev/null && echo null'
  run_bundle
  assert_success
  assert_matches '^ ?0 200000 65536$'
  assert_matches '^ ?0 300000 65536$'
  assert_line 0
  assert_line null
  refute_contains "$(host_namespace user)"
  assert_equal "$(stat -c %u:%g "$BUNDLE/rootfs/mine")" 200000:300000
}

@test "root of a user namespace is nobody on the host" {
  config '.linux.namespaces += [{"type": "user"}]' \
    '.linux.uidMappings = [{"containerID": 0, "hostID": 200000, "size": 65536}]' \
    '.linux.gidMappings = [{"containerID": 0, "hostID": 200000, "size": 65536}]' 'del(.linux.resources)'
  chown -hR 200000:200000 "$BUNDLE/rootfs"
  wait_program
  create_and_start
  assert_equal "$(awk '/^Uid/ { print $2, $3, $4, $5 }' "/proc/$(pid_of)/status")" "200000 200000 200000 200000"
}

@test "exec into a user namespace" {
  config '.linux.namespaces += [{"type": "user"}]' \
    '.linux.uidMappings = [{"containerID": 0, "hostID": 200000, "size": 65536}]' \
    '.linux.gidMappings = [{"containerID": 0, "hostID": 200000, "size": 65536}]' 'del(.linux.resources)'
  chown -hR 200000:200000 "$BUNDLE/rootfs"
  wait_program
  create_and_start
  run agentrun exec --user 5:6 "$ID" id < /dev/null
  assert_success
  assert_contains "uid=5 gid=6"
}

@test "an id map without a user namespace is refused" {
  skip_unless_agentrun
  config '.linux.uidMappings = [{"containerID": 0, "hostID": 200000, "size": 65536}]'
  run_bundle
  assert_error "user namespace|uidMappings"
}

@test "the host's mounts do not change, whatever propagates" {
  config '.linux.rootfsPropagation = "private"'
  program 'mount | wc -l'
  local before
  before=$(mounts)
  run_bundle
  assert_success
  assert_equal "$(mounts)" "$before"
}

@test "time namespace offsets" {
  skip_unless_agentrun
  [ -e /proc/self/ns/time ] || skip "the kernel has no time namespaces"
  config '.linux.namespaces += [{"type": "time"}]' '.linux.timeOffsets = {"boottime": {"secs": 1000000}}'
  program 'cut -d. -f1 /proc/uptime'
  run_bundle
  assert_success
  [ "$output" -gt 1000000 ] || fail "no offset"
}

@test "the cgroup namespace is rooted at the container" {
  program 'cat /proc/self/cgroup'
  run_bundle
  assert_success
  refute_contains "$TEST_CGROUP"
}
