load helpers

setup() {
  stage
  config '.linux.resources += {"memory": {"limit": 67108864}, "pids": {"limit": 20}, "cpu": {"shares": 512, "quota": 50000, "period": 100000}}'
  wait_program
  create
  [ "$status" -eq 0 ] || { status_of_setup=$output; return 0; }
  agentrun start "$ID"
}

needs() { # needs CONTROLLER...
  [ -z "${status_of_setup:-}" ] || skip "this host has not every controller: $status_of_setup"
  local controller
  for controller in "$@"; do [ -n "$(cgroup_of $controller)" ] || skip "no $controller controller"; done
}
value() { # value CONTROLLER V2-FILE [V1-FILE]
  local file=$2
  is_unified || file=${3:-$2}
  cat "$(cgroup_of "$1")/$file"
}

@test "each option changes its limit" {
  needs memory pids cpu cpuset
  run agentrun update --memory 33554432 --memory-reservation 16M --pids-limit 30 --cpu-share 1024 --cpu-quota 20000 --cpu-period 200000 --cpuset-cpus 0 --cpuset-mems 0 "$ID"
  assert_success
  assert_equal "$(value memory memory.max memory.limit_in_bytes)" 33554432
  assert_equal "$(value memory memory.low memory.soft_limit_in_bytes)" 16777216
  assert_equal "$(value pids pids.max)" 30
  assert_equal "$(value cpuset cpuset.cpus)" 0
  assert_equal "$(value cpuset cpuset.mems)" 0
  if is_unified; then
    assert_equal "$(value cpu cpu.max)" "20000 200000"
    assert_equal "$(value cpu cpu.weight)" 100
  else
    assert_equal "$(value cpu - cpu.shares)" 1024
    assert_equal "$(value cpu - cpu.cfs_quota_us)" 20000
    assert_equal "$(value cpu - cpu.cfs_period_us)" 200000
  fi
}

@test "-1 is no limit" {
  needs memory pids cpu
  run agentrun update --pids-limit -1 --cpu-quota -1 "$ID"
  assert_success
  assert_equal "$(value pids pids.max)" max
  if is_unified; then assert_equal "$(value cpu cpu.max)" "max 100000"; else assert_equal "$(value cpu - cpu.cfs_quota_us)" -1; fi
}

@test "--resources FILE, and - for standard input" {
  needs pids memory
  echo '{"pids": {"limit": 40}}' > "$BUNDLE/resources.json"
  run agentrun update --resources "$BUNDLE/resources.json" "$ID"
  assert_success
  assert_equal "$(value pids pids.max)" 40
  agentrun update -r - "$ID" <<< '{"memory": {"limit": 50331648}}'
  assert_equal "$(value memory memory.max memory.limit_in_bytes)" 50331648
  assert_equal "$(value pids pids.max)" 40
}

@test "a change that the kernel refuses in the middle names the file, and everything is as it was" {
  needs memory pids cpu cpuset
  run agentrun update --memory 33554432 --pids-limit 33 --cpu-share 1024 --cpuset-mems 4095 --cpuset-cpus 8000 "$ID"
  assert_error "cpuset\.(cpus|mems)"
  assert_equal "$(value memory memory.max memory.limit_in_bytes)" 67108864
  assert_equal "$(value pids pids.max)" 20
  if is_unified; then assert_equal "$(value cpu cpu.weight)" 59; else assert_equal "$(value cpu - cpu.shares)" 512; fi
  has_status running
  # What is stored did not change either: the next update begins from the old limits.
  run agentrun update --pids-limit 21 "$ID"
  assert_success
  assert_equal "$(value memory memory.max memory.limit_in_bytes)" 67108864
  assert_equal "$(value pids pids.max)" 21
}

@test "wrong values are refused by name, and nothing changes" {
  needs pids
  local option
  for option in --memory=x --memory=1.5X --pids-limit=x --pids-limit=99999999999999999999 --cpu-share=-5 --cpu-quota=1x --blkio-weight=99999 --cpuset-cpus=a; do
    run agentrun update "$option" "$ID"
    assert_failure
  done
  run agentrun update "$ID"
  assert_error "needs limits"
  run agentrun update --resources "$BUNDLE/nosuch" "$ID"
  assert_error "nosuch"
  run agentrun update --resources - "$ID" <<< '{"pids": '
  assert_failure
  run agentrun update --resources - --memory 1G "$ID" <<< '{}'
  assert_error "not both"
  assert_equal "$(value pids pids.max)" 20
}

@test "runc's options of resctrl are refused by name" {
  run agentrun update --l3-cache-schema "L3:0=f" "$ID"
  assert_error "l3-cache-schema.*resctrl"
  run agentrun update --mem-bw-schema "MB:0=20" "$ID"
  assert_error "mem-bw-schema.*resctrl"
}

@test "update of a stopped and of a missing container" {
  needs pids
  agentrun kill "$ID" KILL
  wait_for 20 has_status stopped
  run agentrun update --pids-limit 30 "$ID"
  assert_error "container not running"
  run agentrun update --pids-limit 30 nosuch
  assert_error "does not exist"
}
