load helpers

@test "kill by number and by name, with and without SIG, in any case" {
  program 'for s in USR1 USR2 HUP INT QUIT; do trap "echo $s >> /signals" $s; done; echo up > /up; while :; do sleep 0.05; done'
  create_and_start
  wait_for 20 test -e "$BUNDLE/rootfs/up"
  local signal name
  for signal in 10=USR1 SIGUSR2=USR2 hup=HUP INT=INT sigquit=QUIT; do
    name=${signal#*=}
    run agentrun kill "$ID" "${signal%=*}"
    assert_success
    wait_for 20 grep -qx "$name" "$BUNDLE/rootfs/signals"
  done
}

@test "signal 0 and a real-time signal" {
  program 'trap "echo rt > /rt" 35; echo up > /up; while :; do sleep 0.05; done'
  create_and_start
  wait_for 20 test -e "$BUNDLE/rootfs/up"
  run agentrun kill "$ID" 0
  assert_success
  has_status running
  run agentrun kill "$ID" RTMIN+1
  assert_success
  wait_for 20 test -e "$BUNDLE/rootfs/rt"
}

@test "kill --all reaches every process, whoever started it" {
  program 'trap "" TERM; (trap "echo child > /child; exit" TERM; echo > /ready; while :; do sleep 0.05; done) & while :; do sleep 0.1; done'
  create_and_start
  wait_for 20 test -e "$BUNDLE/rootfs/ready"
  detached agentrun exec --detach --pid-file "$SCRATCH/pid.$ID" "$ID" sleep 1000
  assert_success
  run agentrun kill --all "$ID" TERM
  assert_success
  wait_for 20 test -e "$BUNDLE/rootfs/child"
  wait_for 20 gone "$(cat "$SCRATCH/pid.$ID")"
  has_status running
}

@test "KILL ends what outlives the container's process in a shared pid namespace" {
  config 'del(.linux.namespaces[] | select(.type == "pid"))'
  program 'sh -c "echo \$\$ > /left; exec sleep 1000" & while [ ! -s /left ]; do sleep 0.05; done'
  create_and_start
  wait_for 20 test -s "$BUNDLE/rootfs/left"
  wait_for 20 has_status stopped
  run agentrun kill "$ID" KILL
  assert_success
  wait_for 20 gone "$(cat "$BUNDLE/rootfs/left")"
}

@test "kill of a created container" {
  wait_program
  create
  assert_success
  run agentrun kill "$ID" KILL
  assert_success
  wait_for 20 has_status stopped
  run agentrun start "$ID"
  assert_error "stopped"
}

@test "kill of a stopped container: an error, with --all none" {
  program true
  create_and_start
  wait_for 20 has_status stopped
  run agentrun kill "$ID" TERM
  assert_error "container not running"
  run agentrun kill "$ID" KILL
  assert_error "container not running"
  run agentrun kill --all "$ID" KILL
  assert_success
  run agentrun kill --all "$ID" TERM
  assert_success
}

@test "signals that are none, and a container that is not there" {
  wait_program
  create_and_start
  local signal
  for signal in NOSUCH SIG 65 1000 -1 1x '' SIGSIGTERM; do
    run agentrun kill "$ID" -- "$signal"
    assert_failure
    has_status running
  done
  run agentrun kill nosuch TERM
  assert_error "does not exist"
}
