load helpers

profile() { config ".linux.seccomp = $1"; }

@test "a rule that returns an errno" {
  profile '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}'
  program 'mkdir /d; grep ^Seccomp: /proc/self/status'
  run_bundle
  assert_contains "Operation not permitted"
  assert_matches 'Seccomp:[[:space:]]+2'
}

@test "errnoRet and defaultErrnoRet" {
  profile '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}]}'
  program 'mkdir /d'
  run_bundle
  assert_contains "No space left on device"
}

@test "a rule that kills" {
  profile '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_KILL_PROCESS"}]}'
  program 'mkdir /d; echo "code $?"'
  run_bundle
  assert_contains "code 159"
}

@test "conditions on arguments" {
  # One signal is denied, every other one allowed.
  profile '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["kill"], "action": "SCMP_ACT_ERRNO",
    "args": [{"index": 1, "value": 10, "op": "SCMP_CMP_EQ"}]}]}'
  program 'trap "echo usr2" USR2; kill -USR1 $$ || echo denied; kill -USR2 $$; sleep 0.1'
  run_bundle
  assert_line denied
  assert_line usr2
}

@test "a system call that the library does not know is no error" {
  profile '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["nosuchcall"], "action": "SCMP_ACT_ERRNO"}]}'
  program 'echo ran'
  run_bundle
  assert_success
  assert_output ran
}

@test "several architectures" {
  profile '{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
    "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}'
  [ "$(uname -m)" = x86_64 ] || skip "not x86-64"
  program 'mkdir /d'
  run_bundle
  assert_contains "Operation not permitted"
}

@test "a default of errno with the calls that a program needs" {
  profile '{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38, "syscalls": [{"names": ["read", "write", "exit", "exit_group", "execve",
    "brk", "mmap", "munmap", "mprotect", "arch_prctl", "set_tid_address", "set_robust_list", "rseq", "prlimit64", "readlink", "readlinkat",
    "getrandom", "close", "close_range", "fstat", "newfstatat", "open", "openat", "rt_sigaction", "rt_sigprocmask", "getpid", "getppid", "getuid", "geteuid",
    "getgid", "getegid", "getcwd", "stat", "wait4", "fork", "clone", "vfork", "ioctl", "fcntl", "dup2", "uname", "rt_sigreturn", "futex",
    "prctl", "seccomp", "capset", "setuid", "setgid", "setgroups", "sendmsg", "sendto", "recvmsg", "recvfrom", "getdents64", "chdir", "fchdir", "lseek", "pread64", "capget", "setresuid", "setresgid", "tgkill", "gettid", "faccessat2", "faccessat", "access", "poll", "ppoll", "nanosleep", "sched_yield", "sigaltstack", "epoll_ctl", "epoll_pwait", "getsockopt", "fchown", "umask", "statfs", "fstatfs", "keyctl", "dup3", "execveat"], "action": "SCMP_ACT_ALLOW"}]}'
  program 'echo works; mkdir /d'
  run_bundle
  assert_contains works
  assert_contains "Function not implemented"
}

@test "an unknown action, operator or architecture is refused" {
  skip_unless_agentrun
  profile '{"defaultAction": "SCMP_ACT_NOSUCH"}'
  run_bundle
  assert_error /linux/seccomp/defaultAction
  profile '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 9, "value": 1, "op": "SCMP_CMP_EQ"}]}]}'
  run_bundle
  assert_error /linux/seccomp/syscalls/0/args/0
  profile '{"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_NOSUCH"]}'
  run_bundle
  assert_error /linux/seccomp/architectures
  assert_clean
}

@test "exec is under the same filter" {
  profile '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}]}'
  wait_program
  create_and_start
  run agentrun exec "$ID" mkdir /d < /dev/null
  assert_failure
  assert_contains "No space left on device"
}

@test "strict is stacked on the config's own filter" {
  skip_unless_agentrun
  profile '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}]}'
  program 'mkdir /tmp/d; grep -E "^Seccomp" /proc/self/status; unshare -U true; mount -t tmpfs x /tmp'
  run_strict
  assert_contains "No space left on device"
  assert_matches 'Seccomp:[[:space:]]+2'
  assert_equal "$(grep -cE "$DENIED" <<< "$output")" 2
}

@test "strict filters where the config has no filter" {
  skip_unless_agentrun
  program 'grep -E "^Seccomp" /proc/self/status; unshare -U true; unshare -n true'
  run_strict
  assert_matches 'Seccomp_filters:[[:space:]]+1'
  assert_equal "$(grep -cE "$DENIED" <<< "$output")" 2
}

# ---- two filters: whose answer counts (the config's, where ours allows; else the stricter, and of two errnos the last) ----

# All but what is named is allowed; each named call has an action.
with_rules() { # RULE...: "NAME ACTION [ERRNO]"
  local rule rules=()
  for rule; do
    read -r name action code <<< "$rule"
    rules+=("{\"names\": [\"$name\"], \"action\": \"SCMP_ACT_$action\"${code:+, \"errnoRet\": $code}}")
  done
  profile "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": [$(IFS=,; echo "${rules[*]}")]}"
}

# Where it decides the same the two are made one filter, which costs each call less.
two_filters() { program "$1; grep ^Seccomp_filters: /proc/self/status"; }
assert_filters() { assert_matches "Seccomp_filters:[[:space:]]+$1\$"; }

@test "both deny: the answer is strict's, which programs know" {
  skip_unless_agentrun
  with_rules "unshare ERRNO 28"
  two_filters 'unshare -U true'
  run_strict
  assert_contains "Function not implemented"
  refute_contains "No space left"
  assert_filters 1
}

@test "a profile that denies seccomp(2): strict is loaded first, and holds" {
  skip_unless_agentrun
  with_rules "seccomp ERRNO 1" "unshare ERRNO 28" "mkdir ERRNO 28" "mkdirat ERRNO 28"
  two_filters 'unshare -U true; mkdir /tmp/d; mount -t tmpfs x /tmp'
  run_strict
  assert_equal "$(grep -c "No space left on device" <<< "$output")" 2 # the profile's own errno: it is the last one
  assert_contains "Function not implemented"                       # mount, which only strict denies
  assert_filters 2
}

@test "a profile that denies seccomp(2): the same order for exec" {
  skip_unless_agentrun
  with_rules "seccomp ERRNO 1" "mkdir ERRNO 28" "mkdirat ERRNO 28"
  wait_program
  detached strict create --bundle "$BUNDLE" "$ID"
  assert_success
  start
  assert_success
  run agentrun exec "$ID" /bin/sh -c 'mkdir /tmp/d; unshare -U true; grep ^Seccomp_filters: /proc/self/status' < /dev/null
  assert_contains "No space left on device"
  assert_contains "Function not implemented"
  assert_filters 2
}

@test "what the profile kills is killed under strict too" {
  skip_unless_agentrun
  with_rules "mkdir KILL_PROCESS" "mkdirat KILL_PROCESS" "unshare KILL_PROCESS"
  two_filters 'mkdir /tmp/d; echo "code $?"; unshare -U true; echo "code $?"'
  run_strict
  assert_equal "$(grep -c "code 159" <<< "$output")" 2
  assert_filters 2
}
