load helpers
# Shaped like the exploits: each tries, and then the host is looked at. They run under the oci policy with a generous
# config, since a defence that only the strict policy has is none for an engine that selects another.

host_secret() {
  rm -rf "$SCRATCH/host"
  mkdir -p "$SCRATCH/host"
  echo "of the host" > "$SCRATCH/host/secret"
}
host_unchanged() {
  assert_equal "$(ls -A "$SCRATCH/host")" secret
  assert_equal "$(cat "$SCRATCH/host/secret")" "of the host"
}

generous() {
  config '(["CAP_CHOWN","CAP_DAC_OVERRIDE","CAP_FSETID","CAP_FOWNER","CAP_MKNOD","CAP_NET_RAW","CAP_SETGID","CAP_SETUID","CAP_SETFCAP",
    "CAP_SETPCAP","CAP_NET_BIND_SERVICE","CAP_SYS_CHROOT","CAP_KILL","CAP_AUDIT_WRITE"] as $c
    | .process.capabilities = {"bounding": $c, "effective": $c, "permitted": $c}) | .process.noNewPrivileges = false'
}

# The runtime as a copy: an exploit that works destroys that one.
use_copy() {
  cp "$RUNTIME" "$SCRATCH/agentrun-copy"
  RUNTIME=$SCRATCH/agentrun-copy
  DIGEST=$(sha256sum < "$RUNTIME")
}

@test "CVE-2019-5736: a program that waits for the runtime's /proc/PID/exe" {
  use_copy
  generous
  # Opens whatever is not busybox as /proc/PID/exe, and writes through the descriptor once it is no longer running.
  cat > "$BUNDLE/rootfs/bin/attack" << 'ATTACK'
#!/bin/sh
echo up > /up
while :; do
  for process in /proc/[0-9]*; do
    target=$(readlink $process/exe) || continue
    case $target in /bin/busybox | '') continue ;; esac
    exec 9< $process/exe || continue
    echo "$target" >> /seen
    n=0
    while [ $n -lt 300 ]; do
      { echo evil > /proc/self/fd/9; } 2> /dev/null && { echo "wrote to $target" >> /won; break; }
      n=$((n + 1))
    done
    exec 9<&-
  done
done
ATTACK
  chmod +x "$BUNDLE/rootfs/bin/attack"
  program /bin/attack ''
  create_and_start
  wait_for 5 test -e "$BUNDLE/rootfs/up"
  local _
  for _ in $(seq 15); do agentrun exec "$ID" /bin/true < /dev/null > /dev/null 2>&1 || true; done
  agentrun delete --force "$ID"
  assert_equal "$(sha256sum < "$RUNTIME")" "$DIGEST"
  refute_file "$BUNDLE/rootfs/won"
  # What was seen is never the installed file.
  ! grep -qF "$RUNTIME" "$BUNDLE/rootfs/seen" 2> /dev/null
}

@test "CVE-2019-5736: #!/proc/self/exe, by run and by exec" {
  use_copy
  generous
  printf '#!/proc/self/exe\n' > "$BUNDLE/rootfs/bin/evil"
  chmod +x "$BUNDLE/rootfs/bin/evil"
  ln -s /proc/self/exe "$BUNDLE/rootfs/bin/self"
  local name
  for name in evil self; do
    config ".process.args = [\"/bin/$name\", \"list\"]"
    LIMIT=10 run_bundle
    refute_matches '^ID +PID'
    agentrun delete --force "$ID" || true
  done
  wait_program
  create_and_start
  for name in evil self; do
    run agentrun exec "$ID" "/bin/$name" list < /dev/null
    refute_matches '^ID +PID'
  done
  assert_equal "$(sha256sum < "$RUNTIME")" "$DIGEST"
}

@test "CVE-2024-21626: a working directory of /proc/self/fd/N" {
  host_secret
  local n
  for n in $(seq 3 25); do
    base_config > "$BUNDLE/config.json"
    config ".process.cwd = \"/proc/self/fd/$n\""
    program "pwd; cat ../../../../../../../../../..$SCRATCH/host/secret"
    LIMIT=10 run_bundle
    refute_contains "of the host"
    agentrun delete --force "$ID" 2> /dev/null || true
  done
  assert_clean
}

@test "CVE-2024-21626: the same by a symlink of the image, and by exec" {
  host_secret
  local n
  wait_program
  create_and_start
  for n in $(seq 3 25); do
    ln -sfn "/proc/self/fd/$n" "$BUNDLE/rootfs/link"
    run agentrun exec --cwd /link "$ID" cat "../../../../../../../../..$SCRATCH/host/secret" < /dev/null
    refute_contains "of the host"
    run agentrun exec --cwd "/proc/self/fd/$n" "$ID" cat "../../../../../../../../..$SCRATCH/host/secret" < /dev/null
    refute_contains "of the host"
    run agentrun exec "$ID" "/proc/self/fd/$n/../../../../../../../bin/sh" -c "echo escaped" < /dev/null
    refute_contains escaped
  done
}

@test "CVE-2024-21626: no descriptor of the host is open in a created or started container" {
  wait_program
  create
  local pid fd target
  pid=$(pid_of)
  for fd in /proc/"$pid"/fd/*; do
    [ ! -d "$fd/." ] || fail "a directory is open before start: $(readlink "$fd")"
  done
  start
  wait_for 5 grep -q ready "$LOG"
  for fd in /proc/"$pid"/fd/*; do
    case ${fd##*/} in 0 | 1 | 2) continue ;; esac
    target=$(readlink "$fd") || continue
    # busybox's shell opens its own copy of nothing; anything else is a leak.
    fail "descriptor ${fd##*/} is open: $target"
  done
}

@test "CVE-2025-31133: /dev/null of the image is a symlink where paths are masked" {
  generous
  local before
  before=$(cat /proc/sys/kernel/core_pattern)
  config 'del(.mounts[] | select(.destination == "/dev"))' '.linux.maskedPaths = ["/proc/version", "/proc/keys"]'
  ln -sfn /proc/sys/kernel/core_pattern "$BUNDLE/rootfs/dev/null"
  program 'cat /proc/version; echo "|/evil" > /proc/version; echo end'
  run_bundle
  if [ "$status" -eq 0 ]; then
    refute_contains "$before"
    refute_contains "Linux version"
  fi
  assert_equal "$(cat /proc/sys/kernel/core_pattern)" "$before"
}

@test "CVE-2025-31133: the same with a bind that brings a /dev of its own" {
  generous
  host_secret
  mkdir "$BUNDLE/dev"
  ln -s "$SCRATCH/host/secret" "$BUNDLE/dev/null"
  config "(.mounts[] | select(.destination == \"/dev\")) |= {\"destination\": \"/dev\", \"type\": \"bind\", \"source\": \"$BUNDLE/dev\", \"options\": [\"rbind\"]}" \
    '.linux.maskedPaths = ["/proc/version"]'
  program 'cat /proc/version; echo end'
  run_bundle
  refute_contains "of the host"
  refute_contains "Linux version"
  host_unchanged
}

@test "CVE-2025-52565: /dev/console and /dev/pts of the image are links to the host" {
  host_secret
  generous
  config '.process.terminal = true'
  rm -rf "$BUNDLE/rootfs/dev"
  mkdir "$BUNDLE/rootfs/dev"
  ln -s "$SCRATCH/host/secret" "$BUNDLE/rootfs/dev/console"
  ln -s "$SCRATCH/host" "$BUNDLE/rootfs/dev/pts"
  ln -s "$SCRATCH/host/ptmx" "$BUNDLE/rootfs/dev/ptmx"
  config 'del(.mounts[] | select(.destination == "/dev"))'
  program 'echo ran'
  "$here/recvtty" "$BUNDLE/tty" > /dev/null 2>&1 < /dev/null 3>&- &
  local receiver=$!
  wait_for 5 test -S "$BUNDLE/tty"
  create --console-socket "$BUNDLE/tty"
  [ "$status" -ne 0 ] || agentrun start "$ID" || true
  agentrun delete --force "$ID" || true
  kill "$receiver" 2> /dev/null || true
  host_unchanged
}

@test "CVE-2025-52881: a fake /proc gets no write of a sysctl or label" {
  host_secret
  mkdir -p "$BUNDLE/fake/self/attr" "$BUNDLE/fake/thread-self/attr" "$BUNDLE/fake/sys/kernel" "$BUNDLE/fake/sys/net/ipv4" "$BUNDLE/fake/1/attr"
  local file
  for file in self/attr/exec thread-self/attr/exec self/attr/apparmor 1/attr/exec sys/kernel/shmmax sys/net/ipv4/ip_forward self/oom_score_adj; do
    mkdir -p "$(dirname "$BUNDLE/fake/$file")"
    ln -s "$SCRATCH/host/secret" "$BUNDLE/fake/$file"
  done
  config "(.mounts[] | select(.destination == \"/proc\")) |= {\"destination\": \"/proc\", \"type\": \"bind\", \"source\": \"$BUNDLE/fake\", \"options\": [\"rbind\"]}" \
    '.linux.sysctl = {"kernel.shmmax": "4096", "net.ipv4.ip_forward": "1"}' '.process.oomScoreAdj = 100' '.linux.maskedPaths = []' '.linux.readonlyPaths = []'
  program 'echo ran'
  run_bundle
  host_unchanged
}

@test "CVE-2019-16884, -2023-27561: /proc of the image as a tmpfs, a file, or links within" {
  host_secret
  config '(.mounts[] | select(.destination == "/proc")) |= {"destination": "/proc", "type": "tmpfs", "source": "tmpfs"}' \
    '.linux.sysctl = {"kernel.shmmax": "4096"}' '.linux.maskedPaths = ["/proc/keys"]' '.linux.readonlyPaths = ["/proc/sys"]'
  local before
  before=$(cat /proc/sys/kernel/shmmax)
  program 'ls -A /proc | wc -l'
  run_bundle
  assert_equal "$(cat /proc/sys/kernel/shmmax)" "$before"
  base_config > "$BUNDLE/config.json"
  rmdir "$BUNDLE/rootfs/proc"
  echo file > "$BUNDLE/rootfs/proc"
  run_bundle
  assert_failure
  assert_clean
}

@test "CVE-2021-30465: the target of a mount is exchanged for a link to the host, again and again" {
  host_secret
  mkdir -p "$BUNDLE/rootfs/a/b"
  ln -s "$SCRATCH/host" "$BUNDLE/rootfs/link"
  python3 - "$BUNDLE/rootfs/a" "$BUNDLE/rootfs/link" << 'PYTHON' 3>&- &
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
a, b = (os.fsencode(p) for p in sys.argv[1:])
end = time.monotonic() + 25
while time.monotonic() < end:
    libc.renameat2(-100, a, -100, b, 2)  # RENAME_EXCHANGE
PYTHON
  local racer=$! n
  config '.mounts += [{"destination": "/a/b", "type": "tmpfs", "source": "tmpfs"}, {"destination": "/a/b/c", "type": "tmpfs", "source": "tmpfs"},
    {"destination": "/a/new/dir", "type": "tmpfs", "source": "tmpfs"}]'
  program true
  for n in $(seq 40); do
    agentrun run --bundle "$BUNDLE" "$ID" > /dev/null 2>&1 < /dev/null || true
    [ "$(ls -A "$SCRATCH/host")" = secret ] || break
    agentrun delete --force "$ID" > /dev/null 2>&1 || true
  done
  kill "$racer" 2> /dev/null || true
  wait "$racer" 2> /dev/null || true
  host_unchanged
}

@test "CVE-2021-30465: maskedPaths and devices while /dev of the image is exchanged" {
  host_secret
  mkdir -p "$BUNDLE/rootfs/a"
  ln -s "$SCRATCH/host" "$BUNDLE/rootfs/link"
  python3 - "$BUNDLE/rootfs/a" "$BUNDLE/rootfs/link" << 'PYTHON' 3>&- &
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
a, b = (os.fsencode(p) for p in sys.argv[1:])
end = time.monotonic() + 25
while time.monotonic() < end:
    libc.renameat2(-100, a, -100, b, 2)
PYTHON
  local racer=$! n
  config '.linux.devices = [{"path": "/a/null", "type": "c", "major": 1, "minor": 3}]' '.linux.maskedPaths += ["/a/secret"]' '.linux.readonlyPaths += ["/a"]'
  program true
  for n in $(seq 40); do
    agentrun run --bundle "$BUNDLE" "$ID" > /dev/null 2>&1 < /dev/null || true
    [ "$(ls -A "$SCRATCH/host")" = secret ] || break
    agentrun delete --force "$ID" > /dev/null 2>&1 || true
  done
  kill "$racer" 2> /dev/null || true
  wait "$racer" 2> /dev/null || true
  host_unchanged
}

@test "CVE-2016-9962: a program inside cannot look into an exec that joins" {
  generous
  config '.process.capabilities |= with_entries(.value += ["CAP_SYS_PTRACE"])'
  cat > "$BUNDLE/rootfs/bin/attack" << 'ATTACK'
#!/bin/sh
echo up > /up
while :; do
  for process in /proc/[0-9]*; do
    case $(cat $process/comm 2> /dev/null) in attack | sh | cat | readlink | ls | sleep | true | '') continue ;; esac
    for fd in $process/fd/*; do
      cat "$fd/../../../../../../../../../$1" >> /won 2> /dev/null
      target=$(readlink $fd) && case $target in /[a-z]*) [ -d "$fd/." ] && echo "$target" >> /directories ;; esac
    done
  done
done
ATTACK
  chmod +x "$BUNDLE/rootfs/bin/attack"
  host_secret
  program /bin/attack "$SCRATCH/host/secret"
  create_and_start
  wait_for 5 test -e "$BUNDLE/rootfs/up"
  local _
  for _ in $(seq 15); do agentrun exec "$ID" /bin/true < /dev/null > /dev/null 2>&1 || true; done
  agentrun delete --force "$ID"
  assert_equal "$(cat "$BUNDLE/rootfs/won" 2> /dev/null)" ""
  assert_equal "$(cat "$BUNDLE/rootfs/directories" 2> /dev/null)" ""
}

@test "a program with CAP_KILL and root's uid cannot signal a process of the host" {
  generous
  sleep 1000 3>&- &
  local sentinel=$!
  # Only the sentinel: were the namespace missing, "kill -9 -1" would end this machine.
  program "kill -9 $sentinel; echo end"
  run_bundle
  kill -0 "$sentinel" || fail "the host's process was killed"
  kill "$sentinel"
  # Under strict not even where the config asks for the host's pid namespace.
  skip_unless_agentrun
  sleep 1000 3>&- &
  sentinel=$!
  config 'del(.linux.namespaces[] | select(.type == "pid"))'
  run_strict
  kill -0 "$sentinel" || fail "the host's process was killed"
  kill "$sentinel"
}

@test "the cgroup file system cannot be used to run a program on the host" {
  # CVE-2022-0492: release_agent.
  generous
  config '.mounts += [{"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["ro", "nosuid", "noexec", "nodev"]}]'
  program 'mkdir -p /m; mount -t cgroup -o memory x /m && echo mounted; for f in /sys/fs/cgroup/*/release_agent /sys/fs/cgroup/release_agent; do [ -e $f ] && echo /evil > $f && echo wrote; done; unshare -Urm mount -t cgroup -o memory x /m && echo mounted; echo end'
  run_bundle
  assert_contains end
  refute_matches '^(mounted|wrote)$'
}

@test "the session keyring of the caller is not the container's" {
  skip_unless_agentrun
  program 'cat /proc/keys 2> /dev/null | wc -l'
  run_bundle
  assert_success
  assert_output 0
}

@test "an ambient descriptor of the runtime does not survive in a setuid program" {
  generous
  config '.process.user = {"uid": 1000, "gid": 1000}'
  mkdir "$BUNDLE/rootfs/suid"
  cp "$BUNDLE/rootfs/bin/busybox" "$BUNDLE/rootfs/suid/busybox"
  chmod 4755 "$BUNDLE/rootfs/suid/busybox"
  program '/suid/busybox ls /proc/self/fd | tr "\n" " "'
  run_bundle
  assert_success
  assert_output "0 1 2 3 "
}
