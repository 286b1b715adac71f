load helpers
# user.userns "auto": a private range of ids, an idmapped root. What the tests know of the host's ids is in two files of
# their own, seen in this run's mount namespace alone.

FIRST=1500000000

setup_file() {
  [ -z "$ROOTLESS" ] || return 0
  for file in subuid subgid; do
    touch "/etc/$file" "$SCRATCH/own.$file"
    mount --bind "$SCRATCH/own.$file" "/etc/$file"
  done
}
teardown_file() {
  [ -z "$ROOTLESS" ] || return 0
  umount /etc/subuid /etc/subgid
}

setup() {
  skip_unless_agentrun
  skip_if_rootless "give private ids"
  ranges 64
  rm -rf /run/agentrun/.ranges
  stage
  MOUNTS_BEFORE=$(mounts)
  chmod 0700 "$BUNDLE" # the ids of the container may not search it, nor need they
  policy '{}'
  POLICY=$SCRATCH/auto.json
}

ranges() { echo "agentrun:$FIRST:$(($1 * 65536))" | tee "$SCRATCH/own.subuid" > "$SCRATCH/own.subgid"; }

# strict with userns auto, and what else the test says.
policy() { jq '. * {"user": ((.user // {}) + {"userns": "auto"})}' <<< "$1" > "$SCRATCH/auto.json"; }

needs_idmapped_tmpfs() {
  agentrun run --bundle "$BUNDLE" probe > "$LOG" 2>&1 < /dev/null && return 0
  grep -q "cannot be idmapped" "$LOG" && skip "this kernel cannot map the ids of a tmpfs"
  return 0
}

in_cgroup() { config ".linux.cgroupsPath = \"/$TEST_CGROUP/c/$ID.$1\""; }

host_ids() { awk "/^$1:/ { print \$2, \$3, \$4, \$5 }" "/proc/$2/status"; }
reserved() { find /run/agentrun/.ranges -type l -printf '%f\n' 2> /dev/null | sort; }

@test "uid 0 of the container is nobody else's id on the host, and no file changes its owner" {
  needs_idmapped_tmpfs
  echo content > "$BUNDLE/rootfs/etc/private"
  chmod 0600 "$BUNDLE/rootfs/etc/private"
  program 'id -u; cat /etc/private; stat -c %u:%g /etc/private /home/user; tr -s " " < /proc/self/uid_map; tr -s " " < /proc/self/gid_map; echo > /dev/null && echo null; echo x > /tmp/x && stat -c %u /tmp/x'
  run_bundle
  assert_success
  assert_output "0
content
0:0
1000:1000
 0 $FIRST 65536
 0 $FIRST 65536
null
0"
  assert_equal "$(stat -c %u:%g "$BUNDLE/rootfs/etc/private")" 0:0
  assert_equal "$(reserved)" ""
}

@test "what is written to the root belongs to whom it belonged without userns" {
  needs_idmapped_tmpfs
  policy '{"rootfs": {"readonly": false}, "workdir": {"writable": false}}'
  program 'touch /made && mkdir -p /new/directory && stat -c %u:%g /made'
  run_bundle
  assert_success
  assert_output 0:0
  assert_equal "$(stat -c %u:%g "$BUNDLE/rootfs/made")" 0:0
}

@test "create, state, exec, kill, delete: every process has ids of the range" {
  needs_idmapped_tmpfs
  wait_program
  create_and_start
  local pid
  pid=$(pid_of)
  assert_equal "$(host_ids Uid "$pid")" "$FIRST $FIRST $FIRST $FIRST"
  assert_equal "$(host_ids Gid "$pid")" "$FIRST $FIRST $FIRST $FIRST"
  assert_equal "$(state_of '.annotations["org.agentrun.userns"]')" "uids $FIRST-$((FIRST + 65535)), gids $FIRST-$((FIRST + 65535))"
  assert_equal "$(reserved)" "$FIRST-$FIRST-65536"
  run agentrun exec --user 5:6 "$ID" sh -c 'id -u; id -g; tr -s " " < /proc/self/uid_map; touch /tmp/by-exec && stat -c %u /tmp/by-exec' < /dev/null
  assert_success
  assert_output "5
6
 0 $FIRST 65536
5"
  detached agentrun exec --detach --user 7 "$ID" sleep 1000
  assert_success
  in_range() { grep -q "^Uid:[[:space:]]*$((FIRST + 7))" /proc/[0-9]*/status; }
  wait_for 10 in_range
  run agentrun ps "$ID"
  assert_success
  run agentrun report "$ID"
  assert_contains /linux/uidMappings
  assert_contains "$FIRST"
  run agentrun update --pids-limit 50 "$ID"
  assert_success
  run agentrun kill "$ID" KILL
  assert_success
  wait_for 20 has_status stopped
  run agentrun delete "$ID"
  assert_success
  assert_equal "$(reserved)" ""
  assert_clean
}

@test "a terminal and the streams belong to the container's user" {
  needs_idmapped_tmpfs
  program 'echo by name > /dev/stdout; stat -c %u /proc/self/fd/1'
  agentrun run --bundle "$BUNDLE" "$ID" < /dev/null 2>&1 | cat > "$BUNDLE/out"
  assert_equal "$(cat "$BUNDLE/out")" "by name
0"
  config '.process.terminal = true'
  program 'test -t 0 && stat -c %u:%g "$(tty)"; echo through > /dev/tty'
  run script -qec "$RUNTIME --root $ROOT --policy $POLICY run --bundle $BUNDLE $ID" /dev/null
  assert_contains 0:5
  assert_contains through
}

@test "no line in /etc/subuid: create says which line to add" {
  : > "$SCRATCH/own.subuid"
  create
  assert_error 'subuid: it has no ids for agentrun: add the line "agentrun:[0-9]*:16777216" to /etc/subuid and /etc/subgid'
  ranges 64
  : > "$SCRATCH/own.subgid"
  create
  assert_error 'subgid: it has no ids for agentrun'
  run agentrun policy explain --policy "$POLICY" --bundle "$BUNDLE"
  assert_error 'subgid: it has no ids for agentrun'
  assert_clean
}

@test "ids of the host's own are never handed out" {
  echo "agentrun:0:65536" | tee "$SCRATCH/own.subuid" > "$SCRATCH/own.subgid"
  create
  assert_error "no range of 65536 ids is free"
}

@test "policy explain shows a range and reserves none" {
  run agentrun policy explain --policy "$POLICY" --bundle "$BUNDLE"
  assert_success
  assert_contains "$FIRST"
  assert_equal "$(reserved)" ""
}

@test "as many containers as ranges, then a sentence; delete gives one back" {
  needs_idmapped_tmpfs
  ranges 2
  wait_program
  in_cgroup 1
  detached agentrun create --bundle "$BUNDLE" "$ID.1"
  assert_success
  in_cgroup 2
  detached agentrun create --bundle "$BUNDLE" "$ID.2"
  assert_success
  in_cgroup 3
  detached agentrun create --bundle "$BUNDLE" "$ID.3"
  assert_error "no range of 65536 ids is free, 2 are taken: give agentrun more in /etc/subuid"
  run agentrun delete --force "$ID.1"
  assert_success
  in_cgroup 3
  detached agentrun create --bundle "$BUNDLE" "$ID.3"
  assert_success
  assert_equal "$(state_of '.annotations["org.agentrun.userns"]' "$ID.3")" "uids $FIRST-$((FIRST + 65535)), gids $FIRST-$((FIRST + 65535))"
}

@test "20 creates at the same time have ranges that never meet" {
  needs_idmapped_tmpfs
  local n pids=()
  ranges 20
  wait_program
  for n in $(seq 20); do
    in_cgroup "$n"
    cp "$BUNDLE/config.json" "$BUNDLE/config.$n.json"
  done
  for n in $(seq 20); do
    agentrun create --bundle "$BUNDLE" --config "$BUNDLE/config.$n.json" "$ID.$n" > "$BUNDLE/out.$n" 2>&1 < /dev/null &
    pids+=($!)
  done
  for n in $(seq 20); do wait "${pids[$((n - 1))]}" || fail "$n: $(cat "$BUNDLE/out.$n")"; done
  for n in $(seq 20); do awk '{ print $2, $3 }' "/proc/$(pid_of "$ID.$n")/uid_map"; done | sort -n > "$BUNDLE/ranges"
  assert_equal "$(awk 'NR > 1 && $1 < last { print "meets", $0 } { last = $1 + $2 }' "$BUNDLE/ranges")" ""
  assert_equal "$(sort -u "$BUNDLE/ranges" | wc -l)" 20
  assert_equal "$(reserved | wc -l)" 20
}

@test "two roots share the ranges" {
  needs_idmapped_tmpfs
  wait_program
  create
  assert_success
  mkdir -m 0700 "$ROOT/.other"
  in_cgroup 2
  ROOT=$ROOT/.other detached agentrun create --bundle "$BUNDLE" "$ID"
  assert_success
  assert_equal "$(reserved | wc -l)" 2
  ROOT=$ROOT/.other run agentrun delete --force "$ID"
  assert_success
  assert_equal "$(reserved)" "$FIRST-$FIRST-65536"
}

@test "what killed commands left is taken back when there is no other, what lives is not" {
  needs_idmapped_tmpfs
  ranges 3
  wait_program
  create
  assert_success
  # Of a dead creator with no container; of one that lives; the first is the running container's.
  sleep 1000 3>&- &
  local living=$! boot
  boot=$(cat /proc/sys/kernel/random/boot_id)
  ln -s "1 4194303 7 $boot gone $ROOT" "/run/agentrun/.ranges/$((FIRST + 65536))-$((FIRST + 65536))-65536"
  ln -s "1 $living $(awk '{ print $22 }' "/proc/$living/stat") $boot making $ROOT" \
    "/run/agentrun/.ranges/$((FIRST + 131072))-$((FIRST + 131072))-65536"
  in_cgroup 1
  detached agentrun create --bundle "$BUNDLE" "$ID.1"
  assert_success
  assert_equal "$(awk '{ print $2 }' "/proc/$(pid_of "$ID.1")/uid_map")" $((FIRST + 65536))
  in_cgroup 2
  detached agentrun create --bundle "$BUNDLE" "$ID.2"
  kill "$living"
  assert_error "no range of 65536 ids is free, 3 are taken"
}

@test "a process that has the ids keeps them from others, whatever the records say" {
  needs_idmapped_tmpfs
  ranges 1
  mkdir -p -m 0700 /run/agentrun/.ranges
  setpriv --reuid $((FIRST + 9)) --regid $((FIRST + 9)) --clear-groups sleep 1000 3>&- &
  local stranger=$!
  in_range() { grep -q "^Uid:[[:space:]]*$((FIRST + 9))" "/proc/$stranger/status"; }
  wait_for 10 in_range
  ln -s "1 4194303 7 $(cat /proc/sys/kernel/random/boot_id) gone $ROOT" "/run/agentrun/.ranges/$FIRST-$FIRST-65536"
  wait_program
  create
  kill "$stranger"
  assert_error "no range of 65536 ids is free"
  wait "$stranger" || true
  create
  assert_success
}

@test "kill -9 of create at any moment: delete --force and the next create need nobody's help" {
  needs_idmapped_tmpfs
  command -v strace > /dev/null && strace -o /dev/null true 2> /dev/null || skip "strace is missing, or ptrace not allowed"
  ranges 1
  wait_program
  local prefix="$RUNTIME --root $ROOT --policy $POLICY" call n count=0
  strace -o "$BUNDLE/strace" $prefix create --bundle "$BUNDLE" "$ID" > "$LOG" 2>&1 < /dev/null 3>&-
  agentrun delete --force "$ID"
  awk -F'(' '/^[a-z0-9_]+\(/ { print $1 }' "$BUNDLE/strace" |
    grep -E '^(symlinkat|flock|clone3|mkdirat|renameat2?|open_tree|mount_setattr|write|sendmsg|recvmsg|unlinkat)$' |
    awk '{ print $1, ++seen[$1] }' > "$BUNDLE/moments"
  while read -r call n; do
    timeout --kill-after=5 30 strace -o /dev/null -e "trace=$call" -e "inject=$call:signal=KILL:when=$n" \
      $prefix create --bundle "$BUNDLE" "$ID" > "$LOG" 2>&1 < /dev/null 3>&- || true
    run agentrun delete --force "$ID"
    assert_success || fail "delete --force after a kill at $call $n"
    # The only range there is.
    create
    assert_success || fail "create after a kill at $call $n"
    agentrun delete --force "$ID"
    assert_equal "$(reserved)" "" || fail "after a kill at $call $n"
    count=$((count + 1))
  done < <(awk 'NR % 3 == 0' "$BUNDLE/moments")
  [ "$count" -ge 5 ] || fail "only $count moments"
}

@test "an overlay root is refused, with what to do" {
  mkdir "$BUNDLE"/{upper,work,merged}
  mount -t overlay overlay -o "lowerdir=$BUNDLE/rootfs,upperdir=$BUNDLE/upper,workdir=$BUNDLE/work" "$BUNDLE/merged" ||
    skip "no overlay here"
  config '.root.path = "merged"'
  create
  umount "$BUNDLE/merged"
  assert_error "an overlay cannot be idmapped: let the engine make the user namespace \(podman run --userns=auto\)"
  assert_equal "$(reserved)" ""
  assert_clean
}

@test "roots on ext4, xfs, btrfs and erofs" {
  local type tried=0 fresh
  wait_program
  for type in ext4 xfs btrfs erofs; do
    command -v "mkfs.$type" > /dev/null || { echo "# no mkfs.$type" >&3; continue; }
    grep -qw "$type" /proc/filesystems || modprobe "$type" 2> /dev/null || { echo "# no $type in the kernel" >&3; continue; }
    rm -f "$BUNDLE/image"
    mkdir -p "$BUNDLE/mnt"
    if [ "$type" = erofs ]; then
      mkfs.erofs "$BUNDLE/image" "$BUNDLE/rootfs" > "$LOG" 2>&1 || fail "$(cat "$LOG")"
    else
      truncate -s 320M "$BUNDLE/image"
      "mkfs.$type" "$BUNDLE/image" > "$LOG" 2>&1 || fail "$(cat "$LOG")"
    fi
    mount -o loop "$BUNDLE/image" "$BUNDLE/mnt" 2> "$LOG" || { echo "# no loop mount of $type: $(cat "$LOG")" >&3; continue; }
    [ "$type" = erofs ] || cp -a "$BUNDLE/rootfs/." "$BUNDLE/mnt/"
    config '.root.path = "mnt"'
    program 'id -u; stat -c %u:%g /bin/busybox /home/user; awk "{ print \$2 }" /proc/self/uid_map'
    run_bundle
    umount "$BUNDLE/mnt"
    assert_success || fail "$type"
    assert_output "0
0:0
1000:1000
$FIRST"
    tried=$((tried + 1))
  done
  [ "$tried" -gt 0 ] || skip "none of the file systems can be made and mounted here"
}

# ---- binds ----

bind() { config ".mounts += [{\"destination\": \"/data\", \"type\": \"bind\", \"source\": \"$SCRATCH/data.$ID\", \"options\": [$1]}]"; }
make_data() {
  mkdir "$SCRATCH/data.$ID"
  echo secret > "$SCRATCH/data.$ID/root"
  chmod 0600 "$SCRATCH/data.$ID/root"
  echo mine > "$SCRATCH/data.$ID/user"
  chown 1000:1000 "$SCRATCH/data.$ID/user"
  chmod 0600 "$SCRATCH/data.$ID/user"
}

@test "a read-only bind has the same ids inside, and stays read-only" {
  needs_idmapped_tmpfs
  make_data
  bind '"rbind", "rw"'
  program 'cat /data/root; stat -c %u:%g /data/root /data/user; echo x > /data/root; touch /data/new; mount -o remount,rw /data; unshare -Urm true; echo end'
  run_bundle
  assert_success
  assert_line secret
  assert_line 0:0
  assert_line 1000:1000
  assert_line end
  refute_file "$SCRATCH/data.$ID/new"
  assert_equal "$(cat "$SCRATCH/data.$ID/root")" secret
  rm -rf "$SCRATCH/data.$ID"
}

@test "a writable bind: its owner's files are the container's root's, those of root nobody's" {
  needs_idmapped_tmpfs
  make_data
  chown 4321:4322 "$SCRATCH/data.$ID"
  bind '"rbind", "rw"'
  policy "{\"mounts\": {\"allow_writable\": [\"$SCRATCH/data.$ID\"]}}"
  program 'stat -c %u:%g /data; touch /data/new && stat -c %u:%g /data/new; cat /data/root; echo x > /data/root; rm -f /data/user; chmod 4755 /data/new; echo end'
  run_bundle
  assert_success
  assert_line end
  refute_contains secret
  assert_equal "$(stat -c %u:%g "$SCRATCH/data.$ID/new")" 4321:4322
  assert_equal "$(cat "$SCRATCH/data.$ID/root")" secret
  assert_matches '^0:0$'
  rm -rf "$SCRATCH/data.$ID"
}

@test "a writable bind of root's: nobody in the container is root of the host" {
  needs_idmapped_tmpfs
  make_data
  chmod 1777 "$SCRATCH/data.$ID"
  bind '"rbind", "rw"'
  policy "{\"mounts\": {\"allow_writable\": [\"$SCRATCH/data.$ID\"]}}"
  program 'touch /data/new; cat /data/root; echo x > /data/root; mknod /data/null c 1 3; chown 0:0 /data/new; echo end'
  run_bundle
  assert_success
  assert_line end
  refute_contains secret
  assert_equal "$(stat -c %u:%g "$SCRATCH/data.$ID/new")" "$FIRST:$FIRST"
  assert_equal "$(find "$SCRATCH/data.$ID" -newer "$BUNDLE/config.json" -uid 0 ! -path "$SCRATCH/data.$ID")" ""
  run agentrun policy explain --policy "$POLICY" --bundle "$BUNDLE"
  assert_contains "belongs to root of the host"
  rm -rf "$SCRATCH/data.$ID"
}

@test "a container that may mount has no root of the host in any bind" {
  needs_idmapped_tmpfs
  make_data
  bind '"rbind", "ro"'
  policy '{"extends": "oci"}'
  config '.process.capabilities = {"bounding": ["CAP_SYS_ADMIN"], "effective": ["CAP_SYS_ADMIN"], "permitted": ["CAP_SYS_ADMIN"]}'
  program 'mount -o remount,bind,rw /data; echo x > /data/root; touch /data/new; cat /data/root; echo end'
  run_bundle
  assert_success
  assert_line end
  refute_contains secret
  assert_equal "$(cat "$SCRATCH/data.$ID/root")" secret
  refute_file "$SCRATCH/data.$ID/new"
  rm -rf "$SCRATCH/data.$ID"
}

@test "a source whose file system takes no id map is shown as it is, and reported" {
  needs_idmapped_tmpfs
  mkdir "$SCRATCH"/{lower,data}."$ID"
  echo everybody > "$SCRATCH/lower.$ID/file"
  mount -t overlay overlay -o "lowerdir=$SCRATCH/lower.$ID:$BUNDLE/rootfs/etc" "$SCRATCH/data.$ID" || skip "no overlay here"
  bind '"bind", "ro"'
  program 'cat /data/file; stat -c %u /data/file; while :; do sleep 0.1; done'
  detached agentrun run --detach --bundle "$BUNDLE" "$ID"
  assert_success
  run agentrun report "$ID"
  assert_contains "has no id map (its file system cannot"
  agentrun delete --force "$ID"
  umount "$SCRATCH/data.$ID"
  wait_for 5 grep -q 65534 "$LOG"
  assert_equal "$(cat "$LOG")" "everybody
65534"
}

# ---- whose namespace it is ----

@test "a config's own user namespace is kept" {
  config '.linux.namespaces += [{"type": "user"}]' \
    '.linux.uidMappings = [{"containerID": 0, "hostID": 200000, "size": 65536}] | .linux.gidMappings = .linux.uidMappings'
  chmod 0755 "$BUNDLE"
  chown -hR 200000:200000 "$BUNDLE/rootfs"
  program 'awk "{ print \$2 }" /proc/self/uid_map'
  run_bundle
  assert_success
  assert_output 200000
}

@test "one that is the host's by its maps, or joined by path, is replaced" {
  needs_idmapped_tmpfs
  config '.linux.namespaces += [{"type": "user"}]' \
    '.linux.uidMappings = [{"containerID": 0, "hostID": 0, "size": 65536}] | .linux.gidMappings = .linux.uidMappings'
  program 'awk "{ print \$2 }" /proc/self/uid_map'
  run_bundle
  assert_success
  assert_output "$FIRST"
  # A namespace of its own that maps everybody to himself.
  unshare --user sleep 1000 3>&- &
  local other=$!
  apart() { [ "$(readlink "/proc/$other/ns/user")" != "$(readlink /proc/self/ns/user)" ]; }
  wait_for 10 apart
  echo 0 0 65536 > "/proc/$other/uid_map"
  echo 0 0 65536 > "/proc/$other/gid_map"
  config 'del(.linux.uidMappings, .linux.gidMappings)' "(.linux.namespaces[] | select(.type == \"user\")).path = \"/proc/$other/ns/user\""
  run_bundle
  kill "$other"
  assert_success
  assert_output "$FIRST"
}

# ---- sandbox ----

@test "sandbox by root: an unprivileged id on the host, another for each, in the host's eyes too" {
  local n pids=()
  POLICY=
  for n in 1 2; do
    agentrun sandbox -- sh -c 'id -u; while :; do sleep 0.1; done' > "$BUNDLE/out.$n" 2>&1 < /dev/null &
    pids+=($!)
    wait_for 20 test -s "$BUNDLE/out.$n"
  done
  local first second
  first=$(cat "$BUNDLE/out.1") second=$(cat "$BUNDLE/out.2")
  [ "$first" != "$second" ] || fail "both have uid $first"
  for n in "$first" "$second"; do
    [ "$n" -ge 1879048192 ] && [ "$n" -lt 2013265920 ] || fail "uid $n"
    grep -qE "^Uid:[[:space:]]*$n[[:space:]]+$n[[:space:]]+$n[[:space:]]+$n$" /proc/[0-9]*/status || fail "no process has uid $n"
  done
  for n in $(containers); do agentrun delete --force "$n"; done
  wait "${pids[@]}" || true
}

@test "sandbox under userns auto: its id alone is in its user namespace" {
  run agentrun sandbox --workdir "$BUNDLE/rootfs/etc" -- sh -c 'cat /proc/self/uid_map; id -u; ls /work; echo x > /work/new && cat /work/new; kill -0 1 && echo own'
  assert_success
  assert_matches '^ *(187|188|189|19|200|201)[0-9]+ +[0-9]+ +1$'
  assert_line passwd
  assert_line x
  assert_equal "$(awk 'NR == 1 { print ($1 == $2) }' <<< "$output")" 1
  assert_equal "$(reserved)" ""
}
