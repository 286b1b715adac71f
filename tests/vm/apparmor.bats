# The profile agentrun-strict, loaded as a package loads it: on whom it is, what it alone denies, and that engines can still
# stop what is under it. Rootful.
load podman-helpers

setup_file() {
  podman image exists "$IMAGE" || podman --log-level=error import /test/python.tar "$IMAGE" > /dev/null
  mkdir -p "$BATS_FILE_TMPDIR/bundle/rootfs"
  tar -C "$BATS_FILE_TMPDIR/bundle/rootfs" -xf /test/python.tar
}

setup() {
  NAME=armor$BATS_TEST_NUMBER.$RANDOM
  BUNDLE=$BATS_FILE_TMPDIR/bundle
}

teardown() {
  podman rm -f -t 0 "$NAME" "$NAME.other" > /dev/null 2>&1 < /dev/null || true
  agentrun delete --force "$NAME" > /dev/null 2>&1 || true
  [ -z "${victim:-}" ] || kill "$victim" 2> /dev/null || true
}

label_of() { tr -d '\0' < "/proc/$1/attr/apparmor/current"; }
detached() { # OPTIONS IMAGE COMMAND...
  run outside podman --log-level=error run -d --runtime=agentrun --network=none --name "$NAME" "$@"
  assert_status 0
}
# With all rights, no filter and a pid namespace that is the host's: what fails fails by the profile.
bare() { # PROFILE PROGRAM [JQ]
  printf '{"extends": "oci", "apparmor": {"profile": "%s"}}' "$1" > "$BATS_TEST_TMPDIR/policy.json"
  agentrun spec --bundle "$BATS_TEST_TMPDIR" 2> /dev/null || true
  jq --arg program "$2" --arg root "$BUNDLE/rootfs" '
    ["CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_KILL", "CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_SYS_CHROOT", "CAP_MKNOD", "CAP_DAC_OVERRIDE"] as $all
    | .process.terminal = false | .process.args = ["python3", "-c", $program] | .process.noNewPrivileges = false
    | .process.capabilities = {bounding: $all, effective: $all, permitted: $all}
    | .root = {path: $root, readonly: false} | .linux.namespaces |= map(select(.type != "pid"))
    | del(.linux.seccomp, .linux.maskedPaths, .linux.readonlyPaths)
    | .mounts |= map(if .type == "sysfs" then .options -= ["ro"] else . end)
    | '"${3:-.}" "$BATS_TEST_TMPDIR/config.json" > "$BATS_TEST_TMPDIR/new.json"
  mv "$BATS_TEST_TMPDIR/new.json" "$BATS_TEST_TMPDIR/config.json"
  run outside agentrun --policy "$BATS_TEST_TMPDIR/policy.json" run --bundle "$BATS_TEST_TMPDIR" "$NAME"
}

# What is denied prints "denied NAME", what is not "got NAME".
attempts() { # VICTIM
  cat << END
import os, signal, socket, subprocess
def attempt(name, call):
    try:
        call()
        print("got", name)
    except OSError:
        print("denied", name)
def run(*words):
    def call():
        if subprocess.run(words, capture_output=True).returncode != 0:
            raise OSError
    return call
def write(path):
    return lambda: os.close(os.open(path, os.O_WRONLY))
child = subprocess.Popen(["sleep", "1000"])
END
  cat << 'END'
attempt("write a file", lambda: open("/root/file", "w").write("x"))
attempt("write comm", lambda: open("/proc/self/comm", "w").write("name"))
attempt("tcp on lo", lambda: socket.create_server(("127.0.0.1", 0)))
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
attempt("unix", lambda: socket.socketpair())
attempt("signal to itself", lambda: os.kill(os.getpid(), signal.SIGCONT))
attempt("read the child", lambda: os.readlink(f"/proc/{child.pid}/exe"))
attempt("signal to the child", lambda: os.kill(child.pid, signal.SIGKILL))
attempt("chroot", lambda: os.chroot("/"))
attempt("device node", lambda: os.mknod("/root/node", 0o60600, os.makedev(254, 0)))
attempt("mount", run("mount", "-t", "tmpfs", "x", "/root"))
attempt("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
attempt("netlink socket", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
attempt("alg socket", lambda: socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET, 0))
attempt("vsock socket", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM, 0))
attempt("own mem", write("/proc/self/mem"))
for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/kernel/shmmax", "/sys/power/state",
             "/sys/kernel/mm/transparent_hugepage/enabled"):
    attempt("write " + path, write(path))
END
  cat << END
attempt("read the host's process", lambda: os.readlink("/proc/$1/exe"))
attempt("memory of the host's process", lambda: os.close(os.open("/proc/$1/mem", os.O_RDONLY)))
attempt("signal to the host's process", lambda: os.kill($1, 0))
attempt("user namespace", lambda: os.unshare(os.CLONE_NEWUSER))
END
}

readonly allowed='write a file
write comm
tcp on lo
udp
unix
signal to itself
read the child
signal to the child'

@test "both profiles are loaded and enforced" {
  run cat /sys/kernel/security/apparmor/profiles
  assert_matches '^agentrun-strict \(enforce\)$'
  assert_matches '^:agentrun:(//)?agentrun-strict \(enforce\)$'
  assert_matches '^agentrun \(unconfined\)$'
}

@test "init and exec are under the engine's profile and ours" {
  detached "$IMAGE" sleep 1000
  run label_of "$(inspect '{{.State.Pid}}')"
  assert_matches '^containers-default-[^/]*//&:agentrun:(//)?agentrun-strict \(enforce\)$'
  run outside podman exec "$NAME" cat /proc/self/attr/apparmor/current
  assert_matches 'agentrun-strict'
  assert_matches '\(enforce\)$'
  run agentrun report "$(inspect '{{.Id}}')"
  assert_matches '/process/apparmorProfile .*strict /apparmor/profile'
}

@test "without a profile of the config: ours alone" {
  bare agentrun-strict 'print(open("/proc/self/attr/apparmor/current").read())'
  assert_status 0
  assert_line 'agentrun-strict (enforce)'
}

@test "a program under the stack signals itself and its children" {
  run outside podman --log-level=error run --runtime=agentrun --network=none --name "$NAME" "$IMAGE" python3 -c '
import os, signal, subprocess
os.kill(os.getpid(), signal.SIGCONT)
for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGURG):
    child = subprocess.Popen(["sleep", "1000"])
    child.send_signal(number)
    if number != signal.SIGURG:
        print(child.wait())'
  assert_status 0
  assert_output $'-15\n-9'
}

@test "an exec under the stack signals the container's processes" {
  detached "$IMAGE" sh -c 'sleep 1000 & while :; do wait; done'
  run outside podman exec "$NAME" sh -c 'for p in /proc/[0-9]*; do [ "$(cat $p/comm)" = sleep ] && kill "${p#/proc/}" && echo killed; done; exit 0'
  assert_status 0
  assert_output killed
}

@test "what the profile alone denies, and what it leaves" {
  sleep 1000 3>&- &
  victim=$!
  # Without it all of this works, or this test would show nothing.
  bare none "$(attempts $victim)"
  assert_status 0
  refute_matches '^denied (mount|chroot|raw|packet|netlink|user|own mem|read the host|memory|signal)'
  refute_matches '^denied write'
  agentrun delete --force "$NAME" > /dev/null 2>&1 || true
  bare agentrun-strict "$(attempts $victim)"
  assert_status 0
  assert_equal "$(sed -n 's/^got //p' <<< "$output")" "$allowed"
}

@test "what is denied does not fill the host's log" {
  sleep 1000 3>&- &
  victim=$!
  dmesg --clear
  bare agentrun-strict "$(attempts $victim)"
  assert_status 0
  output=$(dmesg | grep 'apparmor="DENIED"' | grep agentrun-strict | grep -vE 'operation="(signal|ptrace)"' || true)
  [ -z "$output" ] || fail "logged"
}

@test "podman stop: TERM reaches the program, and its own exit code comes back" {
  detached "$IMAGE" python3 -c 'import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
print("ready", flush=True)
while True: time.sleep(0.1)'
  wait_for_log ready
  run outside podman stop -t 20 "$NAME"
  assert_status 0
  wait_for_state exited
  assert_equal "$(inspect '{{.State.ExitCode}}')" 9
}

@test "podman kill, with another signal and with KILL" {
  detached "$IMAGE" python3 -c 'import signal, time
signal.signal(signal.SIGUSR1, lambda *_: print("usr1", flush=True))
print("ready", flush=True)
while True: time.sleep(0.1)'
  wait_for_log ready
  run outside podman kill -s USR1 "$NAME"
  assert_status 0
  wait_for_log usr1
  run outside podman kill "$NAME"
  assert_status 0
  wait_for_state exited
  assert_equal "$(inspect '{{.State.ExitCode}}')" 137
}

@test "not loaded: reported; refused where the policy requires it" {
  apparmor_parser --remove /etc/apparmor.d/agentrun-strict
  run outside podman --log-level=error run --runtime=agentrun --network=none --name "$NAME" "$IMAGE" echo ran
  local result=$status text=$output
  printf '{"require": {"add": ["apparmor"]}}' > "$BATS_TEST_TMPDIR/policy.json"
  agentrun spec --bundle "$BATS_TEST_TMPDIR" 2> /dev/null
  run outside agentrun --policy "$BATS_TEST_TMPDIR/policy.json" run --bundle "$BATS_TEST_TMPDIR" "$NAME"
  apparmor_parser --replace /etc/apparmor.d/agentrun-strict
  [ "$status" -ne 0 ] || fail "it ran"
  assert_matches '/require/apparmor: the AppArmor profile is not loaded here'
  output=$text status=$result
  assert_status 0
  assert_output ran
  run agentrun report "$(inspect '{{.Id}}')"
  assert_matches '^note: AppArmor profile agentrun-strict is not loaded here'
}

@test "the profile for AppArmor 3 is taken and denies the same" {
  apparmor_parser --replace "/test/tests/apparmor/agentrun-strict-abi3"
  sleep 1000 3>&- &
  victim=$!
  bare agentrun-strict "$(attempts $victim)"
  apparmor_parser --replace /etc/apparmor.d/agentrun-strict
  assert_status 0
  assert_equal "$(sed -n 's/^got //p' <<< "$output" | grep -v '^user namespace$')" "$allowed"
}
