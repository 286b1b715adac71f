load helpers

@test "uid, gid and additional groups" {
  local last=4000000000
  [ -z "$ROOTLESS" ] || last=65536 # of the range that the user has
  config ".process.user = {\"uid\": 1000, \"gid\": 1001, \"additionalGids\": [20, $last]}"
  program 'grep -E "^(Uid|Gid|Groups)" /proc/self/status | tr "\t" " "'
  run_bundle
  assert_success
  assert_line "Uid: 1000 1000 1000 1000"
  assert_line "Gid: 1001 1001 1001 1001"
  assert_matches '^Groups: (1001 )?20 '"$last"' *$'
}

@test "no group of the caller is kept" {
  skip_if_rootless "choose the groups of the caller"
  program 'grep ^Groups /proc/self/status | tr "\t" " "'
  run setpriv --groups 27,44 "$RUNTIME" --root "$ROOT" ${IS_AGENTRUN:+--policy oci} run --bundle "$BUNDLE" "$ID" < /dev/null
  assert_success
  assert_matches '^Groups: *0? *$'
}

@test "umask" {
  config '.process.user.umask = 55'
  program 'umask'
  run_bundle
  assert_success
  assert_output 0067
}

@test "all five capability sets" {
  config '.process.user = {"uid": 1000, "gid": 1000} | .process.noNewPrivileges = false | .process.capabilities = {
    "bounding": ["CAP_CHOWN", "CAP_KILL", "CAP_SETUID"], "permitted": ["CAP_CHOWN", "CAP_KILL"],
    "effective": ["CAP_KILL", "CAP_CHOWN"], "inheritable": ["CAP_CHOWN"], "ambient": ["CAP_CHOWN"]}'
  program 'grep ^Cap /proc/self/status | tr "\t" " "'
  run_bundle
  assert_success
  assert_line "CapBnd: 00000000000000a1"
  assert_line "CapInh: 0000000000000001"
  assert_line "CapAmb: 0000000000000001"
  # After execve as uid 1000 only ambient ones are left.
  assert_line "CapPrm: 0000000000000001"
  assert_line "CapEff: 0000000000000001"
}

@test "no capabilities in config.json means none" {
  config 'del(.process.capabilities)'
  program 'grep ^Cap /proc/self/status | tr "\t" " "'
  run_bundle
  assert_success
  if [ -n "$IS_AGENTRUN" ]; then assert_line "CapEff: 0000000000000000"; fi
}

@test "an unknown capability does not stop the container, or names itself" {
  config '.process.capabilities.bounding += ["CAP_NOSUCH"]'
  program 'echo ran'
  run_bundle
  if [ "$status" -ne 0 ]; then assert_contains CAP_NOSUCH; else assert_line ran; fi
}

@test "no_new_privs, on and off" {
  program 'grep ^NoNewPrivs /proc/self/status | tr "\t" " "'
  run_bundle
  assert_output "NoNewPrivs: 1"
  config '.process.noNewPrivileges = false'
  run_bundle
  assert_output "NoNewPrivs: 0"
}

@test "rlimits" {
  config '.process.rlimits = [
    {"type": "RLIMIT_NOFILE", "hard": 500, "soft": 400}, {"type": "RLIMIT_CORE", "hard": 0, "soft": 0},
    {"type": "RLIMIT_FSIZE", "hard": 1048576, "soft": 524288}]'
  program 'cat /proc/self/limits'
  run_bundle
  assert_success
  assert_matches '^Max open files +400 +500 '
  assert_matches '^Max core file size +0 +0 '
  assert_matches '^Max file size +524288 +1048576 '
}

@test "an unlimited rlimit" {
  skip_if_rootless "raise a hard limit"
  capsh --has-p=cap_sys_resource > /dev/null 2>&1 || [ "$(ulimit -Hl)" = unlimited ] || skip "root has no CAP_SYS_RESOURCE here"
  config '.process.rlimits = [{"type": "RLIMIT_MEMLOCK", "hard": 18446744073709551615, "soft": 18446744073709551615}]'
  # jq 1.6 rounds numbers beyond 2^53, so the text is put right afterwards.
  sed -i 's/18446744073709552000/18446744073709551615/g' "$BUNDLE/config.json"
  program 'grep "Max locked" /proc/self/limits'
  sed -i 's/18446744073709552000/18446744073709551615/g' "$BUNDLE/config.json"
  run_bundle
  assert_success
  assert_matches '^Max locked memory +unlimited +unlimited'
}

@test "an rlimit given twice, or of an unknown type, is refused" {
  skip_unless_agentrun
  config '.process.rlimits = [{"type": "RLIMIT_NOSUCH", "hard": 1, "soft": 1}]'
  run_bundle
  assert_error "/process/rlimits"
  config '.process.rlimits = [{"type": "RLIMIT_CORE", "hard": 1, "soft": 1}, {"type": "RLIMIT_CORE", "hard": 2, "soft": 1}]'
  run_bundle
  assert_error "/process/rlimits"
}

@test "oom_score_adj" {
  config '.process.oomScoreAdj = 500'
  program 'cat /proc/self/oom_score_adj'
  run_bundle
  assert_success
  assert_output 500
}

@test "namespaced sysctls" {
  config '.linux.sysctl = {"kernel.shmmax": "1234567", "net.ipv4.ip_forward": "1", "fs.mqueue.msg_max": "20"}'
  program 'cat /proc/sys/kernel/shmmax /proc/sys/net/ipv4/ip_forward /proc/sys/fs/mqueue/msg_max'
  local before
  before=$(cat /proc/sys/kernel/shmmax)
  run_bundle
  assert_success
  assert_output $'1234567\n1\n20'
  assert_equal "$(cat /proc/sys/kernel/shmmax)" "$before"
}

@test "a sysctl of the whole host is refused" {
  # CVE-2022-0811: kernel.core_pattern is code that runs as root outside.
  local key before
  before=$(cat /proc/sys/kernel/core_pattern)
  for key in kernel.core_pattern kernel/core_pattern vm.swappiness kernel.shmmax/../core_pattern 'net.ipv4/../../kernel.core_pattern'; do
    base_config | jq --arg key "$key" '.linux.sysctl = {($key): "|/evil"}' > "$BUNDLE/config.json"
    run_bundle
    assert_failure
    assert_equal "$(cat /proc/sys/kernel/core_pattern)" "$before"
    assert_clean
  done
}

@test "a sysctl whose namespace is the host's is refused" {
  config 'del(.linux.namespaces[] | select(.type == "network" or .type == "ipc"))' '.linux.sysctl = {"net.ipv4.ip_forward": "1"}'
  local before
  before=$(cat /proc/sys/net/ipv4/ip_forward)
  run_bundle
  assert_failure
  assert_equal "$(cat /proc/sys/net/ipv4/ip_forward)" "$before"
}

@test "hostname and domainname" {
  config '.hostname = "box"' '.domainname = "example.org"'
  program 'hostname; cat /proc/sys/kernel/domainname'
  run_bundle
  assert_success
  assert_line box
  if [ -n "$IS_AGENTRUN" ]; then assert_line example.org; fi
}

@test "the working directory" {
  config '.process.cwd = "/home/user"'
  program pwd
  run_bundle
  assert_success
  assert_output /home/user
}

@test "a working directory that is missing is made" {
  config '.process.cwd = "/new/working/directory"'
  program pwd
  run_bundle
  assert_success
  assert_output /new/working/directory
}

@test "the program is looked up in the PATH of the container" {
  config '.process.env = ["PATH=/nowhere:/opt/tools"]' '.process.args = ["tool"]'
  mkdir -p "$BUNDLE/rootfs/opt/tools"
  printf '#!/bin/sh\necho the tool\n' > "$BUNDLE/rootfs/opt/tools/tool"
  chmod +x "$BUNDLE/rootfs/opt/tools/tool"
  run_bundle
  assert_success
  assert_output "the tool"
}

@test "a relative program is looked for in the working directory" {
  config '.process.cwd = "/home"' '.process.args = ["./tool"]'
  printf '#!/bin/sh\necho the tool\n' > "$BUNDLE/rootfs/home/tool"
  chmod +x "$BUNDLE/rootfs/home/tool"
  run_bundle
  assert_success
  assert_output "the tool"
}

@test "a program that is not there fails create with the words that engines match" {
  config '.process.args = ["nosuchprogram"]'
  create
  assert_failure
  assert_matches 'executable file.* not found in \$PATH'
  assert_clean
}

@test "run of a program that is not there: 127; that cannot be run: 126" {
  skip_unless_agentrun
  config '.process.args = ["/no/such/program"]'
  run_bundle
  assert_error "no such file or directory" 127
  config '.process.args = ["/etc"]'
  run_bundle
  assert_error "permission denied|is a directory" 126
  config '.process.args = ["/etc/passwd"]'
  run_bundle
  assert_error "permission denied" 126
  assert_clean
}

@test "the environment is exactly that of the config" {
  config '.process.env = ["PATH=/bin", "A=1", "B=with space", "EMPTY="]'
  program env
  LEAK=caller run_bundle
  assert_success
  assert_line A=1
  assert_line "B=with space"
  assert_line EMPTY=
  refute_contains LEAK
}

@test "HOME is set from the user where it is not given" {
  program 'echo $HOME'
  run_bundle
  assert_success
  assert_output /root
}

@test "personality" {
  skip_unless_agentrun
  config '.linux.personality = {"domain": "LINUX32"}'
  program 'uname -m'
  run_bundle
  assert_success
  assert_output i686
}

@test "scheduler and I/O priority" {
  skip_unless_agentrun
  config '.process.scheduler = {"policy": "SCHED_BATCH", "nice": 5}' '.process.ioPriority = {"class": "IOPRIO_CLASS_IDLE", "priority": 0}'
  program 'awk "{ print \$19, \$41 }" /proc/self/stat; ionice -p $$'
  run_bundle
  assert_success
  assert_line "5 3"
  assert_contains idle
}

@test "the program is PID 1 and a session leader without a terminal" {
  program 'echo $$; awk "{ print \$6, \$7 }" /proc/1/stat'
  run_bundle
  assert_success
  assert_output $'1\n1 0'
}

@test "every signal has its default action and none is blocked" {
  program grep -E '^Sig(Blk|Ign)' /proc/self/status
  # A careless caller that ignores HUP and PIPE.
  trap '' HUP PIPE
  run_bundle
  trap - HUP PIPE
  assert_success
  assert_matches '^SigBlk:[[:space:]]0000000000000000$'
  if [ -n "$IS_AGENTRUN" ]; then assert_matches '^SigIgn:[[:space:]]0000000000000000$'; fi
}

@test "/proc/1/exe is not the runtime, /proc/1/environ not the caller's" {
  program 'ls -l /proc/1/exe; tr "\0" "\n" < /proc/1/environ'
  AGENTRUN_SECRET_OF_THE_CALLER=1 run_bundle
  assert_success
  assert_contains busybox
  refute_contains SECRET
}

@test "labels whose module is off, and resctrl, are refused by create and by exec" {
  skip_unless_agentrun
  if ! grep -q Y /sys/module/apparmor/parameters/enabled 2> /dev/null; then
    base_config | jq '.process.apparmorProfile = "some-profile"' > "$BUNDLE/config.json"
    create
    assert_error "some-profile: AppArmor is not enabled"
  fi
  if [ ! -d /sys/fs/selinux ]; then
    base_config | jq '.process.selinuxLabel = "system_u:system_r:container_t:s0"' > "$BUNDLE/config.json"
    create
    assert_error "SELinux label.*SELinux is not enabled"
  fi
  base_config | jq '.linux.intelRdt = {"closID": "group"}' > "$BUNDLE/config.json"
  create
  assert_error "/linux/intelRdt.*resctrl"
  assert_clean
  base_config > "$BUNDLE/config.json"
  wait_program
  create_and_start
  if [ ! -d /sys/fs/selinux ]; then
    run agentrun exec --process-label system_u:system_r:container_t:s0 "$ID" true
    assert_error "SELinux is not enabled"
  fi
}

@test "a capability that cannot be granted is a notice, and the program runs without it" {
  skip_unless_agentrun
  config '.process.capabilities = {"bounding": ["CAP_CHOWN"], "permitted": ["CAP_CHOWN"], "effective": ["CAP_CHOWN", "CAP_KILL"], "ambient": ["CAP_CHOWN"]}'
  program 'grep ^CapAmb /proc/self/status | tr "\t" " "'
  run "$RUNTIME" --root "$ROOT" --policy oci --log "$LOG" --log-level warning run --bundle "$BUNDLE" "$ID" < /dev/null 3>&-
  assert_success
  assert_output "CapAmb: 0000000000000000"
  output=$(cat "$LOG")
  assert_contains "can't raise ambient capability CAP_CHOWN"
  assert_contains "can't make effective capability CAP_KILL"
  # Nor is anything of the log in the container, at the same path.
  refute_file "$BUNDLE/rootfs$SCRATCH"
}

@test "a notice does not write through a symlink that the image has at the log's path" {
  skip_unless_agentrun
  local notices=$SCRATCH/notices.$ID
  mkdir -p "$BUNDLE/rootfs$SCRATCH"
  echo precious > "$BUNDLE/rootfs/etc/precious"
  ln -s /etc/precious "$BUNDLE/rootfs$notices"
  config '.process.capabilities = {"ambient": ["CAP_CHOWN"]}'
  wait_program
  detached "$RUNTIME" --root "$ROOT" --policy oci --log "$notices" --log-level warning run --detach --bundle "$BUNDLE" "$ID" 3>&-
  assert_success
  run "$RUNTIME" --root "$ROOT" --policy oci --log "$notices" --log-level warning exec "$ID" true 3>&-
  assert_success
  assert_equal "$(cat "$BUNDLE/rootfs/etc/precious")" precious
}

@test "the session keyring is the container's own, or the caller's with --no-new-keyring" {
  skip_unless_agentrun
  local keyctl='import ctypes; libc = ctypes.CDLL(None); print(libc.syscall(250, 0, -3, 0))'
  skip_unless "no keyrings" python3 -c "$keyctl"
  config '.mounts += [{"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]}]'
  local name
  for name in lib lib64; do [ ! -L "/$name" ] || ln -sfn "usr/$name" "$BUNDLE/rootfs/$name"; done
  program /usr/bin/python3 -c "$keyctl"
  # A keyring of the test's own, so that the caller has one that can be told apart.
  local join='import ctypes, os, sys; libc = ctypes.CDLL(None); print(libc.syscall(250, 1, None), flush=True); os.execv(sys.argv[1], sys.argv[1:])'
  run python3 -c "$join" "$RUNTIME" --root "$ROOT" --policy oci run --bundle "$BUNDLE" "$ID" < /dev/null 3>&-
  assert_success
  [ "$(sed -n 1p <<< "$output")" != "$(sed -n 2p <<< "$output")" ] || fail "the caller's keyring"
  run python3 -c "$join" "$RUNTIME" --root "$ROOT" --policy oci run --no-new-keyring --bundle "$BUNDLE" "$ID" < /dev/null 3>&-
  assert_success
  assert_equal "$(sed -n 1p <<< "$output")" "$(sed -n 2p <<< "$output")"
}
