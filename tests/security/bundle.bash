# What `probe-compare` and tests/bench/syscalls share: a bundle whose only program is one static one, and the default
# profiles of engines as an OCI config has them.
#
# Sets: SCRATCH. Needs: jq, a C compiler, root, and a mount namespace of its own (enter_namespace).

# Again, in a mount namespace that ends with the script.
enter_namespace() {
  [ "$(id -u)" = 0 ] || { echo "needs root" >&2; exit 1; }
  [ -n "${AGENTRUN_IN_NAMESPACE:-}" ] || AGENTRUN_IN_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
  SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/agentrun-security.XXXXXX")
  mount -t tmpfs -o mode=0755,size=256m agentrun-security "$SCRATCH" || exit 1
  trap leave_namespace EXIT
}

leave_namespace() {
  find /sys/fs/cgroup -depth -type d -path "*/agentrun-security.$$*" -exec rmdir {} \; 2> /dev/null || true
  umount -l "$SCRATCH"
  rmdir "$SCRATCH"
}

# crun and runc refuse hosts with both cgroup versions: from here on there is only v2.
show_cgroup_v2_only() {
  [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ] && return
  umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup
}

# A root with /program, made from a source in C.
make_root() {
  mkdir -p "$SCRATCH/bundle/rootfs"/{dev,proc,sys,tmp}
  ${CC:-cc} -O1 -static -o "$SCRATCH/bundle/rootfs/program" "$1"
}

# The profile of an engine (containers-common's or moby's) as it is for these capabilities, in the form of config.json.
oci_profile() { # FILE CAPABILITIES-AS-JSON
  local arch=amd64 token=SCMP_ARCH_X86_64
  [ "$(uname -m)" = aarch64 ] && arch=arm64 token=SCMP_ARCH_AARCH64
  jq --argjson caps "$2" --arg arch "$arch" --arg token "$token" '
    def included: ((.includes.caps // []) - $caps == []) and
      ((.includes.arches // []) | length == 0 or index($arch) != null);
    def excluded: ((.excludes.caps // []) - ((.excludes.caps // []) - $caps) != []) or
      ((.excludes.arches // []) | index($arch) != null);
    { defaultAction, defaultErrnoRet,
      architectures: [.archMap[] | select(.architecture == $token) | .architecture, .subArchitectures[]],
      syscalls: [.syscalls[] | select(included and (excluded | not)) |
        {names, action, errnoRet: (if .action == "SCMP_ACT_ERRNO" then .errnoRet else null end),
         args: [.args[]? | {index, value, valueTwo, op}]} | with_entries(select(.value != null))]
    } | with_entries(select(.value != null))' "$1"
}

PODMAN_CAPS='["CAP_CHOWN","CAP_DAC_OVERRIDE","CAP_FOWNER","CAP_FSETID","CAP_KILL","CAP_NET_BIND_SERVICE","CAP_SETFCAP",
  "CAP_SETGID","CAP_SETPCAP","CAP_SETUID","CAP_SYS_CHROOT"]'
DOCKER_CAPS=$(jq -c '. + ["CAP_AUDIT_WRITE","CAP_MKNOD","CAP_NET_RAW"]' <<< "$PODMAN_CAPS")

# config.json as an engine would write it by default: root with capabilities, a profile, no limit that matters here.
make_config() { # CAPABILITIES PROFILE-FILE ARGUMENTS...
  local caps=$1 profile=$2
  shift 2
  jq --argjson caps "$caps" --slurpfile profile "$profile" --arg path "/agentrun-security.$$" '
    .process.capabilities = {bounding: $caps, effective: $caps, permitted: $caps} | .process.noNewPrivileges = false |
    del(.linux.resources) | .linux.seccomp = $profile[0] | .linux.cgroupsPath = $path | .process.args = $ARGS.positional' \
    "$top/tests/integration/config.json" --args /program "$@" > "$SCRATCH/bundle/config.json"
}
