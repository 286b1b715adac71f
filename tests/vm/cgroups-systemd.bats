# The systemd cgroup manager, with a real systemd: in the machine of tests/vm, by tests/integration/run.
CGROUP_MANAGER=systemd
LIMIT=120
load ../integration/helpers

setup() {
  [ -d /run/systemd/system ] || skip "systemd does not run this host"
  is_unified || skip "cgroup v1 controllers on this host"
  skip_unless_agentrun
  stage
  UNIT=agentrun-test-$ID.scope
}

of() { cat "/sys/fs/cgroup/system.slice/$UNIT/$1"; }
property() { systemctl show --value -p "$1" "$UNIT"; }
created() {
  wait_program
  create
  assert_success
}
unit_gone() { [ "$(systemctl show --value -p LoadState "${1:-$UNIT}")" = not-found ]; }

# Everything that a limit of the config becomes, as the files say it.
show_limits() {
  local file
  for file in memory.max memory.low memory.swap.max memory.high cpu.max cpu.max.burst cpu.weight cpuset.cpus cpuset.mems \
    pids.max io.weight io.max hugetlb.2MB.max; do
    [ -e "/sys/fs/cgroup/system.slice/$UNIT/$file" ] && echo "$file: $(of $file)"
  done
  return 0
}

@test "every limit is in its file and, where it has one, in its property; a reload of systemd changes none" {
  local disk
  disk=$(cat /sys/block/vda/dev)
  config '.linux.resources.memory = {limit: 67108864, reservation: 33554432, swap: 100663296}' \
    '.linux.resources.cpu = {quota: 50000, period: 200000, burst: 10000, shares: 2048, cpus: "0", mems: "0"}' \
    '.linux.resources.pids = {limit: 77}' \
    '.linux.resources.hugepageLimits = [{pageSize: "2MB", limit: 4194304}]' \
    '.linux.resources.unified = {"memory.high": "50331648"}' \
    ".linux.resources.blockIO = {weight: 505, throttleReadBpsDevice: [{major: ${disk%:*}, minor: ${disk#*:}, rate: 1048576}],
      throttleWriteIOPSDevice: [{major: ${disk%:*}, minor: ${disk#*:}, rate: 120}]}"
  created
  local before
  before=$(show_limits)
  output=$before
  assert_line "memory.max: 67108864"
  assert_line "memory.low: 33554432"
  [ ! -e /proc/swaps ] || assert_line "memory.swap.max: 33554432"
  assert_line "memory.high: 50331648"
  assert_line "cpu.max: 50000 200000"
  assert_line "cpu.max.burst: 10000"
  assert_line "cpuset.cpus: 0"
  assert_line "cpuset.mems: 0"
  assert_line "pids.max: 77"
  assert_line "io.weight: default 5000"
  assert_line "io.max: $disk rbps=1048576 wbps=max riops=max wiops=120"
  assert_line "hugetlb.2MB.max: 4194304"
  assert_equal "$(property MemoryMax)" 67108864
  assert_equal "$(property MemoryHigh)" 50331648
  assert_equal "$(property TasksMax)" 77
  assert_equal "$(property CPUQuotaPerSecUSec)" 250ms
  assert_equal "$(property AllowedCPUs)" 0
  assert_equal "$(property Delegate)" yes
  assert_equal "$(property Slice)" system.slice
  systemctl daemon-reload
  output=$(show_limits)
  assert_equal "$output" "$before"
}

@test "cpu idle, and device rules: both outlive a reload of systemd" {
  config '.process.capabilities |= with_entries(.value += ["CAP_MKNOD"])' '.linux.resources.devices = [{allow: false, access: "rwm"}]' \
    '.linux.resources.cpu = {idle: 1}'
  mknod "$BUNDLE/rootfs/node" c 240 7
  created
  start
  assert_equal "$(of cpu.idle)" 1
  local _
  for _ in 1 2; do
    run agentrun exec "$ID" sh -c 'head -c 1 /node; rm -f /made; mknod /made c 240 8; head -c 1 /made; head -c 1 /dev/zero > /dev/null && echo zero'
    assert_matches 'head: /node: Operation not permitted'
    # Making a node is allowed, as everywhere; opening it is what matters.
    assert_matches 'head: /made: Operation not permitted'
    assert_line zero
    systemctl daemon-reload
    assert_equal "$(of cpu.idle)" 1
  done
}

@test "update changes the files, and systemd knows" {
  config '.linux.resources.pids = {limit: 20}'
  created
  start
  echo '{"pids": {"limit": 30}, "memory": {"limit": 50331648}, "cpu": {"quota": 70000, "period": 100000}}' > "$BUNDLE/resources.json"
  run agentrun update --resources "$BUNDLE/resources.json" "$ID"
  assert_success
  local _
  for _ in 1 2; do
    assert_equal "$(of pids.max) $(of memory.max) $(of cpu.max)" "30 50331648 70000 100000"
    systemctl daemon-reload
  done
  assert_equal "$(property TasksMax)" 30
}

@test "pause, resume, exec, kill: all in the scope; when the last process ends, it is gone, and the state says so" {
  created
  start
  local pid
  pid=$(pid_of)
  assert_equal "$(sed -n 's/^0:://p' "/proc/$pid/cgroup")" "/system.slice/$UNIT"
  run agentrun pause "$ID"
  assert_success
  assert_equal "$(of cgroup.freeze)" 1
  has_status paused
  run agentrun resume "$ID"
  assert_success
  run agentrun exec "$ID" echo inside
  assert_output inside
  run agentrun kill "$ID" KILL
  assert_success
  wait_for 60 has_status stopped
  wait_for 60 unit_gone
  run agentrun delete "$ID"
  assert_success
  refute_file "/sys/fs/cgroup/system.slice/$UNIT"
}

@test "annotations set properties of the scope, and cannot set what the container's own settings decide" {
  config '.annotations = {"org.systemd.property.TimeoutStopUSec": "uint64 123000000", "org.systemd.property.Documentation": "[\u0027man:agentrun(1)\u0027]"}'
  created
  assert_equal "$(property TimeoutStopUSec)" "2min 3s"
  assert_equal "$(property Documentation | tr -d \")" "man:agentrun(1)"
  run agentrun delete --force "$ID"
  local annotation
  for annotation in 'MemoryMax": "uint64 1' 'Delegate": "false' 'Slice": "\u0027user.slice\u0027' 'DeviceAllow": "\u0027x\u0027'; do
    config ".annotations = {\"org.systemd.property.$annotation\"}"
    create
    assert_error 'org\.systemd\.property'
    assert_clean
  done
}

@test "what systemd refuses is one clear error, and nothing is left" {
  config '.annotations = {"org.systemd.property.NoSuchProperty": "\u0027x\u0027"}'
  wait_program
  create
  assert_error 'NoSuchProperty'
  assert_clean
  unit_gone
}

@test "under strict: such annotations are ignored, and the deadline is systemd's too" {
  config '.annotations = {"org.systemd.property.CPUWeight": "uint64 9999", "org.systemd.property.Documentation": "[\u0027man:x(1)\u0027]", "org.agentrun.deadline": "5m"}'
  wait_program
  detached strict create --bundle "$BUNDLE" "$ID"
  assert_success
  assert_equal "$(property Documentation)" ""
  [ "$(property CPUWeight)" != 9999 ]
  [ "$(property RuntimeMaxUSec)" != infinity ] || fail "no RuntimeMaxUSec"
  assert_equal "$(property TimeoutStopUSec)" 1s
}

@test "names are escaped, slices nested" {
  config ".linux.cgroupsPath = \"agentruntest-deep.slice:a b:$ID@x\""
  created
  local path=/sys/fs/cgroup/agentruntest.slice/agentruntest-deep.slice
  output=$(ls "$path")
  assert_contains "a\\x20b-$ID\\x40x.scope"
  run agentrun delete --force "$ID"
  assert_success
  run ls "$path"
  refute_contains "$ID"
  systemctl stop agentruntest.slice
}

@test "a cgroupsPath that systemd cannot have is refused" {
  local path
  for path in /plain/path two:parts ../x.slice:a:b nosuffix:a:b system.slice:a:b.slice -x.slice:a:b; do
    config ".linux.cgroupsPath = \"$path\""
    create
    assert_error 'slice'
    assert_clean
  done
}

@test "delegation: the container makes cgroups in its own, and they go with it" {
  config '.mounts += [{destination: "/sys/fs/cgroup", type: "cgroup", source: "cgroup", options: ["nosuid", "noexec", "nodev", "rw"]}]'
  program 'mkdir /sys/fs/cgroup/inner && echo $$ > /sys/fs/cgroup/inner/cgroup.procs && echo moved; trap "exit 143" TERM; while :; do sleep 0.1; done'
  create
  assert_success
  start
  wait_for 60 grep -q . "/sys/fs/cgroup/system.slice/$UNIT/inner/cgroup.procs"
  run agentrun delete --force "$ID"
  assert_success
  refute_file "/sys/fs/cgroup/system.slice/$UNIT"
}

@test "a failed scope of that name is reset" {
  run systemd-run --quiet --scope --unit="$UNIT" --property=RuntimeMaxSec=1 sleep 1000
  assert_failure
  wait_for 60 test "$(property ActiveState)" = failed
  created
  assert_equal "$(property ActiveState)" active
}

@test "a live scope of that name is refused, and it lives on" {
  local pid
  systemd-run --quiet --scope --unit="$UNIT" sleep 1000 3>&- > /dev/null 2>&1 &
  pid=$!
  wait_for 60 grep -q . "/sys/fs/cgroup/system.slice/$UNIT/cgroup.procs"
  wait_program
  create
  assert_error 'not empty|exists'
  kill -0 "$pid" || fail "the process that was there is dead"
  kill "$pid"
  wait "$pid" || true
  wait_for 60 unit_gone
}

@test "two creates for one scope: one wins, and the other does not kill it" {
  wait_program
  mkdir "$BUNDLE.2"
  cp -a "$BUNDLE/." "$BUNDLE.2"
  local first second
  agentrun create --bundle "$BUNDLE" "$ID" > "$LOG.1" 2>&1 < /dev/null &
  first=$!
  agentrun create --bundle "$BUNDLE.2" "$ID-2" > "$LOG.2" 2>&1 < /dev/null &
  second=$!
  local failures=0
  wait $first || failures=$((failures + 1))
  wait $second || failures=$((failures + 1))
  output=$(cat "$LOG.1" "$LOG.2")
  rm -rf "$BUNDLE.2" "$LOG.1" "$LOG.2"
  assert_equal "$failures" 1
  assert_equal "$(containers | wc -l)" 1
  local winner
  winner=$(containers)
  assert_equal "$(state_of .status "$winner")" created
}

@test "no systemd: a clear error" {
  wait_program
  status=0
  output=$(unshare --mount sh -c 'mount -t tmpfs none /run/systemd && exec "$@"' - "$RUNTIME" --root "$ROOT" --systemd-cgroup --policy oci \
    create --bundle "$BUNDLE" "$ID" 2>&1 < /dev/null 3>&-) || status=$?
  assert_error 'systemd does not run this host'
  assert_clean
}

@test "a bus that is not there, and one that does not answer: a clear error in bounded time" {
  wait_program
  export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$SCRATCH/nobody
  create
  assert_error 'D-Bus.*No such file'
  assert_clean
  python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(8)
time.sleep(1000)' "$SCRATCH/silent" 3>&- &
  local pid=$!
  wait_for 60 test -S "$SCRATCH/silent"
  export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$SCRATCH/silent
  # The limit of 120 s of each call is the bound.
  create
  unset DBUS_SYSTEM_BUS_ADDRESS
  kill "$pid"
  wait "$pid" || true
  assert_error 'D-Bus|systemd'
  assert_clean
}

@test "an OOM kill is in the audit trail, although systemd removes the scope at once" {
  config '.linux.resources.memory = {limit: 33554432, swap: 33554432}'
  # Fills its buffer, and is PID 1 itself.
  program /bin/tail -c 300m /dev/zero
  run_strict
  assert_status 137
  wait_for 60 assert_audit '.container == $id and .event == "exit" and .reason == "oom" and .oom_kills >= 1'
}

@test "--cgroup-manager disabled: the caller's own cgroup, and no limit goes unkept" {
  program 'cat /proc/1/cgroup'
  config 'del(.linux.resources) | .linux.namespaces |= map(select(.type != "cgroup"))'
  CGROUP_MANAGER=cgroupfs
  run agentrun --cgroup-manager disabled run --bundle "$BUNDLE" "$ID"
  assert_success
  assert_output "$(grep '^0::' /proc/self/cgroup)"
  config '.linux.resources = {pids: {limit: 20}}'
  run agentrun --cgroup-manager disabled run --bundle "$BUNDLE" "$ID"
  assert_error pids
  CGROUP_MANAGER=systemd
  assert_clean
}
