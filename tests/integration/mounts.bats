load helpers

# Mounts one file system at /m with the options given; prints its line of mountinfo after what the program prints.
tmpfs_with() {
  local options
  options=$(json_strings "$@")
  base_config > "$BUNDLE/config.json"
  config ".mounts += [{\"destination\": \"/m\", \"type\": \"tmpfs\", \"source\": \"tmpfs\", \"options\": $options}]"
  program 'awk "\$5 == \"/m\" { print \"flags,\" \$6 \",\"; print \"super,\" \$NF \",\"; print \"optional \" \$7 }" /proc/self/mountinfo'
  run_bundle
}

bind_with() {
  local options
  options=$(json_strings "$@")
  base_config > "$BUNDLE/config.json"
  config ".mounts += [{\"destination\": \"/m\", \"type\": \"bind\", \"source\": \"$BUNDLE/source\", \"options\": $options}]"
  program 'awk "\$5 ~ \"^/m\" { print \$5 \",\" \$6 \",\"; }" /proc/self/mountinfo; cat /m/file; touch /m/new; ls /m | tr "\n" " "'
  run_bundle
}

@test "each option that sets a flag" {
  local option flag
  while read -r option flag; do
    tmpfs_with "$option"
    assert_success || fail "option $option"
    assert_matches "^flags,(.*,)?$flag," || fail "option $option"
  done << 'TABLE'
ro ro
rw rw
nosuid nosuid
nodev nodev
noexec noexec
noatime noatime
nodiratime nodiratime
relatime relatime
nosymfollow nosymfollow
TABLE
}

@test "each option that clears a flag" {
  local set clear flag
  while read -r set clear flag; do
    tmpfs_with "$set" "$clear"
    assert_success || fail "$set $clear"
    refute_matches "^flags,(.*,)?$flag," || fail "$set $clear"
  done << 'TABLE'
nosuid suid nosuid
nodev dev nodev
noexec exec noexec
noatime atime noatime
nodiratime diratime nodiratime
ro rw ro
TABLE
}

@test "strictatime, defaults, async and other options without a flag are taken" {
  local option
  for option in strictatime defaults async norelatime nostrictatime; do
    tmpfs_with "$option"
    assert_success || fail "option $option"
  done
}

@test "data options reach the file system" {
  tmpfs_with size=1m mode=0700 uid=5 nr_inodes=100
  assert_success
  assert_matches '^super,(.*,)?size=1024k,'
  assert_matches '^super,(.*,)?mode=700,'
  assert_matches '^super,(.*,)?uid=5,'
  assert_matches '^super,(.*,)?nr_inodes=100,'
}

@test "a data option that the file system does not know is an error" {
  tmpfs_with nosuchoption=1
  assert_failure
  assert_clean
}

@test "sync and dirsync" {
  tmpfs_with sync
  assert_success
  assert_matches '^super,(.*,)?sync,'
  tmpfs_with dirsync
  assert_success
  assert_matches '^super,(.*,)?dirsync,'
}

@test "propagation options" {
  tmpfs_with shared
  assert_success
  assert_matches '^optional shared:'
  tmpfs_with private
  assert_matches '^optional -$'
  tmpfs_with unbindable
  assert_matches '^optional unbindable$'
  local option
  for option in slave rshared rslave rprivate runbindable; do
    tmpfs_with "$option"
    assert_success || fail "option $option"
  done
}

@test "a file system that the kernel does not know" {
  config '.mounts += [{"destination": "/m", "type": "nosuchfs", "source": "x"}]'
  run_bundle
  assert_failure
  [ -z "$IS_AGENTRUN" ] || assert_contains nosuchfs
  assert_clean
}

@test "bind: the source's content, writable" {
  mkdir "$BUNDLE/source"
  echo content > "$BUNDLE/source/file"
  bind_with bind
  assert_success
  assert_line content
  assert_file "$BUNDLE/source/new"
}

@test "bind: ro and the other flags hold at once" {
  mkdir "$BUNDLE/source"
  echo content > "$BUNDLE/source/file"
  bind_with bind ro nosuid nodev noexec
  assert_matches '^/m,ro,nosuid,nodev,noexec,'
  assert_contains "Read-only file system"
  refute_file "$BUNDLE/source/new"
}

@test "rbind takes the mounts below, bind does not" {
  mkdir -p "$BUNDLE/source/below"
  echo content > "$BUNDLE/source/file"
  mount -t tmpfs below "$BUNDLE/source/below"
  touch "$BUNDLE/source/below/deep"
  bind_with rbind
  output_of_rbind=$output
  bind_with bind
  umount "$BUNDLE/source/below"
  assert_equal "$(grep -c '^/m' <<< "$output")" 1
  assert_equal "$(grep -c '^/m' <<< "$output_of_rbind")" 2
}

@test "rro makes the mounts below read-only, ro does not" {
  mkdir -p "$BUNDLE/source/below"
  echo content > "$BUNDLE/source/file"
  mount -t tmpfs below "$BUNDLE/source/below"
  bind_with rbind ro
  local plain=$output
  bind_with rbind rro
  umount "$BUNDLE/source/below"
  output=$plain assert_matches '^/m/below,rw,'
  [ -z "$IS_AGENTRUN" ] || assert_matches '^/m/below,ro,'
}

@test "bind of one file, the target is made" {
  echo content > "$BUNDLE/onefile"
  config ".mounts += [{\"destination\": \"/new/dir/file\", \"type\": \"bind\", \"source\": \"$BUNDLE/onefile\", \"options\": [\"bind\", \"ro\"]}]"
  program 'cat /new/dir/file; echo x > /new/dir/file'
  run_bundle
  assert_contains content
  assert_contains "Read-only file system"
  assert_equal "$(cat "$BUNDLE/onefile")" content
}

@test "bind without a type, and with type none" {
  mkdir "$BUNDLE/source"
  echo content > "$BUNDLE/source/file"
  config ".mounts += [{\"destination\": \"/m\", \"source\": \"$BUNDLE/source\", \"options\": [\"rbind\"]}]"
  program 'cat /m/file'
  run_bundle
  assert_output content
  config '.mounts[-1].type = "none"'
  run_bundle
  assert_output content
}

@test "bind of a relative source is below the bundle" {
  mkdir "$BUNDLE/source"
  echo content > "$BUNDLE/source/file"
  config '.mounts += [{"destination": "/m", "type": "bind", "source": "source", "options": ["bind"]}]'
  program 'cat /m/file'
  run_bundle
  assert_output content
}

@test "bind of a source that is missing" {
  config '.mounts += [{"destination": "/m", "type": "bind", "source": "/no/such/source", "options": ["bind"]}]'
  run_bundle
  assert_failure
  assert_contains /no/such/source
  assert_clean
}

@test "a source that is a symlink is followed on the host, once" {
  mkdir "$BUNDLE/real"
  echo content > "$BUNDLE/real/file"
  ln -s real "$BUNDLE/source"
  bind_with bind
  assert_line content
}

@test "a relative destination is below /" {
  config '.mounts += [{"destination": "relative/place", "type": "tmpfs", "source": "tmpfs"}]'
  program 'grep -c " /relative/place " /proc/self/mountinfo'
  run_bundle
  assert_success
  assert_line 1
}

@test "a destination that climbs stays inside" {
  config '.mounts += [{"destination": "/../../../climbed", "type": "tmpfs", "source": "tmpfs"}]'
  program 'grep -c " /climbed " /proc/self/mountinfo'
  run_bundle
  [ "$status" -ne 0 ] || assert_output 1
  refute_file /climbed
}

@test "tmpcopyup keeps what the image has" {
  skip_unless_agentrun
  config '.mounts += [{"destination": "/etc", "type": "tmpfs", "source": "tmpfs", "options": ["tmpcopyup"]}]'
  program 'cat /etc/group; echo x > /etc/new'
  run_bundle
  assert_success
  assert_contains "user:x:1000"
  refute_file "$BUNDLE/rootfs/etc/new"
}

@test "proc and sys show the container" {
  program 'ls -d /proc/[0-9]* | wc -l; cat /proc/1/comm; ls /sys/class/net'
  run_bundle
  assert_success
  assert_line lo
  [ "$(head -1 <<< "$output")" -lt 10 ]
}

@test "the order of mounts is the config's" {
  config '.mounts += [{"destination": "/m", "type": "tmpfs", "source": "first"}, {"destination": "/m/below", "type": "tmpfs", "source": "second"},
    {"destination": "/m", "type": "tmpfs", "source": "third"}]'
  program 'ls /m | wc -l; awk "\$5 ~ \"^/m\" { print \$5, \$(NF-1) }" /proc/self/mountinfo'
  run_bundle
  assert_success
  assert_line 0
  assert_line "/m third"
}

@test "a mount of type cgroup" {
  config '.mounts += [{"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["nosuid", "noexec", "nodev", "relatime", "ro"]}]'
  program 'ls /sys/fs/cgroup | tr "\n" " "; for d in /sys/fs/cgroup /sys/fs/cgroup/memory; do mkdir $d/new; done 2>&1'
  run_bundle
  assert_contains "Read-only file system"
  if is_unified; then assert_contains cgroup.procs; else assert_contains memory; fi
}

@test "an overlay as a mount" {
  [ -n "$IS_AGENTRUN" ] || skip "the runtime under test is not agentrun"
  mkdir "$BUNDLE"/{lower,upper,work}
  echo low > "$BUNDLE/lower/file"
  config ".mounts += [{\"destination\": \"/m\", \"type\": \"overlay\", \"source\": \"overlay\",
    \"options\": [\"lowerdir=$BUNDLE/lower\", \"upperdir=$BUNDLE/upper\", \"workdir=$BUNDLE/work\"]}]"
  program 'cat /m/file; echo up > /m/other'
  run_bundle
  assert_success
  assert_output low
  assert_file "$BUNDLE/upper/other"
}
