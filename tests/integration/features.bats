load helpers

@test "--version: a name, a number, the specification, features" {
  run "$RUNTIME" --version
  assert_success
  assert_matches ' version [0-9]'
  assert_matches '^spec: 1\.'
  [ -z "$IS_AGENTRUN" ] || assert_matches '^\+.*\+SECCOMP'
}

@test "features: what engines read" {
  skip_unless_agentrun
  run agentrun features
  assert_success
  jq -e '.ociVersionMin and .ociVersionMax
    and (.mountOptions | index("rro")) and (.mountOptions | index("ro"))
    and (.linux.namespaces | index("user"))
    and (.linux.capabilities | index("CAP_SYS_ADMIN"))
    and (.linux.cgroup.v2) and (.linux.seccomp.enabled)
    and (.linux.seccomp.actions | index("SCMP_ACT_ERRNO"))
    and (.hooks | index("createRuntime"))' <<< "$output"
}

@test "features promises only namespaces that work" {
  skip_unless_agentrun
  local name
  for name in $(agentrun features | jq -r '.linux.namespaces[]'); do
    case $name in pid | network | mount | ipc | uts | user | cgroup | time) ;; *) fail "unknown: $name" ;; esac
  done
}

@test "spec writes a config.json that runs" {
  cd "$BUNDLE"
  rm config.json
  run agentrun spec
  assert_success
  assert_file config.json
  config '.process.terminal = false | .process.args = ["echo", "of the template"]' '.root.readonly = false'
  config ".linux.cgroupsPath = \"/$TEST_CGROUP/c/$ID\""
  run_bundle
  assert_success
  assert_output "of the template"
}

@test "spec does not overwrite" {
  cd "$BUNDLE"
  echo mine > config.json
  run agentrun spec
  assert_failure
  assert_equal "$(cat config.json)" mine
}

@test "spec --bundle and --rootless" {
  mkdir "$BUNDLE/new"
  run agentrun spec --rootless --bundle "$BUNDLE/new"
  assert_success
  jq -e '[.linux.namespaces[].type] | index("user")' "$BUNDLE/new/config.json"
  jq -e '.linux.uidMappings[0].size == 1' "$BUNDLE/new/config.json"
}

@test "spec has no inheritable capabilities" {
  cd "$BUNDLE"
  rm config.json
  agentrun spec
  assert_equal "$(jq '.process.capabilities.inheritable // [] | length' config.json)" 0
}

@test "--help of the whole and of each command" {
  run "$RUNTIME" --help
  assert_success
  local command
  for command in create start state kill delete run exec list spec features; do
    assert_contains "$command"
  done
  for command in create start state kill delete run exec list spec features; do
    run "$RUNTIME" "$command" --help
    assert_success || fail "$command --help"
    assert_contains "$command"
  done
}

@test "help goes to standard output" {
  skip_unless_agentrun
  run --separate-stderr "$RUNTIME" create --help
  assert_success
  assert_equal "$stderr" ""
}

@test "--trace-timing: steps of both sides, in order" {
  skip_unless_agentrun
  program true
  run agentrun --trace-timing "$BUNDLE/trace" run --bundle "$BUNDLE" "$ID" < /dev/null
  assert_success
  output=$(cat "$BUNDLE/trace")
  [ "$(wc -l < "$BUNDLE/trace")" -ge 5 ] || fail "few steps"
  assert_equal "$(awk '$1 !~ /^[0-9]+$/ || ($2 != "parent" && $2 != "child") || $3 == ""' "$BUNDLE/trace")" ""
  assert_equal "$(awk '{ print $1 }' "$BUNDLE/trace")" "$(awk '{ print $1 }' "$BUNDLE/trace" | sort -n)"
  assert_matches '^[0-9]+ child '
}

@test "--trace-timing to a file that cannot be written" {
  skip_unless_agentrun
  run agentrun --trace-timing /no/such/directory/trace run --bundle "$BUNDLE" "$ID" < /dev/null
  assert_error /no/such/directory
  assert_clean
}

@test "without --trace-timing there is no trace" {
  run_bundle
  assert_success
  assert_output hello
}
