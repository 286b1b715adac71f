# What people, or a prompt, add to `podman run` to let a container out: one fixed outcome for each, those of the table in
# agentrun-policy(5). Each test looks at what the kernel gave the program, at what the report says of it, and at the host
# afterwards. Rootful.
load podman-helpers

setup_file() {
  podman image exists "$IMAGE" || podman --log-level=error import /test/python.tar "$IMAGE" > /dev/null
}

setup() {
  NAME=attack$BATS_TEST_NUMBER.$RANDOM
  host_before=$(host_state)
}

teardown() {
  podman rm -f -t 0 "$NAME" > /dev/null 2>&1 < /dev/null || true
  output=$(diff <(echo "$host_before") <(host_state)) || fail "the host has changed"
}

# What these options could change of the host.
host_state() {
  (
    cd /proc/sys
    head -n 100 kernel/{core_pattern,hostname,domainname,modprobe,sysrq,shmmax,randomize_va_space} vm/overcommit_memory \
      fs/suid_dumpable net/ipv4/ip_forward 2> /dev/null
  )
  ls -ld /etc/x /etc/cron.d/x /x /tmp/hook.out /tmp/hook.err 2>&1
  sha256sum /etc/passwd /etc/shadow /usr/bin/agentrun
  cut -d' ' -f2- /proc/net/route | sort
  ipcs -q | grep -c 0x
  ls /dev
}

attack() { # OPTIONS IMAGE COMMAND...: the container stays, for its report
  run outside podman --log-level=error run --runtime=agentrun --network=none --name "$NAME" "$@"
}
# A change of the configuration is in the report, which outlives the container.
assert_reported() { # POINTER [RULE]
  local report
  report=$(agentrun report "$(inspect '{{.Id}}')") || fail "no report"
  grep -qE -- "^$1 .*${2:-strict /}" <<< "$report" || {
    output=$report
    fail "not reported: $1 ${2:-}"
  }
}
refused_at() { # POINTER REASON: one sentence, and nothing has run
  [ "$status" -eq 126 ] || fail "expected status 126"
  [ "$(grep -c . <<< "$output")" -eq 1 ] || fail "not one sentence"
  assert_matches "apply policy strict $1: "
  assert_matches "$2"
}
no_rights() {
  [ "$(grep -cE '^Cap(Inh|Prm|Eff|Bnd|Amb):[[:space:]]+0000000000000000$' <<< "$output")" -eq 5 ] || fail "capabilities"
  assert_matches '^NoNewPrivs:[[:space:]]+1$'
  assert_matches '^Seccomp:[[:space:]]+2$'
}
namespace_of_host() { readlink "/proc/self/ns/$1"; }

readonly rights='grep -E "^(Cap|NoNewPrivs|Seccomp:)" /proc/self/status'

# Tries what the rights would give, and prints "got NAME" for each that works.
readonly break_out='
import os, socket, subprocess
def attempt(name, call):
    try:
        call()
    except OSError:
        return
    print("got", name)
def run(*words):
    def call():
        if subprocess.run(words, capture_output=True).returncode != 0:
            raise OSError
    return call
def write(path):
    def call():
        with open(path, "w") as file:
            file.write("1")
    return call
attempt("mount", run("mount", "-t", "tmpfs", "x", "/mnt"))
attempt("remount", run("mount", "-o", "remount,rw", "/"))
attempt("device node", lambda: os.mknod("/tmp/disk", 0o60666, os.makedev(254, 0)))
attempt("user namespace", lambda: os.unshare(os.CLONE_NEWUSER))
attempt("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
attempt("chroot", lambda: os.chroot("/tmp"))
attempt("host name", lambda: socket.sethostname("taken"))
for path in ("/etc/x", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
             "/sys/kernel/uevent_helper", "/sys/fs/cgroup/cgroup.procs", "/proc/sys/kernel/shmmax"):
    attempt("write to " + path, write(path))
standard = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)]
more = []
for directory, _, names in os.walk("/dev"):
    for node in [os.path.join(directory, name) for name in names]:
        status = os.lstat(node)
        number = (os.major(status.st_rdev), os.minor(status.st_rdev))
        if status.st_rdev and number not in standard and number[0] != 136:
            more.append(node)
print("more devices:", more)
'

@test "--privileged: cut: no capability, no device, no write, all filters" {
  attack --privileged "$IMAGE" sh -c "$rights; python3 -c '$break_out'"
  assert_status 0
  no_rights
  refute_matches '^got '
  assert_line "more devices: []"
  assert_reported /process/capabilities/effective 'strict /capabilities/restrict'
  assert_reported /linux/devices/0 'strict /devices/standard_only'
  assert_reported /process/noNewPrivileges
}

@test "exec --privileged: cut as the container" {
  run outside podman --log-level=error run -d --runtime=agentrun --network=none --name "$NAME" "$IMAGE" sleep 1000
  assert_status 0
  run outside podman exec --privileged "$NAME" sh -c "$rights; python3 -c '$break_out'"
  assert_status 0
  no_rights
  refute_matches '^got '
}

@test "-v /:/host: refused" {
  attack -v /:/host "$IMAGE" ls /host
  refused_at '/mounts/[0-9]+/source' ' / may not be bound'
}

@test "-v of a directory above, in or beside what is refused: refused" {
  local source
  for source in /etc /var /run/podman /proc/1/root /dev /root /sys/kernel; do
    [ -e "$source" ] || continue
    attack -v "$source:/host" "$IMAGE" ls /host
    refused_at '/mounts/[0-9]+/source' 'may not be bound'
    podman rm -f -t 0 "$NAME" > /dev/null 2>&1
  done
}

@test "-v of a symbolic link to /: refused" {
  ln -s / "$BATS_TEST_TMPDIR/innocent"
  attack -v "$BATS_TEST_TMPDIR/innocent:/host" "$IMAGE" ls /host
  refused_at '/mounts/[0-9]+/source' 'may not be bound'
}

@test "-v /run/podman/podman.sock: refused" {
  mkdir -p /run/podman
  outside python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("/run/podman/podman.sock")'
  attack -v /run/podman/podman.sock:/run/podman/podman.sock "$IMAGE" ls -l /run/podman/podman.sock
  rm -f /run/podman/podman.sock
  refused_at '/mounts/[0-9]+/source' 'may not be bound|is a socket'
}

@test "-v of a socket elsewhere: refused" {
  outside python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$BATS_TEST_TMPDIR/api.sock"
  attack -v "$BATS_TEST_TMPDIR/api.sock:/api.sock" "$IMAGE" ls -l /api.sock
  refused_at '/mounts/[0-9]+/source' 'the source is a socket'
}

# Of a host without virtualization any other device does.
@test "--device /dev/kvm: cut: no node, no access" {
  local device=/dev/kvm number
  [ -e "$device" ] || device=/dev/vda
  attack --device "$device" "$IMAGE" python3 -c "
import os
print(os.path.exists('$device'))
$break_out"
  assert_status 0
  assert_line False
  assert_line "more devices: []"
  refute_matches '^got '
  assert_reported /linux/devices/0 'strict /devices/standard_only'
  number=$(stat -c '%Hr:%Lr' "$device")
  # A node under the name of a standard one would be that device all the same.
  podman rm -f -t 0 "$NAME" > /dev/null 2>&1
  attack --device "$device:/dev/full" "$IMAGE" python3 -c 'import os; s = os.stat("/dev/full"); print(f"{os.major(s.st_rdev)}:{os.minor(s.st_rdev)}")'
  refute_matches "^$number\$"
}

@test "--pid=host: cut: a namespace of its own" {
  attack --pid=host "$IMAGE" sh -c 'readlink /proc/self/ns/pid; ls -d /proc/[0-9]* | wc -l'
  assert_status 0
  [ "$(head -1 <<< "$output")" != "$(namespace_of_host pid)" ] || fail "the host's pid namespace"
  [ "$(tail -1 <<< "$output")" -lt 10 ] || fail "processes of the host are seen"
  assert_reported /linux/namespaces/- 'strict /namespaces/private_all'
}

@test "--network=host: cut: only lo" {
  run outside podman --log-level=error run --runtime=agentrun --network=host --name "$NAME" "$IMAGE" \
    sh -c 'readlink /proc/self/ns/net; tail -n +3 /proc/net/dev | cut -d: -f1'
  assert_status 0
  [ "$(head -1 <<< "$output")" != "$(namespace_of_host net)" ] || fail "the host's network namespace"
  [ "$(tail -n +2 <<< "$output" | tr -d ' ')" = lo ] || fail "more than lo"
  assert_reported /linux/namespaces/- 'strict /network/mode'
}

@test "--ipc=host: cut: a namespace and a /dev/shm of its own" {
  echo secret > "/dev/shm/$NAME"
  attack --ipc=host "$IMAGE" sh -c 'readlink /proc/self/ns/ipc; ls /dev/shm'
  rm -f "/dev/shm/$NAME"
  assert_status 0
  [ "$(head -1 <<< "$output")" != "$(namespace_of_host ipc)" ] || fail "the host's ipc namespace"
  refute_matches "$NAME"
  assert_reported /linux/namespaces/- 'strict /namespaces/private_all'
}

@test "--uts=host, --cgroupns=host: cut: namespaces of its own" {
  attack --uts=host --cgroupns=host "$IMAGE" sh -c 'readlink /proc/self/ns/uts; readlink /proc/self/ns/cgroup'
  assert_status 0
  [ "$(sed -n 1p <<< "$output")" != "$(namespace_of_host uts)" ] || fail "the host's uts namespace"
  [ "$(sed -n 2p <<< "$output")" != "$(namespace_of_host cgroup)" ] || fail "the host's cgroup namespace"
}

@test "--security-opt seccomp=unconfined: cut: the policy's filter" {
  attack --security-opt seccomp=unconfined "$IMAGE" sh -c "$rights; python3 -c '$break_out'"
  assert_status 0
  no_rights
  refute_matches '^got '
}

@test "--security-opt apparmor=unconfined: cut: the policy's profile where it is loaded, a note where it is not" {
  attack --security-opt apparmor=unconfined "$IMAGE" cat /proc/self/attr/apparmor/current
  if grep -q '^agentrun-strict ' /sys/kernel/security/apparmor/profiles; then
    assert_status 0
    assert_output "agentrun-strict (enforce)"
    assert_reported /process/apparmorProfile 'strict /apparmor/profile'
  else
    run agentrun report "$(inspect '{{.Id}}')"
    assert_matches '^note: AppArmor profile agentrun-strict is not loaded here'
  fi
}

@test "--security-opt no-new-privileges=false, label=disable, mask and unmask=ALL: cut" {
  attack --security-opt no-new-privileges=false --security-opt label=disable --security-opt unmask=ALL "$IMAGE" \
    sh -c "$rights; python3 -c '$break_out'; wc -c < /proc/kallsyms; wc -c < /proc/kcore"
  no_rights
  refute_matches '^got '
  refute_matches '^[1-9][0-9]*$'
}

@test "--cap-add ALL: cut: none" {
  attack --cap-add ALL "$IMAGE" sh -c "$rights; python3 -c '$break_out'"
  assert_status 0
  no_rights
  refute_matches '^got '
  assert_reported /process/capabilities/bounding 'strict /capabilities/restrict'
}

@test "--sysctl kernel.core_pattern: refused by Podman, and cut where an engine lets it through" {
  attack --sysctl kernel.core_pattern=/tmp/taken "$IMAGE" true
  [ "$status" -ne 0 ] || fail "it ran"
  assert_matches core_pattern
  # The configuration that such an engine would write.
  mkdir -p "$BATS_TEST_TMPDIR/bundle/rootfs"
  tar -C "$BATS_TEST_TMPDIR/bundle/rootfs" -xf /test/python.tar
  agentrun spec --bundle "$BATS_TEST_TMPDIR/bundle"
  jq '.process.terminal = false | .process.args = ["true"]
    | .linux.sysctl = {"kernel.core_pattern": "|/tmp/taken", "kernel.modprobe": "/tmp/taken", "vm.overcommit_memory": "1"}' \
    "$BATS_TEST_TMPDIR/bundle/config.json" > "$BATS_TEST_TMPDIR/config.json"
  mv "$BATS_TEST_TMPDIR/config.json" "$BATS_TEST_TMPDIR/bundle/"
  run outside agentrun run --bundle "$BATS_TEST_TMPDIR/bundle" "$NAME"
  assert_status 0
  run agentrun report "$NAME"
  assert_matches '/linux/sysctl/kernel.core_pattern .*strict /sysctl/namespaced_only'
  assert_matches '/linux/sysctl/kernel.modprobe .*strict /sysctl/namespaced_only'
  assert_matches '/linux/sysctl/vm.overcommit_memory .*strict /sysctl/namespaced_only'
}

@test "--sysctl of a namespace: its own, never the host's" {
  attack --sysctl net.ipv4.ip_unprivileged_port_start=0 --sysctl kernel.shmmax=123456 "$IMAGE" \
    cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/kernel/shmmax
  assert_status 0
  assert_output $'0\n123456'
}

@test "--env-host: cut to the names that pass" {
  run env AWS_SECRET_ACCESS_KEY=leak1 GITHUB_TOKEN=leak2 SSH_AUTH_SOCK=/leak3 KUBECONFIG=/leak4 PGPASSWORD=leak5 \
    podman --log-level=error run --runtime=agentrun --network=none --name "$NAME" --env-host "$IMAGE" env 3>&- < /dev/null
  assert_status 0
  refute_matches leak
  assert_matches '^PATH='
  assert_reported '/process/env/[0-9A-Z_-]*' 'strict /env'
}

@test "--annotation io.kubernetes.cri.container-type=sandbox: ignored, no pod's rights" {
  attack --annotation io.kubernetes.cri.container-type=sandbox --annotation io.kubernetes.cri.sandbox-id=x "$IMAGE" \
    sh -c "$rights; tail -n +3 /proc/net/dev | cut -d: -f1 | grep -c ."
  assert_status 0
  no_rights
  [ "$(tail -1 <<< "$output")" = 1 ] || fail "more than lo"
  assert_reported /annotations/io.kubernetes.cri.container-type 'strict /annotations/ignore_runtime'
}

@test "--annotation run.oci.hooks.stdout: ignored, nothing is written" {
  attack --annotation run.oci.hooks.stdout=/tmp/hook.out --annotation run.oci.hooks.stderr=/tmp/hook.err "$IMAGE" echo ran
  assert_status 0
  assert_output ran
  [ ! -e /tmp/hook.out ] && [ ! -e /tmp/hook.err ] || fail "written"
  assert_reported /annotations/run.oci.hooks.stdout 'strict /annotations/ignore_runtime'
}

@test "--annotation run.oci.keep_original_groups, run.oci.seccomp.receiver and others: ignored" {
  attack --annotation run.oci.keep_original_groups=1 --annotation run.oci.seccomp.receiver=/tmp/none \
    --annotation run.oci.handler=krun --annotation run.oci.systemd.subgroup=../../.. \
    --annotation org.systemd.property.User="'root'" "$IMAGE" echo ran
  assert_status 0
  assert_output ran
  assert_reported /annotations/run.oci.handler 'strict /annotations/ignore_runtime'
  assert_reported /annotations/org.systemd.property.User 'strict /annotations/ignore_runtime'
}

@test "--annotation that would loosen: refused" {
  attack --annotation org.agentrun.deadline=100h "$IMAGE" echo ran
  [ "$status" -ne 0 ] || fail "it ran"
  assert_matches 'org.agentrun.deadline'
  refute_matches '^ran$'
}

# The stages that reach a runtime. "precreate" and "poststop" are Podman's own: it runs them itself, outside of any runtime.
@test "--hooks-dir: cut: the hook does not run" {
  mkdir -p "$BATS_TEST_TMPDIR/hooks"
  printf '#!/bin/sh\ntouch /etc/x\n' > "$BATS_TEST_TMPDIR/hook"
  chmod +x "$BATS_TEST_TMPDIR/hook"
  printf '{"version": "1.0.0", "hook": {"path": "%s"}, "when": {"always": true}, "stages": ["prestart", "createRuntime", "createContainer", "startContainer", "poststart"]}' \
    "$BATS_TEST_TMPDIR/hook" > "$BATS_TEST_TMPDIR/hooks/x.json"
  run outside podman --log-level=error --hooks-dir "$BATS_TEST_TMPDIR/hooks" run --runtime=agentrun --network=none --name "$NAME" "$IMAGE" echo ran
  assert_status 0
  assert_output ran
  [ ! -e /etc/x ] || fail "the hook ran"
  local stage
  for stage in prestart createRuntime createContainer startContainer poststart; do
    assert_reported "/hooks/$stage/0" 'strict /hooks/refuse_config'
  done
}

@test "all at once" {
  run outside podman --log-level=error run --runtime=agentrun --name "$NAME" --privileged --pid=host --network=host --ipc=host \
    --uts=host --cgroupns=host --cap-add ALL --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
    --user 0 "$IMAGE" sh -c "$rights; python3 -c '$break_out'; for n in pid net ipc uts cgroup; do readlink /proc/self/ns/\$n; done"
  assert_status 0
  no_rights
  refute_matches '^got '
  assert_line "more devices: []"
  local name
  for name in pid net ipc uts cgroup; do refute_matches "$(namespace_of_host $name | tr -d '[]')"; done
}
