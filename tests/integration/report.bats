load helpers

setup() {
  skip_unless_agentrun
  stage
}

@test "report: a limit that was cut says so, with the rule" {
  config '.linux.resources.memory = {"limit": 2147483648}'
  wait_program
  detached strict create --bundle "$BUNDLE" "$ID"
  assert_success
  run agentrun report "$ID"
  assert_success
  assert_contains /linux/resources/memory/limit
  assert_matches '/linux/resources/memory/limit +2G +512M +strict '
}

@test "report: after the container's end, and after delete" {
  program true
  run_strict
  assert_success
  run agentrun report "$ID"
  assert_success
  assert_contains /process/capabilities/bounding
}

@test "report --json: pointer, before, after and rule of each change" {
  config '.process.env += ["SECRET_TOKEN=hidden-value"]'
  wait_program
  detached strict create --bundle "$BUNDLE" "$ID"
  run agentrun report --json "$ID"
  assert_success
  jq -e '.policy == "strict" and (.changes | length > 3) and (.changes | all(has("pointer") and has("rule")))' <<< "$output"
  # The report is read by whoever asks: values of variables are not in it.
  refute_contains hidden-value
}

@test "report of a container that never was" {
  run agentrun report nosuch
  assert_error nosuch
}

@test "report under oci: nothing changed" {
  wait_program
  create
  run agentrun report --json "$ID"
  assert_success
  assert_equal "$(jq '.changes | length' <<< "$output")" 0
}

@test "the report is the truth: every line of it holds in the container" {
  config '.root.readonly = false | .process.noNewPrivileges = false'
  program 'grep NoNewPrivs /proc/self/status; touch /x; sleep 1000'
  detached strict create --bundle "$BUNDLE" "$ID"
  start
  wait_for 5 grep -q NoNew "$LOG"
  run agentrun report --json "$ID"
  local pointers
  pointers=$(jq -r '.changes[].pointer' <<< "$output")
  grep -q /root/readonly <<< "$pointers"
  grep -q /process/noNewPrivileges <<< "$pointers"
  output=$(cat "$LOG")
  assert_matches 'NoNewPrivs:[[:space:]]+1'
  assert_contains "Read-only"
}

@test "policy explain: says what would change, and makes nothing" {
  config 'del(.linux.namespaces[] | select(.type == "network"))' '.linux.resources.memory = {"limit": 2147483648}'
  run agentrun policy explain --policy strict --bundle "$BUNDLE"
  assert_success
  assert_contains /linux/resources/memory/limit
  assert_contains /linux/namespaces
  assert_clean
}

@test "policy explain and report of the same bundle agree" {
  local explained
  explained=$(agentrun policy explain --json --policy strict --bundle "$BUNDLE")
  detached strict create --bundle "$BUNDLE" "$ID"
  assert_success
  assert_equal "$(agentrun report --json "$ID" | jq -S '[.changes[].pointer]')" "$(jq -S '[.changes[].pointer]' <<< "$explained")"
}

@test "policy explain of a bundle that would be refused" {
  config '.mounts += [{"destination": "/m", "type": "bind", "source": "/", "options": ["rbind"]}]'
  run agentrun policy explain --policy strict --bundle "$BUNDLE"
  assert_error /mounts/
}

@test "policy list, show and check" {
  run agentrun policy list
  assert_success
  assert_matches '^strict '
  assert_matches '^oci '
  run agentrun policy show strict
  assert_success
  jq -e '.network.mode == "none"' <<< "$output"
  agentrun policy show strict > "$BUNDLE/policy.json"
  run agentrun policy check "$BUNDLE/policy.json"
  assert_success
  echo '{"limits": {"memory": -1}}' > "$BUNDLE/policy.json"
  run agentrun policy check "$BUNDLE/policy.json"
  assert_error /limits/memory
  run agentrun policy show nosuch
  assert_error nosuch
}

@test "audit: create, start and exit are recorded, values of variables are not" {
  config '.process.env += ["LANG=hidden-value"]'
  program 'exit 3'
  detached strict create --bundle "$BUNDLE" "$ID"
  start
  wait_for 5 has_status stopped
  assert_audit '.container == $id and .event == "create"'
  assert_audit '.container == $id and .event == "start"'
  wait_for 5 grep -q '"exit"' "$AGENTRUN_AUDIT_LOG"
  output=$(cat "$AGENTRUN_AUDIT_LOG")
  refute_contains hidden-value
  jq -e -s 'all(has("format") and has("time"))' "$AGENTRUN_AUDIT_LOG" > /dev/null
  assert_equal "$(stat -c %a "$AGENTRUN_AUDIT_LOG")" 600
}

@test "audit: a refusal is recorded" {
  config '.mounts += [{"destination": "/m", "type": "bind", "source": "/", "options": ["rbind"]}]'
  run_strict
  assert_failure
  assert_audit '.container == $id and .event == "denial"'
}

@test "audit: without a place for the record strict does not run" {
  program 'echo ran'
  AGENTRUN_AUDIT_LOG=/proc/nosuch/audit.jsonl run strict run --bundle "$BUNDLE" "$ID" < /dev/null
  assert_failure
  refute_contains ran
  assert_clean
}
