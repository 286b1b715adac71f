# cgroup v2 with its controllers, by the cgroupfs manager: in the machine of tests/vm, or any host that has v2 alone.
load helpers

setup() {
  is_unified || skip "cgroup v1 controllers on this host"
  skip_unless_agentrun
  stage
}

# A file of the container's cgroup.
of() { cat "$(cgroup_of unified)/$1"; }
# The major:minor of a disk that limits can be set for.
disk() { for d in vda sda nvme0n1; do [ ! -e "/sys/block/$d/dev" ] || { cat "/sys/block/$d/dev"; return; }; done; }
has_controller() { grep -qw "$1" /sys/fs/cgroup/cgroup.controllers; }

created() {
  wait_program
  create
  assert_success
}

@test "memory: limit, reservation, swap" {
  config '.linux.resources.memory = {limit: 67108864, reservation: 33554432, swap: 100663296}'
  created
  assert_equal "$(of memory.max)" 67108864
  assert_equal "$(of memory.low)" 33554432
  [ ! -e "$(cgroup_of unified)/memory.swap.max" ] || assert_equal "$(of memory.swap.max)" 33554432
}

@test "cpu: quota, period, burst, weight" {
  config '.linux.resources.cpu = {quota: 50000, period: 200000, burst: 10000, shares: 2048}'
  created
  assert_equal "$(of cpu.max)" "50000 200000"
  assert_equal "$(of cpu.max.burst)" 10000
  [ "$(of cpu.weight)" -gt 100 ] || fail "weight $(of cpu.weight)"
}

@test "cpu: idle" {
  config '.linux.resources.cpu = {idle: 1, shares: 2048}'
  created
  assert_equal "$(of cpu.idle)" 1
}

@test "cpuset, pids" {
  config '.linux.resources.cpu = {cpus: "0", mems: "0"} | .linux.resources.pids = {limit: 77}'
  created
  assert_equal "$(of cpuset.cpus)" 0
  assert_equal "$(of cpuset.mems)" 0
  assert_equal "$(of pids.max)" 77
}

@test "io: weight, and rates of a disk" {
  has_controller io || skip "no io controller"
  local disk
  disk=$(disk)
  [ -n "$disk" ] || skip "no disk"
  config ".linux.resources.blockIO = {weight: 505,
    throttleReadBpsDevice: [{major: ${disk%:*}, minor: ${disk#*:}, rate: 1048576}],
    throttleWriteIOPSDevice: [{major: ${disk%:*}, minor: ${disk#*:}, rate: 120}]}"
  created
  if [ -e "$(cgroup_of unified)/io.bfq.weight" ]; then assert_equal "$(of io.bfq.weight | head -1)" "default 505"
  else assert_equal "$(of io.weight | head -1)" "default 5000"; fi
  assert_equal "$(of io.max)" "$disk rbps=1048576 wbps=max riops=max wiops=120"
}

@test "hugetlb" {
  has_controller hugetlb || skip "no hugetlb controller"
  config '.linux.resources.hugepageLimits = [{pageSize: "2MB", limit: 4194304}]'
  created
  assert_equal "$(of hugetlb.2MB.max)" 4194304
  assert_equal "$(of hugetlb.2MB.rsvd.max)" 4194304
}

@test "rdma: a device that is not there is an error that names the file" {
  has_controller rdma || skip "no rdma controller"
  config '.linux.resources.rdma = {"no_such_hca": {hcaHandles: 3}}'
  create
  assert_error 'rdma\.max'
  assert_clean
}

@test "the unified map, and what may not be in it" {
  config '.linux.resources.unified = {"memory.high": "50331648", "pids.max": "33", "cpu.weight": "77", "memory.oom.group": "1"}'
  created
  assert_equal "$(of memory.high)" 50331648
  assert_equal "$(of pids.max)" 33
  assert_equal "$(of cpu.weight)" 77
  assert_equal "$(of memory.oom.group)" 1
  run agentrun delete --force "$ID"
  local key
  for key in cgroup.kill cgroup.procs nosuch.thing ../memory.max; do # the error names the key, or its controller
    config ".linux.resources.unified = {\"$key\": \"1\"}"
    create
    assert_error "$key|\"${key%.*}\""
    assert_clean
  done
}

@test "devices by BPF: a node that is there, or that the container makes, cannot be opened" {
  config '.process.capabilities |= with_entries(.value += ["CAP_MKNOD"])' '.linux.resources.devices = [{allow: false, access: "rwm"}]'
  # There is no driver for 240:7: whoever may open it gets ENXIO, whoever may not EPERM.
  mknod "$BUNDLE/rootfs/node" c 240 7
  program 'head -c 1 /node; mknod /made c 240 8; head -c 1 /made; mknod /null c 1 3; echo > /null && echo wrote null'
  run_bundle
  assert_matches 'head: /node: Operation not permitted'
  assert_matches 'head: /made: Operation not permitted'
  assert_line "wrote null"
}

@test "controllers are handed down, and parents removed with the container" {
  config ".linux.cgroupsPath = \"/$TEST_CGROUP/c/$ID/one/two/three\"" '.linux.resources.pids = {limit: 20}'
  created
  local group=/sys/fs/cgroup/$TEST_CGROUP/c/$ID controller
  assert_equal "$(of pids.max)" 20
  for controller in memory pids cpu io cpuset; do
    ! has_controller $controller || grep -qw $controller "$group/one/two/cgroup.subtree_control" || fail "$controller is not handed down"
  done
  # Stored in the state: another call of agentrun knows them.
  run agentrun delete --force "$ID"
  assert_success
  refute_file "$group"
}

@test "a parent that is in use stays" {
  config ".linux.cgroupsPath = \"/$TEST_CGROUP/c/$ID/one/two\""
  created
  local group=/sys/fs/cgroup/$TEST_CGROUP/c/$ID
  mkdir "$group/one/other"
  run agentrun delete --force "$ID"
  assert_success
  assert_file "$group/one/other"
  refute_file "$group/one/two"
  rmdir "$group/one/other" "$group/one" "$group"
}

@test "a cgroup with somebody in it is refused, and he lives" {
  local group=/sys/fs/cgroup/$TEST_CGROUP/c/$ID pid
  mkdir "$group"
  sleep 1000 3>&- &
  pid=$!
  echo "$pid" > "$group/cgroup.procs"
  wait_program
  create
  assert_error 'not empty'
  kill -0 "$pid" || fail "the process that was there is dead"
  kill -9 "$pid"
  wait "$pid" || true
  wait_for 10 rmdir "$group"
}

@test "an OOM kill is in the audit trail" {
  config '.linux.resources.memory = {limit: 33554432, swap: 33554432}'
  # Fills its buffer, and is PID 1 itself.
  program /bin/tail -c 300m /dev/zero
  run_strict
  assert_status 137
  wait_for 20 assert_audit '.container == $id and .event == "exit" and .reason == "oom" and .oom_kills >= 1'
}

@test "update writes the files, and exec's own cgroup is below the container's" {
  config '.linux.resources.pids = {limit: 20}'
  created
  start
  echo '{"pids": {"limit": 30}, "memory": {"limit": 50331648}, "cpu": {"quota": 70000, "period": 100000}}' > "$BUNDLE/resources.json"
  run agentrun update --resources "$BUNDLE/resources.json" "$ID"
  assert_success
  assert_equal "$(of pids.max) $(of memory.max) $(of cpu.max)" "30 50331648 70000 100000"
  run agentrun exec "$ID" cat /proc/self/cgroup
  assert_success
  # Seen from the cgroup namespace of the container.
  assert_matches '^0::/'
  refute_matches '\.\.'
}
