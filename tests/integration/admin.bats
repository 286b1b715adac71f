load helpers
# agentrun.json, the administrator's policies, the host-wide guard, and doctor.

setup() {
  skip_unless_agentrun
  skip_if_rootless "agentrun.json by --config"
  stage
  ADMIN=$SCRATCH/admin.$ID
  mkdir -p -m 0755 "$ADMIN/policies"
  POLICY=
}

teardown() {
  delete_all
  local tree
  for tree in /sys/fs/cgroup /sys/fs/cgroup/*; do
    [ -d "$tree/agentrun.slice/$TEST_CGROUP" ] || continue
    find "$tree/agentrun.slice" -depth -type d -exec rmdir {} \; 2> /dev/null || true
  done
  rm -rf "$ADMIN"
  # What helpers do besides.
  local left
  left=$(leftovers)
  remove "$BUNDLE" "$LOG" "$ROOT"
  [ -z "$left" ] || { printf 'left behind:\n%s\n' "$left" >&2; end_leftovers; return 1; }
}

settings() { printf '%s' "$1" > "$ADMIN/agentrun.json" && chmod 0644 "$ADMIN/agentrun.json"; }
admin_policy() { printf '%s' "$2" > "$ADMIN/policies/$1.json" && chmod 0644 "$ADMIN/policies/$1.json"; }
under() { agentrun --config "$ADMIN/agentrun.json" "$@"; }
run_under() { run under run --bundle "$BUNDLE" "$ID" < /dev/null; }

refused() { # PLACE
  run_under
  assert_error "$1" && assert_clean
}

@test "agentrun.json: the default policy, one of the administrator's that extends another" {
  settings '{"default": "team"}'
  admin_policy team '{"extends": "base", "limits": {"pids": 50}}'
  admin_policy base '{"extends": "strict", "env": {"set": {"TEAM": "blue"}}}'
  program 'echo $TEAM; ulimit -n; echo > /x'
  run_under
  assert_line blue
  assert_line 1024
  assert_contains "Read-only file system"
  run under state "$ID"
  run under report "$ID"
  assert_contains "team /"
}

@test "agentrun.json: callers select only what it lists" {
  settings '{"selectable": ["build"]}'
  program 'ulimit -n'
  config '.annotations = {"org.agentrun.policy": "build"} | del(.process.rlimits)'
  run_under
  assert_output 4096
  local name
  for name in oci session ../../etc/x "" nosuch; do
    base_config | jq --arg n "$name" '.annotations = {"org.agentrun.policy": $n}' > "$BUNDLE/config.json"
    refused '/annotations/org.agentrun.policy: not a policy that callers may select here \(build\)' || fail "$name"
  done
  base_config | jq '.annotations = {"org.agentrun.policy": "build"}' > "$BUNDLE/config.json"
  POLICY=strict run_under
  assert_error "/annotations/org.agentrun.policy: the engine's own --policy strict"
}

@test "agentrun.json: annotations loosen up to its bounds and no further" {
  settings '{"annotations": {"memory": "1G", "pids": 200, "env_keep": ["CI*"]}}'
  wait_program
  config '.annotations = {"org.agentrun.memory": "700M", "org.agentrun.pids": "200", "org.agentrun.env.keep": "CI_JOB"}' \
    '.process.env += ["CI_JOB=7"]'
  detached under create --bundle "$BUNDLE" "$ID"
  assert_success
  assert_equal "$(cat "$(cgroup_of pids)/pids.max")" 200
  assert_equal "$(cat "$(cgroup_of memory)"/memory.{max,limit_in_bytes} 2> /dev/null)" $((700 << 20))
  agentrun delete --force "$ID"
  local pair
  for pair in memory=1025M pids=201 cpus=2 deadline=11m network=config env.keep=HOMEDIR; do
    base_config | jq --arg k "org.agentrun.${pair%%=*}" --arg v "${pair#*=}" '.annotations = {($k): $v}' > "$BUNDLE/config.json"
    refused "read config.json /annotations/org.agentrun.${pair%%=*}: " || fail "$pair"
  done
}

@test "annotations: twice, with a newline, a NUL, a megabyte: one sentence with the place" {
  settings '{}'
  local value
  config '.annotations = {"org.agentrun.memory": "1M\n2M"}'
  refused /annotations/org.agentrun.memory
  sed 's/"1M\\n2M"/"1M", "org.agentrun.memory": "2M"/' "$BUNDLE/config.json" > "$BUNDLE/twice"
  mv "$BUNDLE/twice" "$BUNDLE/config.json"
  refused /annotations/org.agentrun.memory
  sed 's/"1M", "org.agentrun.memory": "2M"/"1M\\u0000"/' "$BUNDLE/config.json" > "$BUNDLE/nul"
  mv "$BUNDLE/nul" "$BUNDLE/config.json"
  refused /annotations/org.agentrun.memory
  base_config | python3 -c 'import json,sys; c=json.load(sys.stdin); c["annotations"]={"org.agentrun.memory": "1"*(1<<20)}; json.dump(c, sys.stdout)' > "$BUNDLE/config.json"
  refused "/annotations/org.agentrun.memory: longer than 64 bytes"
}

@test "agentrun.json that is wrong, another's or unreadable keeps every container from being made" {
  settings '{"guard": {"memory": -1}}'
  refused "$ADMIN/agentrun.json /guard/memory"
  settings '{"gaurd": {}}'
  refused "$ADMIN/agentrun.json /gaurd"
  settings '{'
  refused "$ADMIN/agentrun.json"
  settings '{"default": "nosuch"}'
  refused "$ADMIN/agentrun.json /default: policy nosuch: there is none"
  settings '{}'
  chmod 0666 "$ADMIN/agentrun.json"
  refused "$ADMIN/agentrun.json: others can write to it"
  chmod 0644 "$ADMIN/agentrun.json"
  chown 1000 "$ADMIN/agentrun.json"
  refused "$ADMIN/agentrun.json: owned by uid 1000"
  chown 0 "$ADMIN/agentrun.json"
  chmod 0777 "$ADMIN"
  refused "$ADMIN/agentrun.json: others can write to the directory $ADMIN"
  chmod 0755 "$ADMIN"
  rm "$ADMIN/agentrun.json"
  refused "$ADMIN/agentrun.json: No such file"
  mkfifo "$ADMIN/agentrun.json"
  LIMIT=10 refused "$ADMIN/agentrun.json: not a regular file"
  rm "$ADMIN/agentrun.json"
  mkdir "$ADMIN/agentrun.json"
  refused "$ADMIN/agentrun.json: not a regular file"
}

@test "agentrun.json: an ordinary user cannot choose another one" {
  settings '{"default": "oci"}'
  chown 1000 "$ROOT"
  run setpriv --reuid 1000 --regid 1000 --clear-groups "$RUNTIME" --config "$ADMIN/agentrun.json" --root "$ROOT" \
    run --bundle "$BUNDLE" "$ID"
  chown 0 "$ROOT"
  assert_error "--config $ADMIN/agentrun.json: only root"
}

@test "policies of the administrator: a circle, and a file that others can write to" {
  settings '{"default": "a"}'
  admin_policy a '{"extends": "b"}'
  admin_policy b '{"extends": "a"}'
  refused "$ADMIN/policies/a.json /extends: a circle"
  admin_policy b '{"limits": {"pids": 1e30}}'
  refused "$ADMIN/policies/b.json /limits/pids"
  admin_policy b '{}'
  chmod 0666 "$ADMIN/policies/b.json"
  refused "$ADMIN/policies/b.json: others can write to it"
}

@test "policy list, show and check know the administrator's" {
  settings '{}'
  admin_policy team '{"extends": "build", "limits": {"pids": 50}}'
  run under policy list
  assert_matches '^team +none +10m +2G +2 +50$'
  run under policy show team
  assert_output '{"extends": "build", "limits": {"pids": 50}}'
  echo '{"extends": "team"}' > "$BUNDLE/mine.json"
  run under policy check "$BUNDLE/mine.json"
  assert_output "$BUNDLE/mine.json: a policy"
  run under policy check --settings "$ADMIN/agentrun.json"
  assert_output "$ADMIN/agentrun.json: settings"
  run under policy check --settings "$BUNDLE/mine.json"
  assert_error "$BUNDLE/mine.json /extends"
}

@test "hooks: from the directories of agentrun.json, where they are root's alone" {
  mkdir -m 0755 "$ADMIN/hooks"
  printf '#!/bin/sh\necho ran >> %s/ran\n' "$BUNDLE" > "$ADMIN/hooks/h"
  chmod 0755 "$ADMIN/hooks/h"
  settings "{\"hooks\": {\"directories\": [\"$ADMIN/hooks\"]}}"
  config ".hooks = {\"createRuntime\": [{\"path\": \"$ADMIN/hooks/h\"}, {\"path\": \"$ADMIN/hooks/../../x\"}]}"
  program true
  run_under
  assert_success
  assert_equal "$(cat "$BUNDLE/ran")" ran
  chown 1000 "$ADMIN/hooks"
  refused "$ADMIN/hooks/h: the directory $ADMIN/hooks is owned by uid 1000"
}

@test "roots: a pod's pause container has no deadline, only where the root is a CRI engine's" {
  wait_program
  config '.annotations = {"io.kubernetes.cri.container-type": "sandbox"}'
  settings "{\"roots\": {\"$ROOT\": {\"engine\": \"cri\"}}}"
  detached under create --bundle "$BUNDLE" "$ID"
  assert_success
  assert_equal "$(agentrun state "$ID" | jq -r '.annotations["org.agentrun.deadline"] // "none"')" none
  run under report "$ID"
  assert_contains "no deadline: the pause container of a pod"
  agentrun delete --force "$ID"
  settings "{\"roots\": {\"$ROOT/other\": {\"engine\": \"cri\"}}}"
  detached under create --bundle "$BUNDLE" "$ID"
  assert_success
  assert_equal "$(agentrun state "$ID" | jq -r '.annotations["org.agentrun.deadline"] // "none"')" 10m
}

slice_of() { # CONTROLLER FILE...
  local controller=$1 file
  shift
  for file in "$@"; do
    if is_unified; then cat "/sys/fs/cgroup/agentrun.slice/$file"; else cat "/sys/fs/cgroup/$controller/agentrun.slice/$file"; fi 2> /dev/null
  done
}

@test "guard: every container is below agentrun.slice, which has the limits" {
  settings '{"guard": {"memory": "600M", "pids": 300}}'
  wait_program
  detached under create --bundle "$BUNDLE" "$ID"
  assert_success
  assert_matches_text "$(cgroup_of memory)" '/agentrun.slice/'
  assert_matches_text "$(cgroup_of pids)" '/agentrun.slice/'
  assert_equal "$(slice_of memory memory.max memory.limit_in_bytes)" $((600 << 20))
  assert_equal "$(slice_of pids pids.max)" 300
  run under report "$ID"
  assert_contains "below the guard that bounds all containers"
}
assert_matches_text() { grep -qE -- "$2" <<< "$1" || fail "expected $2 in $1"; }

@test "guard: a parent's limit would be lost: refused" {
  [ "$CGROUP_MANAGER" = cgroupfs ] || skip "the parent is made by hand"
  settings '{"guard": {"pids": 300}}'
  local parent
  if is_unified; then
    parent=/sys/fs/cgroup/$TEST_CGROUP/pod
    mkdir "$parent"
    echo +pids > "/sys/fs/cgroup/$TEST_CGROUP/cgroup.subtree_control"
  else
    parent=/sys/fs/cgroup/pids/$TEST_CGROUP/pod
    mkdir -p "$parent"
  fi
  echo 20 > "$parent/pids.max"
  config ".linux.cgroupsPath = \"/$TEST_CGROUP/pod/$ID\""
  run_under
  rmdir "$parent"
  assert_error "the limit of its parent would be lost: $parent/pids.max"
}

@test "guard: as many containers as it says, of all roots" {
  settings '{"guard": {"containers": 2}}'
  wait_program
  detached under create --bundle "$BUNDLE" "$ID"
  assert_success
  local first=$ID second=$ID.second
  config ".linux.cgroupsPath += \".second\""
  detached under create --bundle "$BUNDLE" "$second"
  assert_success
  config ".linux.cgroupsPath += \".third\""
  run under create --bundle "$BUNDLE" "$ID.third"
  assert_error 'there are 2, and the host-wide guard \(agentrun.json, /guard/containers\) allows 2'
  # Another root is another engine's: counted all the same.
  mkdir -m 0700 "$ROOT/.other"
  run "$RUNTIME" --config "$ADMIN/agentrun.json" --root "$ROOT/.other" create --bundle "$BUNDLE" x
  assert_error "there are 2"
  agentrun delete --force "$second"
  detached under create --bundle "$BUNDLE" "$second"
  assert_success
}

@test "guard: of ten creates at once two win" {
  settings '{"guard": {"containers": 2}}'
  wait_program
  local n pids=() won=0
  for n in 0 1 2 3 4 5 6 7 8 9; do
    mkdir "$BUNDLE/$n"
    ln -s ../rootfs "$BUNDLE/$n/rootfs"
    jq --arg n ".$n" '.linux.cgroupsPath += $n' "$BUNDLE/config.json" > "$BUNDLE/$n/config.json"
    under create --bundle "$BUNDLE/$n" "$ID.$n" > /dev/null 2>&1 < /dev/null &
    pids+=($!)
  done
  for n in "${pids[@]}"; do wait "$n" && won=$((won + 1)); done
  assert_equal "$won" 2
}

@test "guard: without cgroups it is refused" {
  settings '{"guard": {"pids": 300}, "default": "oci"}'
  config 'del(.linux.resources)'
  run "$RUNTIME" --root "$ROOT" --cgroup-manager disabled --config "$ADMIN/agentrun.json" run --bundle "$BUNDLE" "$ID"
  assert_error 'agentrun.json, /guard\) needs cgroups'
}

@test "doctor: a line for each mechanism, and the exit status says whether strict can be had" {
  settings '{}'
  run under doctor
  assert_success
  local name
  for name in kernel namespaces cgroup.memory cgroup.pids seccomp landlock apparmor overlay deadline "audit log" agentrun.json; do
    assert_matches "^$name +(ok|limited|missing) "
  done
  assert_contains "The policy strict can be enforced here."
  run under doctor --json
  jq -e '.strict and (.mechanisms | length > 15) and (.mechanisms | all(has("name") and has("state") and has("needed")))' <<< "$output"
  # Whatever is not right says what to do.
  jq -e '.mechanisms | map(select(.state != "ok")) | all(.remedy != null)' <<< "$output"
  settings '{"default": "nosuch"}'
  run under doctor
  assert_status 1
  assert_matches '^agentrun.json +missing .*nosuch'
  run "$RUNTIME" --cgroup-manager disabled doctor
  assert_status 1
  assert_matches '^cgroup.memory +missing '
}

@test "doctor changes nothing" {
  local before after
  before=$(mounts; find /run/agentrun /var/log/agentrun | sort; cat /proc/sys/user/max_user_namespaces)
  run agentrun doctor
  assert_success
  after=$(mounts; find /run/agentrun /var/log/agentrun | sort; cat /proc/sys/user/max_user_namespaces)
  assert_equal "$after" "$before"
  assert_clean
}
