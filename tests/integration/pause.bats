load helpers

@test "pause stops every process, resume lets them go on" {
  program '(while :; do date +%s%N > /child; sleep 0.02; done) & while :; do date +%s%N > /beat; sleep 0.02; done'
  create_and_start
  wait_for 20 test -s "$BUNDLE/rootfs/beat"
  wait_for 20 test -s "$BUNDLE/rootfs/child"
  agentrun pause "$ID"
  has_status paused
  local beat child
  beat=$(cat "$BUNDLE/rootfs/beat")
  child=$(cat "$BUNDLE/rootfs/child")
  sleep 0.5 # nothing may happen in it, however slow the machine is
  assert_equal "$(cat "$BUNDLE/rootfs/beat")" "$beat"
  assert_equal "$(cat "$BUNDLE/rootfs/child")" "$child"
  agentrun resume "$ID"
  has_status running
  wait_for 20 sh -c "[ \"\$(cat $BUNDLE/rootfs/beat)\" != '$beat' ]"
  wait_for 20 sh -c "[ \"\$(cat $BUNDLE/rootfs/child)\" != '$child' ]"
}

@test "pause twice is no error, resume of what is not paused is one" {
  wait_program
  create_and_start
  run agentrun resume "$ID"
  assert_error "not paused"
  agentrun pause "$ID"
  run agentrun pause "$ID"
  assert_success
  has_status paused
  agentrun resume "$ID"
  has_status running
}

@test "a paused container is killed and deleted" {
  wait_program
  create_and_start
  agentrun pause "$ID"
  run agentrun kill "$ID" KILL
  assert_success
  wait_for 20 has_status stopped
  run agentrun delete "$ID"
  assert_success
  assert_clean
}

@test "delete --force of a paused container" {
  wait_program
  create_and_start
  agentrun pause "$ID"
  run agentrun delete --force "$ID"
  assert_success
  assert_clean
}

@test "exec into a paused container is refused" {
  wait_program
  create_and_start
  agentrun pause "$ID"
  run agentrun exec "$ID" true
  assert_error "paused"
  agentrun resume "$ID"
  run agentrun exec "$ID" echo again
  assert_output again
}

@test "pause and resume of a stopped and of a missing container" {
  local command
  program true
  create_and_start
  wait_for 20 has_status stopped
  for command in pause resume; do
    run agentrun $command "$ID"
    assert_error "container not running"
    run agentrun $command nosuch
    assert_error "does not exist"
  done
}
