load helpers
# What a program may write to: bounded in memory or on a disk, whatever it does there; and what is kept of it.

setup() {
  skip_unless_agentrun
  stage
}

sandbox() { POLICY='' agentrun sandbox "$@" < /dev/null; }

# A directory on a real disk, which the run's own scratch is not.
disk_place() {
  PLACE=$(mktemp -d /var/tmp/agentrun-test.XXXXXX)
  case "$(stat -f -c %T "$PLACE")" in tmpfs | ramfs) skip "/var/tmp is in memory" ;; esac
  [ -w /dev/loop-control ] || skip "no loop devices"
  [ -x /sbin/mke2fs ] || skip "mke2fs is missing"
}

# disk_policy BACKING SIZE [SECTIONS]: strict with a disk in $PLACE.
disk_policy() {
  jq -n --arg b "$1" --arg s "$2" --arg d "$PLACE" \
    '{extends: "strict", workdir: {backing: $b, size: $s, directory: $d}, limits: {memory: "64M", fsize: "1G"}}' \
    > "$BUNDLE/disk.json"
  chmod 0600 "$BUNDLE/disk.json"
}

# Devices whose files lie in $PLACE; the kernel clears one a moment after its last user.
attached() { losetup --list --noheadings --output NAME,BACK-FILE | grep -F "$PLACE" || true; }
assert_no_disk() {
  wait_for 20 test -z "$(attached)" || fail "attached: $(attached)"
  [ -z "$(ls -A "$PLACE")" ] || fail "left in $PLACE: $(ls -lA "$PLACE")"
}

teardown() {
  [ -z "${PLACE:-}" ] || rm -rf "$PLACE"
  delete_all
  assert_clean
  remove "$BUNDLE" "$LOG" "$ROOT"
}

filler() {
  mkdir "$BUNDLE/probe"
  cat > "$BUNDLE/probe/fill.py" << 'PYTHON'
import errno, os, sys

def until_full(step):
    n = fails = 0
    while fails < 3:
        try: step(n)
        except OSError as error:
            if error.errno != errno.ENOSPC: raise
            fails += 1
        n += 1

def big(place):
    try: fd = os.open(place + "/big", os.O_CREAT | os.O_WRONLY)
    except OSError as error:
        if error.errno == errno.ENOSPC: return
        raise
    until_full(lambda n: os.pwrite(fd, b"z" * 65536, n * 65536))

def far(place):  # one page far out in each: the page, and three levels of the page cache's tree for it
    def step(n):
        fd = os.open("%s/f%d" % (place, n), os.O_CREAT | os.O_WRONLY)
        try: os.pwrite(fd, b"x", 200 << 20)
        finally: os.close(fd)
    until_full(step)

def names(place): until_full(lambda n: os.close(os.open("%s/%0250d" % (place, n), os.O_CREAT | os.O_WRONLY)))
def links(place): until_full(lambda n: os.symlink("y" * 127, "%s/%0250d" % (place, n)))
def directories(place): until_full(lambda n: os.mkdir("%s/%0250d" % (place, n)))

for job in sys.argv[1:]:
    kind, place = job.split(":")
    globals()[kind](place)
    print("full", job)
print("alive")
PYTHON
  command -v python3 > /dev/null || skip "python3 is missing"
}

fill() { run sandbox --memory 48M --timeout 5m --bind "$BUNDLE/probe:/probe" -- python3 /probe/fill.py "$@"; }

@test "every place full at once is ENOSPC, never an OOM kill" {
  filler
  fill big:/tmp big:/dev/shm big:/work big:/var/tmp
  assert_success
  assert_line alive
}

@test "files of one page, names, links and directories: ENOSPC, never an OOM kill" {
  filler
  local kind
  for kind in far names links directories; do
    fill "$kind:/tmp" big:/tmp big:/dev/shm
    assert_success || fail "$kind"
    assert_line alive || fail "$kind"
  done
}

@test "a big file of the image that is written to: ENOSPC, and the image stays" {
  mkdir "$BUNDLE/rootfs/project"
  head -c 60M /dev/zero > "$BUNDLE/rootfs/project/data"
  config '.process.cwd = "/project"' '.annotations = {"org.agentrun.memory": "64M"}'
  program 'echo x >> data; echo "code $?"; echo y > other && cat other'
  run_strict
  assert_contains "No space left on device"
  assert_line y
  assert_equal "$(stat -c %s "$BUNDLE/rootfs/project/data")" $((60 << 20))
}

@test "images with tool chains in HOME, secrets, tokens and an init of the engine" {
  local home=$BUNDLE/rootfs/root
  mkdir -p "$home/.cargo/bin" "$home/.nvm/versions" "$home/miniconda3/bin" "$BUNDLE/rootfs/run/secrets" "$BUNDLE/engine/token"
  echo tool > "$home/.cargo/bin/cargo"
  ln -s ../.cargo/bin/cargo "$home/.nvm/default"
  echo secret > "$BUNDLE/engine/secret"
  echo token > "$BUNDLE/engine/token/token"
  cp "$BUNDLE/rootfs/bin/busybox" "$BUNDLE/engine/init"
  config '.process.env = ["PATH=/bin", "HOME=/root"]' ".mounts += [
    {\"destination\": \"/run/secrets/db\", \"type\": \"bind\", \"source\": \"$BUNDLE/engine/secret\", \"options\": [\"bind\", \"ro\"]},
    {\"destination\": \"/var/run/secrets/kubernetes.io/serviceaccount\", \"type\": \"bind\", \"source\": \"$BUNDLE/engine/token\", \"options\": [\"rbind\", \"ro\"]},
    {\"destination\": \"/run/podman-init\", \"type\": \"bind\", \"source\": \"$BUNDLE/engine/init\", \"options\": [\"bind\", \"ro\"]}]"
  # busybox goes by its own name; the bind stands for catatonit's.
  program /bin/sh -c '/run/podman-init > /dev/null 2>&1; [ -x /run/podman-init ] && echo init
    cat $HOME/.cargo/bin/cargo $HOME/.nvm/default /run/secrets/db /var/run/secrets/kubernetes.io/serviceaccount/token
    mkdir $HOME/.cargo/registry && echo new > $HOME/.nvm/versions/v && mv $HOME/miniconda3 $HOME/conda && echo moved
    echo x > /run/secrets/db; echo x > /run/new && echo wrote'
  run_strict
  assert_equal "$(grep -c '^tool$' <<< "$output")" 2
  assert_line init
  assert_line secret
  assert_line token
  assert_line moved
  assert_line wrote
  assert_contains "Read-only file system"
  refute_file "$home/.cargo/registry"
  assert_file "$home/miniconda3"
  assert_equal "$(cat "$BUNDLE/engine/secret")" secret
}

@test "disk: larger than memory, of its size, and gone with the container" {
  disk_place
  disk_policy disk 200M
  run sandbox --policy "$BUNDLE/disk.json" -- sh -c 'awk "\$5 == \"/tmp\" { print \$6, \$(NF - 2) }" /proc/self/mountinfo
    head -c 150M /dev/zero > /tmp/a && echo first; head -c 100M /dev/zero > b; rm /tmp/a b; echo x > /var/tmp/c && echo alive'
  assert_success
  assert_matches '^rw,nosuid,nodev.* ext4$'
  assert_line first
  assert_contains "No space left on device"
  assert_line alive
  assert_no_disk
}

@test "disk: its blocks are reserved while the container is, and free afterwards" {
  disk_place
  disk_policy disk 256M
  wait_program
  POLICY=$BUNDLE/disk.json create
  assert_success
  [ -n "$(attached)" ] || fail "nothing is attached"
  [ -z "$(ls -A "$PLACE")" ] || fail "the file has a name"
  local device
  device=$(attached | awk '{ print $1; exit }')
  assert_equal "$(cat "/sys/block/$(basename "$device")/loop/autoclear")" 1
  agentrun delete --force "$ID"
  assert_no_disk
}

@test "disk: kill -9 of create, and of the container, leave none" {
  disk_place
  command -v strace > /dev/null && strace -o /dev/null true 2> /dev/null || skip "strace cannot be used"
  disk_policy disk 64M
  wait_program
  local call n
  for call in ioctl:1 ioctl:2 fallocate:1 fsopen:1 fsmount:1 clone3:1 clone3:2 wait4:1; do
    n=${call#*:} call=${call%:*}
    timeout --kill-after=5 60 strace -o /dev/null -e "trace=$call" -e "inject=$call:signal=KILL:when=$n" \
      "$RUNTIME" --root "$ROOT" --policy "$BUNDLE/disk.json" create --bundle "$BUNDLE" "$ID" > "$LOG" 2>&1 < /dev/null 3>&- || true
    run agentrun delete --force "$ID"
    assert_success || fail "$call $n"
    assert_no_disk || fail "$call $n"
  done
  POLICY=$BUNDLE/disk.json create
  assert_success
  start
  kill -9 "$(pid_of)"
  wait_for 20 has_status stopped
  agentrun delete --force "$ID"
  assert_no_disk
}

@test "disk: in a user namespace the container's root owns it" {
  disk_place
  disk_policy disk 64M
  config '.linux.namespaces += [{"type": "user"}] | .linux.uidMappings = [{"containerID": 0, "hostID": 100000, "size": 65536}] | .linux.gidMappings = .linux.uidMappings'
  chown -R 100000:100000 "$BUNDLE/rootfs"
  chmod 0755 "$SCRATCH" "$BUNDLE"
  mkdir "$BUNDLE/rootfs/project"
  echo "of the image" > "$BUNDLE/rootfs/project/file"
  chown -R 100000:100000 "$BUNDLE/rootfs/project"
  config '.process.cwd = "/project"'
  program 'cat file; echo changed > file && cat file; rm file; echo x > /tmp/x && stat -c %u /tmp/x'
  POLICY=$BUNDLE/disk.json run_bundle
  assert_line "of the image"
  assert_line changed
  assert_line 0
  assert_no_disk
}

@test "disk: where it cannot be, create says why; disk-or-memory takes memory and reports it" {
  disk_place
  disk_policy disk 64M
  jq '.workdir.directory = "/dev/shm/agentrun"' "$BUNDLE/disk.json" > "$BUNDLE/shm.json"
  chmod 0600 "$BUNDLE/shm.json"
  POLICY=$BUNDLE/shm.json run_bundle
  assert_error "/workdir/backing: /dev/shm/agentrun is in memory itself"
  disk_policy disk 900T
  POLICY=$BUNDLE/disk.json run_bundle
  assert_error "has room for [0-9]+ MiB only"
  disk_policy disk-or-memory 900T
  program 'awk "\$5 == \"/tmp\" { print \$(NF - 2) }" /proc/self/mountinfo'
  POLICY=$BUNDLE/disk.json run_bundle
  assert_output tmpfs
  run agentrun report "$ID"
  assert_contains "writable directories are in memory"
  assert_no_disk
}

@test "io: every disk has the bound" {
  local disk line
  disk=$(lsblk --nodeps --noheadings --output MAJ:MIN --exclude 1,7,253 2> /dev/null | awk 'NF { print $1; exit }')
  [ -n "$disk" ] || skip "no disk"
  echo '{"extends": "strict", "limits": {"io": {"read_bps": "40M", "write_iops": 700}}}' > "$BUNDLE/io.json"
  chmod 0600 "$BUNDLE/io.json"
  wait_program
  POLICY=$BUNDLE/io.json create
  assert_success
  if is_unified; then
    line=$(cgroup_of io)
    [ -n "$line" ] || skip "no io controller"
    output=$(cat "$line/io.max")
    assert_matches "^$disk rbps=41943040 wbps=max riops=max wiops=700$"
  else
    line=$(cgroup_of blkio)
    [ -n "$line" ] || skip "no io controller"
    assert_equal "$(grep "^$disk " "$line/blkio.throttle.read_bps_device")" "$disk 41943040"
    assert_equal "$(grep "^$disk " "$line/blkio.throttle.write_iops_device")" "$disk 700"
  fi
}

@test "network: an allowlist is refused in words" {
  echo '{"extends": "strict", "network": {"mode": "allowlist"}}' > "$BUNDLE/policy.json"
  chmod 0600 "$BUNDLE/policy.json"
  POLICY=$BUNDLE/policy.json run_bundle
  assert_error "/network/mode: this version cannot let a container reach a list of hosts"
}

@test "out: data comes out, and nothing else" {
  run sandbox --json "$BUNDLE/json" --out "$BUNDLE/out" -- sh -c 'mkdir /out/d; echo result > /out/d/result; chmod 4777 /out/d/result
    ln -s /etc/shadow /out/absolute; ln -s ../../../etc/shadow /out/d/up; ln -s d/result /out/link; mkfifo /out/fifo; touch "/out/$(printf "a\nb")"'
  assert_success
  assert_contains "left out"
  assert_equal "$(cat "$BUNDLE/out/link")" result
  assert_equal "$(stat -c '%a %u' "$BUNDLE/out/d/result")" "755 0"
  assert_equal "$(cd "$BUNDLE/out" && find . | sort | tr '\n' ' ')" ". ./d ./d/result ./link "
  jq -e '.out.files == 1 and .out.left_out == 4' "$BUNDLE/json"
}

@test "out: results of a program that failed, or was killed, are kept too" {
  run sandbox --timeout 2s --out "$BUNDLE/out" -- sh -c 'echo partial > /out/log; sleep 1000'
  assert_status 124
  assert_equal "$(cat "$BUNDLE/out/log")" partial
}

@test "out: bounded, and refused where it cannot be replaced" {
  run sandbox --memory 48M --out "$BUNDLE/out" -- sh -c 'head -c 100M /dev/zero > /out/big; echo "code $?"'
  assert_contains "No space left on device"
  [ "$(du -sk "$BUNDLE/out" | cut -f 1)" -le $((24 << 10)) ] || fail "more than half of the memory came out"
  run sandbox --out "$BUNDLE/out" -- true
  assert_error "is not empty" 125
  run sandbox --policy oci --out "$BUNDLE/new" -- true
  assert_error "has no writable directories" 125
  refute_file "$BUNDLE/new"
  run -127 sandbox --out "$BUNDLE/new" -- nosuchprogram
  [ -z "$(find "$BUNDLE" -maxdepth 1 -name '.new*')" ] || fail "a half-made copy is left"
}
