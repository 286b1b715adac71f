# What a whole `podman run` costs against crun, with systemd's cgroups. By hand: the emulated machine is slow, and only the
# ratios that are printed say something. No test fails by them.
bats_require_minimum_version 1.5.0

bench=$BATS_TEST_DIRNAME/../bench

@test "podman run with agentrun and with crun" {
  AGENTRUN=$RUNTIME timeout 900 "$bench/podman" --runs "${SPEED_RUNS:-15}" --steps 3>&- > "$BATS_TEST_TMPDIR/out" 2>&1 || {
    cat "$BATS_TEST_TMPDIR/out"
    false
  }
  sed 's/^/# /' "$BATS_TEST_TMPDIR/out" >&3
}
