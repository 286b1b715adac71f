load helpers

# A directory of the host that a container must not reach, with a file to tell it by.
host_secret() {
  mkdir -p "$SCRATCH/host"
  echo "of the host" > "$SCRATCH/host/secret"
}

@test "the root is the bundle's rootfs" {
  echo marker > "$BUNDLE/rootfs/marker"
  program 'cat /marker; ls /'
  run_bundle
  assert_success
  assert_line marker
}

@test "an absolute and a relative root path" {
  echo marker > "$BUNDLE/rootfs/marker"
  program 'cat /marker'
  config ".root.path = \"$BUNDLE/rootfs\""
  run_bundle
  assert_output marker
  config '.root.path = "./rootfs/../rootfs"'
  run_bundle
  assert_output marker
}

@test "a read-only root" {
  config '.root.readonly = true'
  program 'touch /x; touch /etc/x; mkdir /y; echo "write $?"; touch /dev/shm/ok && echo shm'
  run_bundle
  assert_contains "Read-only file system"
  assert_line "write 1"
  assert_line shm
  refute_file "$BUNDLE/rootfs/x"
}

@test "a writable root" {
  program 'echo data > /x'
  run_bundle
  assert_success
  assert_equal "$(cat "$BUNDLE/rootfs/x")" data
}

@test "the old root is gone" {
  program 'awk "{ print \$5 }" /proc/self/mountinfo; ls / | tr "\n" " "'
  run_bundle
  assert_success
  refute_contains "$SCRATCH"
  refute_matches '(^| )(\.pivot|put_old|oldroot)'
}

@test "masked paths: a file reads as empty, a directory is empty" {
  mkdir "$BUNDLE/rootfs/hidden"
  echo secret | tee "$BUNDLE/rootfs/hidden/file" > "$BUNDLE/rootfs/hiddenfile"
  config '.linux.maskedPaths += ["/hidden", "/hiddenfile", "/does/not/exist"]'
  program 'ls -A /hidden; cat /hiddenfile; echo x > /hidden/new; echo end'
  run_bundle
  assert_line end
  refute_contains secret
  assert_contains "Read-only file system"
  assert_equal "$(cat "$BUNDLE/rootfs/hiddenfile")" secret
}

@test "files of /proc and directories of /sys are masked" {
  config '.linux.maskedPaths += ["/proc/version"]'
  program 'stat -c "%t:%T %F" /proc/version; wc -c < /proc/version; ls -A /sys/firmware | wc -l'
  run_bundle
  assert_success
  assert_line "1:3 character special file"
  assert_line 0
}

@test "read-only paths, with what is below them" {
  mkdir -p "$BUNDLE/rootfs/fixed/below"
  config '.linux.readonlyPaths += ["/fixed", "/does/not/exist"]'
  program 'touch /fixed/x; touch /fixed/below/x; echo 1 > /proc/sys/kernel/printk; touch /free'
  run_bundle
  assert_success
  assert_equal "$(grep -ciE 'read-only file system' <<< "$output")" 3
  refute_file "$BUNDLE/rootfs/fixed/x"
}

@test "the default devices and links" {
  program 'for d in null zero full random urandom tty; do stat -c "%n %t:%T %a" /dev/$d; done
    for l in fd stdin stdout stderr ptmx; do echo $l $(readlink /dev/$l); done'
  run_bundle
  assert_success
  assert_line "/dev/null 1:3 666"
  assert_line "/dev/zero 1:5 666"
  assert_line "/dev/full 1:7 666"
  assert_line "/dev/random 1:8 666"
  assert_line "/dev/urandom 1:9 666"
  assert_line "/dev/tty 5:0 666"
  assert_line "fd /proc/self/fd"
  assert_line "stdin /proc/self/fd/0"
  assert_line "stdout /proc/self/fd/1"
  assert_line "stderr /proc/self/fd/2"
  assert_matches '^ptmx (/dev/)?pts/ptmx$'
}

@test "a device of the config" {
  config '.linux.devices = [{"path": "/dev/mydevice", "type": "c", "major": 1, "minor": 5, "fileMode": 416, "uid": 0, "gid": 20}]' \
    '.linux.resources.devices += [{"allow": true, "type": "c", "major": 1, "minor": 5, "access": "rwm"}]'
  program 'stat -c "%t:%T %a %u:%g" /dev/mydevice; head -c 3 /dev/mydevice | wc -c'
  run_bundle
  assert_success
  assert_line "1:5 640 0:20"
  assert_line 3
}

@test "a device in a directory that is not there, and a FIFO" {
  config '.linux.devices = [{"path": "/dev/deep/er/null", "type": "c", "major": 1, "minor": 3, "fileMode": 438},
    {"path": "/dev/pipe", "type": "p", "fileMode": 384}]'
  program 'stat -c "%F" /dev/deep/er/null /dev/pipe'
  run_bundle
  assert_success
  assert_line "character special file"
  assert_line fifo
}

@test "a device path that climbs stays in the root" {
  host_secret
  config ".linux.devices = [{\"path\": \"/dev/../../../../..$SCRATCH/host/dev\", \"type\": \"c\", \"major\": 1, \"minor\": 3}]"
  run_bundle
  refute_file "$SCRATCH/host/dev"
}

@test "/proc as a symlink to the host is refused or stays inside" {
  host_secret
  local name
  for name in proc sys; do
    rmdir "$BUNDLE/rootfs/$name"
    ln -s "$SCRATCH/host" "$BUNDLE/rootfs/$name"
    program 'echo ran'
    run_bundle
    assert_failure || fail "$name"
    [ -z "$IS_AGENTRUN" ] || assert_error "/$name"
    assert_equal "$(ls "$SCRATCH/host")" secret
    assert_clean
    rm "$BUNDLE/rootfs/$name"
    mkdir "$BUNDLE/rootfs/$name"
  done
}

@test "/dev as a symlink to the host: nothing is made there" {
  # CVE-2026-41579, CVE-2026-47766
  host_secret
  rmdir "$BUNDLE/rootfs/dev"
  ln -s "$SCRATCH/host" "$BUNDLE/rootfs/dev"
  program 'echo ran'
  run_bundle
  assert_equal "$(ls "$SCRATCH/host")" secret
  config 'del(.mounts[] | select(.destination | startswith("/dev")))'
  run_bundle
  assert_equal "$(ls "$SCRATCH/host")" secret
}

@test "a mount target that is a symlink to the host stays inside" {
  host_secret
  ln -s "$SCRATCH/host" "$BUNDLE/rootfs/target"
  ln -s ../../../../../../../../../..$SCRATCH/host "$BUNDLE/rootfs/climb"
  local target
  for target in target climb target/sub climb/sub; do
    base_config > "$BUNDLE/config.json"
    config ".mounts += [{\"destination\": \"/$target\", \"type\": \"tmpfs\", \"source\": \"tmpfs\"}]"
    program "ls /$target > /dev/null 2>&1; grep -c tmpfs /proc/self/mountinfo > /dev/null && echo ran"
    run_bundle
    assert_equal "$(ls "$SCRATCH/host")" secret
    assert_equal "$(cat "$SCRATCH/host/secret")" "of the host"
    # Inside there is one more tmpfs, or create said no.
    [ "$status" -ne 0 ] || assert_line ran
  done
}

@test "the host's /proc by bind, as Podman's --pid=host asks" {
  config 'del(.linux.namespaces[] | select(.type == "pid"))' \
    '(.mounts[] | select(.destination == "/proc")) |= {"destination": "/proc", "type": "bind", "source": "/proc", "options": ["rbind", "nosuid", "noexec", "nodev"]}'
  program 'readlink /proc/self/ns/pid; echo 1 > /proc/sys/kernel/printk'
  run_bundle
  assert_line "$(readlink /proc/self/ns/pid)"
  assert_contains "Read-only file system"
}

@test "maskedPaths that are symlinks do not reach the host" {
  host_secret
  ln -s "$SCRATCH/host/secret" "$BUNDLE/rootfs/link"
  config '.linux.maskedPaths = ["/link"]' '.linux.readonlyPaths = ["/link"]'
  program 'echo ran'
  run_bundle
  assert_equal "$(cat "$SCRATCH/host/secret")" "of the host"
  echo new > "$SCRATCH/host/secret"
  assert_equal "$(mounts)" "$MOUNTS_BEFORE"
}

@test "rootfs propagation" {
  skip_unless_agentrun
  local mode
  for mode in private slave shared; do
    base_config | jq --arg mode "$mode" '.linux.rootfsPropagation = $mode' > "$BUNDLE/config.json"
    program 'awk "\$5 == \"/\"" /proc/self/mountinfo'
    run_bundle
    assert_success
    case $mode in
      shared) assert_contains shared: ;;
      private) refute_contains shared: ;;
    esac
  done
}

@test "--no-pivot" {
  program 'ls / | tr "\n" " "'
  run_bundle --no-pivot
  assert_success
  refute_contains "$SCRATCH"
  assert_contains "bin"
}

@test "a root that is a mount of its own, read-only on the host" {
  mkdir "$BUNDLE/image"
  mount --bind "$BUNDLE/rootfs" "$BUNDLE/image"
  mount -o remount,bind,ro "$BUNDLE/image"
  config '.root.path = "image"'
  program 'touch /x; echo ran'
  run_bundle
  umount "$BUNDLE/image"
  assert_line ran
  assert_contains "Read-only file system"
}
