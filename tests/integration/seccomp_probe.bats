load helpers

# What kernel exploits begin with, tried by tests/security/probe.c: every line of its output is one of them.
setup_file() {
  PROBE=$SCRATCH/probe
  export PROBE
  ! command -v "${CC:-cc}" > /dev/null || "${CC:-cc}" -O1 -static -o "$PROBE" "$BATS_TEST_DIRNAME/../security/probe.c"
}
setup() {
  stage
  skip_unless_agentrun
  [ -x "$PROBE" ] || skip "no C compiler"
  [ "$(uname -m)" = x86_64 ] || skip "not x86-64"
  cp "$PROBE" "$BUNDLE/rootfs/probe"
  program /probe
}

result_of() { awk -v name="$1" '$1 == name { print $2, $3 }' <<< "$output"; }
expect() { # RESULT NAME...
  local wanted=$1 name
  shift
  for name; do assert_equal "$name: $(result_of "$name")" "$name: $wanted"; done
}
expect_rule() { # RESULT NAME...: with the high half of its arguments set as well
  local wanted=$1 name
  shift
  for name; do expect "$wanted" "$name" "$name+high"; done
}

# The answers that programs know how to live with.
expect_strict_answers() {
  expect "denied ENOSYS" clone3 unshare_user setns mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick move_mount \
    open_tree open_tree_attr mount_setattr bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register \
    keyctl add_key request_key ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp kexec_load init_module \
    finit_module delete_module personality name_to_handle_at open_by_handle_at memfd_secret modify_ldt
  expect_rule "denied EPERM" clone_newns clone_newcgroup clone_newuts clone_newipc clone_newuser clone_newpid clone_newnet \
    tiocsti tioclinux tiocsetd seccomp_new_listener
  expect_rule "denied EAFNOSUPPORT" af_alg af_vsock af_netlink_route af_netlink_netfilter af_packet af_key af_rxrpc af_rds \
    af_tipc af_can af_bluetooth af_xdp socketpair_tipc
  expect_rule "denied EPROTONOSUPPORT" sctp sctp_by_type dccp mptcp udplite icmp raw
  expect_rule "denied ENOPROTOOPT" tcp_ulp tcp_ulp_espintcp
  expect_rule "denied EOPNOTSUPP" sendto_oob sendmsg_oob sendmmsg_oob recvfrom_oob recvmsg_oob recvmmsg_oob ficlone ficlonerange
  expect_rule "denied EINVAL" pipe2_notification
  expect "denied EINVAL" splice tee vmsplice
  expect "denied EXDEV" copy_file_range
  expect "denied pretended" sched_setaffinity
  expect "killed SIGSYS" abi_x32 abi_i386
}

expect_all_denied() {
  assert_success
  local lines
  lines=$(wc -l <<< "$output")
  [ "$lines" -ge 150 ] || fail "only $lines lines"
  refute_matches '^[^ ]+ (reached|succeeded)'
  [ "$(grep -cE '^[a-z0-9_]+(\+high)? (denied|killed) [A-Za-z0-9]+$' <<< "$output")" -eq "$lines" ] || fail "a line of another form"
}

@test "under strict every primitive is denied, with the errno that programs can live with" {
  run_strict
  expect_all_denied
  expect_strict_answers
}

@test "stacked on a profile that allows everything, for every architecture" {
  config '.linux.seccomp = {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]}'
  run_strict
  expect_all_denied
  expect_strict_answers
}

@test "in exec as well" {
  wait_program
  detached strict create --bundle "$BUNDLE" "$ID"
  assert_success
  start
  assert_success
  run agentrun exec "$ID" /probe < /dev/null
  expect_all_denied
  expect_strict_answers
}

# That the probe sees what is open: it would be worth nothing if it said "denied" to everything.
@test "without a filter the same probe gets through" {
  run_bundle
  assert_success
  local name
  # What every kernel that runs agentrun has.
  for name in clone_newns clone_newuser clone_newuser+high mount umount2 chroot open_tree clone3 setns pidfd_getfd \
    tcp_ulp tcp_ulp+high tiocsti tiocsti+high ficlonerange splice tee copy_file_range seccomp_new_listener \
    sched_setaffinity personality; do
    [[ $(result_of "$name") =~ ^(reached|succeeded) ]] || fail "$name: $(result_of "$name")"
  done
}
