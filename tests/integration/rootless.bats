# agentrun as an ordinary user, alone. Started by root, like the other files: each call becomes the user, in a user namespace
# of the container's own (the runtime called directly) or of an engine's (unshare in the place of podman unshare).
load helpers

OWNER=612345
FIRST=7000000 # of the ranges

setup_file() {
  [ -z "$ROOTLESS" ] || return 0
  for file in passwd group subuid subgid; do
    touch "/etc/$file" "$SCRATCH/own.$file"
    cp "/etc/$file" "$SCRATCH/own.$file"
    mount --bind "$SCRATCH/own.$file" "/etc/$file"
  done
  echo "agentrun-owner:x:$OWNER:$OWNER::$SCRATCH/owner:/bin/sh" >> /etc/passwd
  echo "agentrun-owner:x:$OWNER:" >> /etc/group
  mkdir -p "$SCRATCH/owner/run"
  chown -R "$OWNER:$OWNER" "$SCRATCH/owner"
}
teardown_file() {
  [ -z "$ROOTLESS" ] || return 0
  for file in passwd group subuid subgid; do umount "/etc/$file"; done
}

setup() {
  skip_unless_agentrun
  [ -z "$ROOTLESS" ] || skip "root becomes several users here"
  skip_unless "newuidmap is missing: see tests/packages" command -v newuidmap
  echo "agentrun-owner:$FIRST:65536" | tee "$SCRATCH/own.subuid" > "$SCRATCH/own.subgid"
  stage
  MOUNTS_BEFORE=$(mounts)
  chown -R "$OWNER:$OWNER" "$ROOT" "$BUNDLE"
  config 'del(.linux.cgroupsPath, .linux.resources)'
  as_owner() {
    setpriv --reuid "$OWNER" --regid "$OWNER" --clear-groups env -u XDG_STATE_HOME -u AGENTRUN_AUDIT_LOG \
      "HOME=$SCRATCH/owner" "XDG_RUNTIME_DIR=$SCRATCH/owner/run" "$@"
  }
  user_agentrun() { # as `agentrun` of the helpers, by the user
    as_owner timeout --foreground --kill-after=5 "$LIMIT" "$RUNTIME" --root "$ROOT" --policy "$POLICY" "$@" 3>&-
  }
  user_run() { run user_agentrun run --bundle "$BUNDLE" "$@" "$ID" < /dev/null; }
}

# Root does not take a state root that is not its own.
teardown() {
  local id
  [ -n "${ID:-}" ] || return 0
  for id in $(containers); do user_agentrun delete --force "$id" < /dev/null || echo "delete --force $id failed" >&2; done
  local left
  left=$(leftovers)
  rm -rf "$BUNDLE" "$LOG" "$ROOT"
  [ -z "$left" ] || { printf 'left behind:\n%s\n' "$left" >&2; return 1; }
}

no_ranges() { : | tee "$SCRATCH/own.subuid" > "$SCRATCH/own.subgid"; }

@test "a config without a user namespace gets one, with the ranges of /etc/subuid" {
  program 'id -u; tr -s " " < /proc/self/uid_map; tr -s " " < /proc/self/gid_map; : > /dev/null; cat /dev/zero | head -c 1 | wc -c'
  user_run
  assert_success
  assert_output "0
 0 $OWNER 1
 1 $FIRST 65536
 0 $OWNER 1
 1 $FIRST 65536
1"
}

@test "a range may name the user by number, and there may be several" {
  printf "$OWNER:$FIRST:1000\nagentrun-owner:7100000:500\nother:1:5\n" | tee "$SCRATCH/own.subuid" > "$SCRATCH/own.subgid"
  program 'tr -s " " < /proc/self/uid_map'
  user_run
  assert_success
  assert_output " 0 $OWNER 1
 1 $FIRST 1000
 1001 7100000 500"
}

@test "without ranges one id is mapped, and no_new_privs of the caller is the same" {
  no_ranges
  program 'id -u; tr -s " " < /proc/self/uid_map; touch /made; grep Groups /proc/self/status'
  user_run
  assert_success
  assert_line " 0 $OWNER 1"
  refute_contains "$FIRST"
  assert_equal "$(stat -c %u "$BUNDLE/rootfs/made")" "$OWNER"
  echo "agentrun-owner:$FIRST:65536" | tee "$SCRATCH/own.subuid" > "$SCRATCH/own.subgid"
  run as_owner setpriv --no-new-privs "$RUNTIME" --root "$ROOT" --policy oci run --bundle "$BUNDLE" "$ID" < /dev/null
  assert_success
  assert_line " 0 $OWNER 1"
  refute_contains "$FIRST"
}

@test "an id that is not mapped is refused by name" {
  no_ranges
  config '.process.user.uid = 1000'
  user_run
  assert_error '/process/user/uid: uid 1000 is not mapped.*newuidmap'
  config '.process.user = {"uid": 0, "gid": 7}'
  user_run
  assert_error '/process/user/gid: gid 7 is not mapped'
  config '.process.user = {"uid": 0, "gid": 0, "additionalGids": [8]}'
  user_run
  assert_error '/process/user/additionalGids: gid 8 is not mapped'
}

@test "a user of the container is an id of the range" {
  config '.process.user = {"uid": 1000, "gid": 1001, "additionalGids": [20]}'
  program 'grep -E "^(Uid|Gid|Groups)" /proc/self/status | tr "\t" " "; touch /tmp/made'
  user_run
  assert_success
  assert_line "Uid: 1000 1000 1000 1000"
  assert_line "Gid: 1001 1001 1001 1001"
  assert_matches '^Groups: (1001 )?20 *$'
  assert_equal "$(stat -c %u:%g "$BUNDLE/rootfs/tmp/made")" "$((FIRST + 999)):$((FIRST + 1000))"
}

@test "a map without 0: create and exec keep their rights until the program has its user" {
  config '.linux.namespaces += [{"type": "user"}] | .process.user = {"uid": 1000, "gid": 1000}' \
    ".linux.uidMappings = [{\"containerID\": 1000, \"hostID\": $OWNER, \"size\": 1}] | .linux.gidMappings = .linux.uidMappings" \
    '.mounts |= map(if .type == "devpts" then .options -= ["gid=5"] else . end)'
  program 'id -u; while :; do sleep 0.2; done'
  detached user_agentrun run --detach --bundle "$BUNDLE" "$ID"
  assert_success
  run user_agentrun exec "$ID" sh -c 'id -u; id -g; grep CapEff /proc/self/status; tr -s " " < /proc/self/uid_map' < /dev/null
  assert_success
  assert_output "1000
1000
CapEff:	0000000000000000
 1000 $OWNER 1"
}

@test "create, state, exec, kill, delete by the user" {
  wait_program
  detached user_agentrun create --bundle "$BUNDLE" "$ID"
  assert_success
  run user_agentrun state "$ID"
  assert_contains '"status": "created"'
  run user_agentrun start "$ID"
  assert_success
  run user_agentrun exec "$ID" sh -c 'id -u; tr -s " " < /proc/self/uid_map' < /dev/null
  assert_success
  assert_line " 1 $FIRST 65536"
  run user_agentrun kill "$ID" TERM
  assert_success
  stopped() { user_agentrun state "$ID" | grep -q '"status": "stopped"'; }
  wait_for 20 stopped
  run user_agentrun delete "$ID"
  assert_success
  assert_clean
}

@test "the state is in XDG_RUNTIME_DIR, the audit log in the user's state directory, both his alone" {
  echo '{"extends": "strict", "require": [], "limits": {"memory": null, "cpus": null, "pids": null, "no_hugepages": false}}' > "$BUNDLE/policy.json"
  run as_owner "$RUNTIME" --policy "$BUNDLE/policy.json" run --bundle "$BUNDLE" "$ID" < /dev/null
  assert_success
  assert_output hello
  assert_equal "$(stat -c %u:%a "$SCRATCH/owner/run/agentrun")" "$OWNER:700"
  assert_equal "$(stat -c %u:%a "$SCRATCH/owner/.local/state/agentrun")" "$OWNER:700"
  assert_equal "$(stat -c %u:%a "$SCRATCH/owner/.local/state/agentrun/audit.jsonl")" "$OWNER:600"
  refute_file "/run/agentrun/$ID"
}

@test "an oom_score_adj below the user's own is refused in words" {
  config '.process.oomScoreAdj = -500'
  user_run
  assert_error 'set oom_score_adj -500: an ordinary user cannot lower it: it is'
  config '.process.oomScoreAdj = 700'
  program 'cat /proc/self/oom_score_adj'
  user_run
  assert_output 700
}

@test "a limit without delegation: oci refuses it, strict refuses to run, both say what to do" {
  config '.linux.resources = {"memory": {"limit": 67108864}}'
  user_run
  assert_error 'no permission is granted for cgroups: call with --systemd-cgroup'
  config 'del(.linux.resources)'
  POLICY=strict user_run
  assert_error '/require/cgroup.memory: no memory controller can be had here: an ordinary user'
}

@test "a deadline without cgroups ends every process of the container" {
  config '.annotations["org.agentrun.deadline"] = "3s"'
  program 'sleep 1000 & sleep 1000 & sleep 1000'
  user_run
  assert_status 137
}

@test "a new user namespace with a pid namespace that is there already is refused" {
  unshare --fork --pid --kill-child sleep 1000 3>&- &
  local outer=$!
  config "(.linux.namespaces[] | select(.type == \"pid\")) += {\"path\": \"$BUNDLE/pidns\"}"
  touch "$BUNDLE/pidns"
  wait_for 10 sh -c "pgrep -P $outer"
  mount --bind "/proc/$(pgrep -P $outer)/ns/pid" "$BUNDLE/pidns"
  user_run
  umount "$BUNDLE/pidns"
  kill "$outer"
  assert_error 'cannot make a user namespace and join a pid namespace'
}

# ---- in the user namespace of an engine ----

in_engine() { as_owner unshare --user --map-root-user --map-auto --mount --propagation private "$@" 3>&-; }

@test "root of an engine's user namespace: no further one, devices bound, state and audit as the user's" {
  program 'tr -s " " < /proc/self/uid_map; cat /dev/null; stat -c %u /dev/null; echo $(id -u)'
  run in_engine "$RUNTIME" --policy oci run --bundle "$BUNDLE" "$ID" < /dev/null
  assert_success
  assert_line 65534
  assert_line 0
  assert_matches " 0 $OWNER 1"
  assert_file "$SCRATCH/owner/run/agentrun"
  refute_file "/run/agentrun/$ID"
}

@test "keep-id in an engine's user namespace: maps are written without newuidmap, exec goes in" {
  config '.linux.namespaces += [{"type": "user"}] | .process.user = {"uid": 1000, "gid": 1000}' \
    '.linux.uidMappings = [{"containerID": 0, "hostID": 1, "size": 1000}, {"containerID": 1000, "hostID": 0, "size": 1}, {"containerID": 1001, "hostID": 1001, "size": 60000}]' \
    '.linux.gidMappings = .linux.uidMappings'
  program 'id -u; while :; do sleep 0.2; done'
  # What the container needs to do with its root, it does as uid 0 of the inner namespace.
  chown -R "$FIRST:$FIRST" "$BUNDLE/rootfs"
  printf '%s\n' '"$1" --root "$2" --policy oci run --detach --bundle "$3" "$4" > "$3/out" 2>&1 < /dev/null || { cat "$3/out"; exit 1; }
"$1" --root "$2" exec "$4" sh -c "id -u; touch /tmp/made" < /dev/null
code=$?
"$1" --root "$2" delete --force "$4"
exit $code' > "$BUNDLE/engine"
  run in_engine sh "$BUNDLE/engine" "$RUNTIME" "$ROOT" "$BUNDLE" "$ID"
  assert_success
  assert_output 1000
  assert_equal "$(stat -c %u "$BUNDLE/rootfs/tmp/made")" "$OWNER"
}

@test "a policy file of the host's root counts in an engine's user namespace, one of another user does not" {
  echo '{"extends": "oci", "rootfs": {"readonly": true}}' > "$SCRATCH/admin.json"
  mkdir -p "$SCRATCH/etc.d"
  mount --bind "$SCRATCH/etc.d" /etc/alternatives
  mv "$SCRATCH/admin.json" /etc/alternatives/admin.json
  program 'touch /made 2>&1; echo end'
  run in_engine "$RUNTIME" --policy /etc/alternatives/admin.json run --bundle "$BUNDLE" "$ID" < /dev/null
  cp /etc/alternatives/admin.json "$SCRATCH/foreign.json"
  umount /etc/alternatives
  assert_success
  assert_contains "Read-only file system"
  chown 54321 "$SCRATCH/foreign.json"
  run in_engine "$RUNTIME" --policy "$SCRATCH/foreign.json" run --bundle "$BUNDLE" "$ID" < /dev/null
  assert_error 'foreign.json: owned by uid 65534'
}
