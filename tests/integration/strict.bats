load helpers
# The built-in policy, against a config that asks for everything.

strict_output() {
  skip_unless_agentrun
  run_strict
}

@test "environment: only the listed names are kept, whatever the rest is called" {
  config '.process.env = ["PATH=/bin", "HOME=/tmp", "LANG=C", "LC_ALL=C", "AWS_SECRET_ACCESS_KEY=leak1", "DATABASE_URL=leak2",
    "SSH_AUTH_SOCK=leak3", "HTTP_PROXY=leak4", "path=leak5", "PYTHONPATH=/lib"]'
  program env
  strict_output
  assert_success
  assert_line PATH=/bin
  assert_line LC_ALL=C
  assert_line PYTHONPATH=/lib
  refute_contains leak
}

@test "environment: a caller may keep more names by annotation, never one that looks like a secret" {
  skip_unless_agentrun
  config '.process.env += ["MY_SETTING=kept", "MY_API_TOKEN=leak"]' '.annotations = {"org.agentrun.env.keep": "MY_SETTING"}'
  program env
  run_strict
  assert_success
  assert_line MY_SETTING=kept
  refute_contains leak
  config '.annotations = {"org.agentrun.env.keep": "MY_API_TOKEN"}'
  run_strict
  assert_error "org.agentrun.env.keep"
  assert_clean
}

@test "root: read-only, with writable /tmp, /var/tmp and /run that vanish" {
  program 'touch /x /etc/x /bin/x /home/user/x 2>&1 | grep -c "Read-only"; for d in /tmp /var/tmp /run; do echo data > $d/file && cat $d/file; done'
  strict_output
  assert_line 4
  assert_equal "$(grep -c '^data$' <<< "$output")" 3
  refute_file "$BUNDLE/rootfs/tmp/file"
  refute_file "$BUNDLE/rootfs/x"
}

@test "root: what the image has in /tmp and /run is not the container's" {
  echo leak > "$BUNDLE/rootfs/tmp/leftover"
  program 'ls /tmp /run'
  strict_output
  assert_success
  refute_contains leftover
}

@test "root: HOME and the working directory show the image's content and take writes that vanish" {
  echo "of the image" > "$BUNDLE/rootfs/home/user/file"
  mkdir "$BUNDLE/rootfs/project"
  echo "of the project" > "$BUNDLE/rootfs/project/file"
  config '.process.env = ["PATH=/bin", "HOME=/home/user"] | .process.cwd = "/project"'
  chown -R 0:0 "$BUNDLE/rootfs/home/user"
  program 'cat /home/user/file file; echo new > /home/user/new && echo changed > file && cat file'
  strict_output
  assert_success
  assert_line "of the image"
  assert_line "of the project"
  assert_line changed
  assert_equal "$(cat "$BUNDLE/rootfs/project/file")" "of the project"
  refute_file "$BUNDLE/rootfs/home/user/new"
}

@test "root: a working directory of /etc stays read-only" {
  config '.process.cwd = "/etc"'
  program 'echo x > new'
  strict_output
  assert_contains "Read-only file system"
}

@test "root: filling what is writable is ENOSPC, not the end" {
  config '.annotations = {"org.agentrun.memory": "64M"}'
  program 'dd if=/dev/zero of=/tmp/fill bs=1M count=600 2>&1 | tail -1; rm /tmp/fill; dd if=/dev/zero of=/run/fill bs=1M count=600; echo alive'
  strict_output
  assert_line alive
  assert_contains "No space left on device"
}

@test "root: inodes are limited too" {
  program 'cd /tmp; i=0; while mkdir d$i 2> /tmp/err; do i=$((i + 1)); [ $i -lt 200000 ] || break; done; cat /tmp/err; echo alive'
  config '.annotations = {"org.agentrun.deadline": "90s"}'
  strict_output
  assert_line alive
  assert_contains "No space left on device"
}

@test "root: /tmp is nosuid and nodev" {
  program 'awk "\$5 == \"/tmp\" { print \$6 }" /proc/self/mountinfo'
  strict_output
  assert_success
  assert_contains nosuid
  assert_contains nodev
}

@test "binds: what must never be inside makes create fail" {
  skip_unless_agentrun
  local source
  for source in / /etc /proc /sys /dev /run /root /var/run /etc/passwd /dev/null; do
    base_config > "$BUNDLE/config.json"
    config ".mounts += [{\"destination\": \"/m\", \"type\": \"bind\", \"source\": \"$source\", \"options\": [\"rbind\", \"ro\"]}]"
    run_strict
    assert_error "/mounts/" || fail "bind of $source"
    assert_clean
  done
}

@test "binds: a symlink to a refused source is seen through" {
  skip_unless_agentrun
  ln -s /etc "$BUNDLE/link"
  config ".mounts += [{\"destination\": \"/m\", \"type\": \"bind\", \"source\": \"$BUNDLE/link\", \"options\": [\"bind\"]}]"
  run_strict
  assert_error "/mounts/"
  config ".mounts[-1].source = \"$BUNDLE/rootfs/../link/../etc\""
  run_strict
  assert_error "/mounts/"
}

@test "binds: sockets, FIFOs and devices make create fail" {
  skip_unless_agentrun
  mkfifo "$BUNDLE/fifo"
  mknod "$BUNDLE/device" c 1 3
  python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$BUNDLE/socket"
  local name
  for name in fifo device socket; do
    base_config > "$BUNDLE/config.json"
    config ".mounts += [{\"destination\": \"/m\", \"type\": \"bind\", \"source\": \"$BUNDLE/$name\", \"options\": [\"bind\", \"ro\"]}]"
    run_strict
    assert_error "/mounts/" || fail "bind of a $name"
  done
}

@test "binds: others are read-only, nosuid, nodev, whatever was asked" {
  mkdir "$BUNDLE/source"
  config ".mounts += [{\"destination\": \"/m\", \"type\": \"bind\", \"source\": \"$BUNDLE/source\", \"options\": [\"rbind\", \"rw\", \"suid\", \"dev\", \"shared\"]}]"
  program 'awk "\$5 == \"/m\" { print \$6 }" /proc/self/mountinfo; touch /m/new'
  strict_output
  assert_matches '^ro,nosuid,nodev'
  assert_contains "Read-only file system"
  refute_file "$BUNDLE/source/new"
}

# As Podman's --secret: a directory made for the container, and each secret bound into it.
@test "binds: the engine's own directory has places for its other mounts, and is read-only" {
  local own
  own=$(dirname "$BUNDLE")/store/overlay-containers/$(printf 'ab%.0s' {1..32})/userdata
  mkdir -p "$(dirname "$own")"
  mv "$BUNDLE" "$own"
  BUNDLE=$own
  mkdir -p "$own/run/secrets" "$own/secrets"
  echo sesame > "$own/secrets/word"
  config ".mounts += [
    {\"destination\": \"/run/secrets\", \"type\": \"bind\", \"source\": \"$own/run/secrets\", \"options\": [\"rbind\", \"rprivate\"]},
    {\"destination\": \"/run/secrets/word\", \"type\": \"bind\", \"source\": \"$own/secrets/word\", \"options\": [\"bind\", \"rprivate\"]}]"
  program 'cat /run/secrets/word; touch /run/secrets/new; echo x > /run/secrets/word; awk "\$5 ~ /secrets/ { print \$5, substr(\$6, 1, 3) }" /proc/self/mountinfo'
  strict_output
  assert_line sesame
  assert_line "/run/secrets ro,"
  assert_line "/run/secrets/word ro,"
  assert_contains "/run/secrets/new: Read-only file system"
  refute_file "$own/run/secrets/new"
  [ "$(cat "$own/secrets/word")" = sesame ] || fail "the secret was written to"
}

@test "network: only lo, and it works" {
  program 'ls /sys/class/net; cat /proc/net/route | wc -l; ping -c 1 -w 1 1.1.1.1; nc -w 1 1.1.1.1 53; echo end'
  strict_output
  assert_line lo
  assert_line 1
  assert_matches '[Nn]etwork (is )?unreachable|Operation not permitted'
  assert_line end
}

@test "network: the host's, asked for, is replaced" {
  config 'del(.linux.namespaces[] | select(.type == "network"))'
  program 'readlink /proc/self/ns/net; cat /proc/net/dev | tail -n +3 | cut -d: -f1'
  strict_output
  assert_success
  refute_contains "$(readlink /proc/self/ns/net)"
  assert_equal "$(tail -n +2 <<< "$output" | tr -d ' ')" lo
}

@test "network: a namespace that an engine prepared is not joined" {
  skip_unless_agentrun
  unshare --net sh -c 'ip link add veth-inside type dummy 2> /dev/null; exec sleep 1000' 3>&- &
  local other=$!
  wait_for 5 sh -c "[ \"\$(readlink /proc/$other/ns/net)\" != '$(readlink /proc/self/ns/net)' ]"
  config "(.linux.namespaces[] | select(.type == \"network\")).path = \"/proc/$other/ns/net\""
  program 'cat /proc/net/dev | tail -n +3 | cut -d: -f1'
  run_strict
  kill -9 "$other"
  assert_equal "$(tr -d ' ' <<< "$output")" lo
}

@test "network: an interface that appears between create and start is not there at start" {
  skip_unless_agentrun
  program 'cat /proc/net/dev | tail -n +3 | cut -d: -f1 > /tmp/seen; cat /tmp/seen >&2; sleep 1000'
  detached strict create --bundle "$BUNDLE" "$ID"
  assert_success
  # As Podman does under --userns=auto: it configures /proc/PID/ns/net of the created container.
  nsenter --net="/proc/$(pid_of)/ns/net" ip link add engine0 type dummy || skip "no dummy interfaces in this kernel"
  start
  assert_success
  sleep 0.5
  output=$(cat "$LOG")
  assert_equal "$(tr -d ' \n' <<< "$output")" lo
}

@test "namespaces: the host's pid, ipc, uts and cgroup are replaced by new ones" {
  config '.linux.namespaces = [{"type": "mount"}]' 'del(.hostname)'
  program 'for n in pid ipc uts cgroup net; do readlink /proc/self/ns/$n; done; ls -d /proc/[0-9]* | wc -l'
  strict_output
  assert_success
  local name
  for name in pid ipc uts cgroup net; do refute_contains "$(readlink "/proc/self/ns/$name")"; done
  [ "$(tail -1 <<< "$output")" -lt 10 ] || fail "processes of the host are seen"
}

@test "namespaces: joining the host's by path is refused or replaced" {
  skip_unless_agentrun
  local type name
  for pair in pid:pid ipc:ipc uts:uts network:net; do
    type=${pair%:*} name=${pair#*:}
    base_config | jq --arg t "$type" --arg p "/proc/self/ns/$name" '(.linux.namespaces[] | select(.type == $t)).path = $p | del(.hostname)' > "$BUNDLE/config.json"
    program "readlink /proc/self/ns/$name"
    run_strict
    [ "$status" -ne 0 ] || refute_contains "$(readlink "/proc/self/ns/$name")" || fail "$type"
  done
}

@test "capabilities: all five sets are empty, no_new_privs is on" {
  config '.process.capabilities = (["CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_SYS_PTRACE"] as $c |
    {"bounding": $c, "effective": $c, "permitted": $c, "inheritable": $c, "ambient": $c}) | .process.noNewPrivileges = false'
  program 'grep -E "^(Cap|NoNewPrivs)" /proc/self/status | tr "\t" " "'
  strict_output
  assert_success
  assert_equal "$(grep -c '^Cap...: 0000000000000000$' <<< "$output")" 5
  assert_line "NoNewPrivs: 1"
}

@test "capabilities: a setuid program gives nothing" {
  config '.process.user = {"uid": 1000, "gid": 1000} | .process.noNewPrivileges = false'
  mkdir "$BUNDLE/rootfs/suid"
  cp "$BUNDLE/rootfs/bin/busybox" "$BUNDLE/rootfs/suid/busybox"
  chmod 4755 "$BUNDLE/rootfs/suid/busybox"
  program '/suid/busybox id -u'
  strict_output
  assert_output 1000
}

@test "limits: memory, swap, pids, CPU, files" {
  config '.linux.resources.memory = {"limit": 8589934592} | .linux.resources.pids = {"limit": -1}' \
    '.process.rlimits = [{"type": "RLIMIT_NOFILE", "hard": 1048576, "soft": 1048576}, {"type": "RLIMIT_CORE", "hard": 1000000, "soft": 1000000}]'
  program 'cat /proc/self/limits; nproc; sleep 1000'
  skip_unless_agentrun
  detached strict create --bundle "$BUNDLE" "$ID"
  assert_success
  start
  local memory pids
  memory=$(cgroup_of memory)
  pids=$(cgroup_of pids)
  assert_equal "$(cat "$memory"/memory.max "$memory"/memory.limit_in_bytes 2> /dev/null)" $((512 * 1024 * 1024))
  assert_equal "$(cat "$pids/pids.max")" 128
  wait_for 5 grep -q '^[0-9]*$' "$LOG"
  output=$(cat "$LOG")
  assert_matches '^Max open files +1024 +1024 '
  assert_matches '^Max core file size +0 +0 '
  assert_matches "^Max file size +$((256 * 1024 * 1024)) +$((256 * 1024 * 1024)) "
  assert_line 1
}

@test "limits: lower ones of the config stay" {
  skip_unless_agentrun
  config '.linux.resources.memory = {"limit": 134217728} | .linux.resources.pids = {"limit": 40}'
  wait_program
  detached strict create --bundle "$BUNDLE" "$ID"
  assert_success
  local memory
  memory=$(cgroup_of memory)
  assert_equal "$(cat "$memory"/memory.max "$memory"/memory.limit_in_bytes 2> /dev/null)" 134217728
  assert_equal "$(cat "$(cgroup_of pids)/pids.max")" 40
}

@test "limits: a fork bomb of two hundred stops at 128" {
  program 'i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i + 1)); done; echo all'
  strict_output
  assert_matches "fork|Resource temporarily unavailable"
  refute_matches '^all$'
}

@test "limits: memory beyond the limit is killed: the host is not touched" {
  config '.annotations = {"org.agentrun.memory": "32M"}'
  program 'head -c 200m /dev/zero | tail > /dev/null; echo "code $?"'
  strict_output
  assert_matches 'code 137|^$|Killed' || assert_status 137
}

@test "annotations: tighten is taken, loosen is refused by name" {
  skip_unless_agentrun
  local pair
  for pair in memory=16G pids=5000 cpus=64 deadline=30h deadline=soon memory=-1 memory=0 pids=x cpus=1e9; do
    base_config | jq --arg k "org.agentrun.${pair%%=*}" --arg v "${pair#*=}" '.annotations = {($k): $v}' > "$BUNDLE/config.json"
    run_strict
    assert_error "org.agentrun.${pair%%=*}" || fail "$pair"
    assert_clean
  done
}

@test "annotations of runtimes and systemd are without effect" {
  # run.oci.hooks.stdout writes a file of the host as root; seccomp_bpf_data replaces the filter.
  config ".annotations = {\"run.oci.hooks.stdout\": \"$BUNDLE/written\", \"run.oci.seccomp_bpf_data\": \"BgAAAAAA/38=\",
    \"org.systemd.property.ExecStart\": \"x\", \"run.oci.keep_original_groups\": \"1\", \"io.kubernetes.cri.container-type\": \"sandbox\"}"
  program 'grep -E "^Seccomp:" /proc/self/status; grep ^Groups /proc/self/status; unshare -n true'
  strict_output
  refute_file "$BUNDLE/written"
  assert_matches 'Seccomp:[[:space:]]+2'
  assert_matches "unshare.*($DENIED)"
}

@test "hooks of the config do not run" {
  printf '#!/bin/sh\ntouch %s/hooked\n' "$BUNDLE" > "$BUNDLE/hook"
  chmod +x "$BUNDLE/hook"
  config ".hooks = {\"createRuntime\": [{\"path\": \"$BUNDLE/hook\"}], \"poststart\": [{\"path\": \"$BUNDLE/hook\"}], \"poststop\": [{\"path\": \"$BUNDLE/hook\"}]}"
  strict_output
  assert_success
  refute_file "$BUNDLE/hooked"
}

@test "devices: only the standard ones, whatever the config adds" {
  config '.linux.devices = [{"path": "/dev/mem", "type": "c", "major": 1, "minor": 1}, {"path": "/dev/sda", "type": "b", "major": 8, "minor": 0}]' \
    '.linux.resources.devices = [{"allow": true, "access": "rwm"}]'
  mknod "$BUNDLE/rootfs/node" c 240 7
  chmod 0666 "$BUNDLE/rootfs/node"
  program 'ls /dev; head -c 1 /node'
  strict_output
  refute_matches '^mem$|^sda$'
  assert_contains "Operation not permitted"
}

@test "sysctls of the host are refused, and /proc/sys is read-only" {
  program 'echo 1 > /proc/sys/kernel/shmmax; echo 1 > /proc/sys/vm/drop_caches; echo end'
  strict_output
  assert_equal "$(grep -ciE 'read-only file system|permission denied' <<< "$output")" 2
}

@test "masks: what config.json forgot is masked all the same" {
  config '.linux.maskedPaths = [] | .linux.readonlyPaths = []'
  program 'wc -c < /proc/keys; wc -c < /proc/timer_list; head -c 1 /proc/kallsyms | wc -c; ls -A /sys/firmware | wc -l; echo c > /proc/sysrq-trigger; echo end'
  strict_output
  assert_line end
  refute_matches '^[1-9][0-9]*$'
}

@test "mount types: only harmless ones" {
  skip_unless_agentrun
  config '.mounts += [{"destination": "/m", "type": "debugfs", "source": "debugfs"}]'
  program 'ls /m | wc -l'
  run_strict
  [ "$status" -ne 0 ] || assert_line 0
}

@test "a user namespace inside, mount and ptrace of others are denied" {
  program 'unshare -U true; unshare -m true; mount -t tmpfs x /tmp; chroot / true; echo end'
  strict_output
  assert_line end
  [ "$(grep -cE "$DENIED" <<< "$output")" -ge 4 ] || fail "something was allowed"
}

@test "strict applies where nothing is said" {
  skip_unless_agentrun
  program 'touch /x; grep NoNewPrivs /proc/self/status | tr "\t" " "'
  POLICY='' run_bundle
  assert_contains "Read-only file system"
}

@test "a policy file that others can write to is refused" {
  skip_unless_agentrun
  echo '{"extends": "oci"}' > "$BUNDLE/policy.json"
  chmod 0666 "$BUNDLE/policy.json"
  POLICY=$BUNDLE/policy.json run_bundle
  assert_error "$BUNDLE/policy.json"
  chmod 0600 "$BUNDLE/policy.json"
  POLICY=$BUNDLE/policy.json run_bundle
  assert_success
  assert_output hello
}

@test "a policy that does not exist, or has an unknown key" {
  skip_unless_agentrun
  POLICY=nosuch run_bundle
  assert_error nosuch
  echo '{"extends": "strict", "netwrok": {"mode": "none"}}' > "$BUNDLE/policy.json"
  chmod 0600 "$BUNDLE/policy.json"
  POLICY=$BUNDLE/policy.json run_bundle
  assert_error /netwrok
  assert_clean
}
