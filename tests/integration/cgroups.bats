load helpers

# The first of the files that exists below the container's cgroup for a controller.
limit_of() {
  local group file
  group=$(cgroup_of "$1")
  [ -n "$group" ] || skip "no $1 controller"
  shift
  for file in "$@"; do [ -e "$group/$file" ] && { cat "$group/$file"; return; }; done
  fail "none of $* in $group"
}

with_resources() {
  config ".linux.resources += $1"
  wait_program
  create
  assert_success
}

@test "memory limit" {
  with_resources '{"memory": {"limit": 67108864}}'
  assert_equal "$(limit_of memory memory.max memory.limit_in_bytes)" 67108864
}

@test "memory reservation" {
  with_resources '{"memory": {"limit": 67108864, "reservation": 33554432}}'
  assert_equal "$(limit_of memory memory.low memory.soft_limit_in_bytes)" 33554432
}

@test "swap is memory and swap together" {
  with_resources '{"memory": {"limit": 67108864, "swap": 67108864}}'
  local group
  group=$(cgroup_of memory)
  if [ -e "$group/memory.swap.max" ]; then
    assert_equal "$(cat "$group/memory.swap.max")" 0
  elif [ -e "$group/memory.memsw.limit_in_bytes" ]; then
    assert_equal "$(cat "$group/memory.memsw.limit_in_bytes")" 67108864
  else
    skip "no swap accounting"
  fi
}

@test "a memory limit kills the program: 137" {
  config '.linux.resources.memory = {"limit": 16777216, "swap": 16777216}'
  program 'head -c 100m /dev/zero | tail > /dev/null; echo $?'
  run_bundle
  [ -n "$(awk '/memory/ { print }' /proc/cgroups)" ] || skip "no memory controller"
  assert_matches '^137$|Killed'
}

@test "pids limit" {
  with_resources '{"pids": {"limit": 20}}'
  assert_equal "$(limit_of pids pids.max)" 20
}

@test "pids limit stops a fork bomb of twenty" {
  config '.linux.resources.pids = {"limit": 10}'
  program 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1000 & done; echo all'
  run_bundle
  assert_matches "fork|Resource temporarily unavailable"
}

@test "CPU quota and period" {
  with_resources '{"cpu": {"quota": 50000, "period": 100000}}'
  local group
  group=$(cgroup_of cpu)
  [ -n "$group" ] || skip "no cpu controller"
  if [ -e "$group/cpu.max" ]; then
    assert_equal "$(cat "$group/cpu.max")" "50000 100000"
  else
    assert_equal "$(cat "$group/cpu.cfs_quota_us")" 50000
    assert_equal "$(cat "$group/cpu.cfs_period_us")" 100000
  fi
}

@test "CPU shares" {
  with_resources '{"cpu": {"shares": 2048}}'
  local group
  group=$(cgroup_of cpu)
  [ -n "$group" ] || skip "no cpu controller"
  if [ -e "$group/cpu.weight" ]; then
    [ "$(cat "$group/cpu.weight")" -gt 50 ]
  else
    assert_equal "$(cat "$group/cpu.shares")" 2048
  fi
}

@test "cpuset" {
  with_resources '{"cpu": {"cpus": "0"}}'
  assert_equal "$(limit_of cpuset cpuset.cpus)" 0
}

@test "unified keys" {
  skip_unless_agentrun
  is_unified || skip "cgroup v1 controllers"
  with_resources '{"unified": {"memory.high": "50331648"}}'
  assert_equal "$(limit_of memory memory.high)" 50331648
}

@test "a limit that the kernel refuses is an error that names it" {
  config '.linux.resources.cpu = {"cpus": "4000"}'
  create
  assert_failure
  assert_matches cpu
  assert_clean
}

@test "limits hold from the program's first instruction" {
  config '.linux.resources.pids = {"limit": 33}'
  wait_program
  create
  assert_success
  local pid group
  pid=$(pid_of)
  group=$(cgroup_of pids)
  [ -n "$group" ] || skip "no pids controller"
  grep -qx "$pid" "$group/cgroup.procs"
  assert_equal "$(cat "$group/pids.max")" 33
}

@test "devices: only what is allowed" {
  config '.process.capabilities.effective += ["CAP_MKNOD"] | .process.capabilities.permitted += ["CAP_MKNOD"] | .process.capabilities.bounding += ["CAP_MKNOD"]' \
    '.linux.resources.devices = [{"allow": false, "access": "rwm"}]'
  # There is no driver for 240:7: whoever may open it gets ENXIO, whoever may not EPERM. Making a node is harmless.
  mknod "$BUNDLE/rootfs/node" c 240 7
  chmod 0666 "$BUNDLE/rootfs/node"
  program 'head -c 1 /node; mknod /new c 240 7; head -c 1 /new; head -c 1 /dev/zero > /dev/null && echo > /dev/null && echo standard'
  run_bundle
  assert_line standard
  assert_equal "$(grep -c "head.*Operation not permitted" <<< "$output")" 2
  refute_contains "No such device"
}

@test "devices: a rule of the config allows one, in one direction" {
  config '.linux.resources.devices += [{"allow": true, "type": "c", "major": 240, "minor": 7, "access": "r"}]'
  mknod "$BUNDLE/rootfs/node" c 240 7
  chmod 0666 "$BUNDLE/rootfs/node"
  program 'head -c 1 /node; : > /node'
  run_bundle
  assert_matches 'head: .*No such device or address'
  assert_matches 'create .*Operation not permitted'
}

@test "cgroupsPath is where the container is" {
  wait_program
  create
  local group
  group=$(cgroup_of pids)
  [ "$CGROUP_MANAGER" = systemd ] && skip "a systemd scope"
  assert_equal "${group##*"$TEST_CGROUP"}" "/c/$ID"
}

@test "an empty cgroupsPath" {
  config 'del(.linux.cgroupsPath)'
  wait_program
  create
  assert_success
  local group
  group=$(cgroup_of pids)
  [[ $group == *"$ID"* ]]
  run agentrun delete --force "$ID"
  assert_success
  refute_file "$group"
}

@test "a cgroupsPath that climbs stays in the hierarchy" {
  skip_unless_agentrun
  config '.linux.cgroupsPath = "/../../../../tmp/climbed"'
  create
  refute_file /tmp/climbed
}

@test "cgroups are removed with the container, in every hierarchy" {
  program true
  run_bundle
  assert_success
  assert_equal "$(find /sys/fs/cgroup -type d -name "$ID*")" ""
}

@test "update changes limits" {
  [ -n "$IS_AGENTRUN" ] && ! agentrun --help 2>&1 | grep -qw update && skip "update is not there yet"
  with_resources '{"memory": {"limit": 67108864}, "pids": {"limit": 20}}'
  start
  echo '{"pids": {"limit": 30}}' > "$BUNDLE/resources.json"
  run agentrun update --resources "$BUNDLE/resources.json" "$ID"
  assert_success
  assert_equal "$(limit_of pids pids.max)" 30
  assert_equal "$(limit_of memory memory.max memory.limit_in_bytes)" 67108864
}

@test "every controller's cgroup holds the same process" {
  is_unified && skip "one hierarchy only"
  wait_program
  create
  local pid controller group
  pid=$(pid_of)
  for controller in memory pids cpu freezer devices; do
    group=$(cgroup_of "$controller")
    [ -n "$group" ] || continue
    grep -qx "$pid" "$group/cgroup.procs" || fail "$controller"
    [[ $group == *"$ID"* ]] || fail "$controller: $group"
  done
}

@test "on a hybrid host the container is in a v2 cgroup too" {
  skip_unless_agentrun
  is_unified && skip "v2 alone"
  [ -n "$UNIFIED" ] || skip "no v2 tree"
  wait_program
  create
  [[ "$(cgroup_of unified)" == *"$ID"* ]]
  assert_file "$(cgroup_of unified)/cgroup.kill"
}
