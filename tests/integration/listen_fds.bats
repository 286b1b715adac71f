load helpers

# The runtime with descriptors from 3 on, which bats' own 3 must not be one of.
with_fds() { # with_fds COMMAND...: descriptor 3 is a file that says "three", 4 one that says "four"
  echo three > "$SCRATCH/three.$ID"
  echo four > "$SCRATCH/four.$ID"
  run bash -c 'exec 3< "$1" 4< "$2"; shift 2; exec "$@"' - "$SCRATCH/three.$ID" "$SCRATCH/four.$ID" "$@" < /dev/null
}
runtime() { echo "$RUNTIME" --root "$ROOT" ${IS_AGENTRUN:+--policy "${1:-oci}"}; }

@test "LISTEN_FDS reaches the program, with its own pid" {
  program 'echo $LISTEN_FDS $LISTEN_PID $$; cat <&3; cat <&4'
  with_fds env LISTEN_FDS=2 $(runtime) run --bundle "$BUNDLE" "$ID"
  assert_success
  assert_output $'2 1 1\nthree\nfour'
}

@test "LISTEN_FDS that LISTEN_PID addresses to us" {
  program 'echo $LISTEN_FDS $LISTEN_PID; cat <&3'
  with_fds sh -c 'LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"' - $(runtime) run --bundle "$BUNDLE" "$ID"
  assert_success
  assert_output $'1 1\nthree'
}

@test "LISTEN_FDS that LISTEN_PID addresses to another is not handed on" {
  program 'echo [$LISTEN_FDS]; ls /proc/self/fd | wc -l'
  with_fds env LISTEN_FDS=2 LISTEN_PID=1 $(runtime) run --bundle "$BUNDLE" "$ID"
  assert_success
  assert_output $'[]\n4'
}

@test "LISTEN_FDS comes before --preserve-fds" {
  program 'echo $LISTEN_FDS; cat <&3; cat <&4'
  with_fds env LISTEN_FDS=1 $(runtime) run --preserve-fds 1 --bundle "$BUNDLE" "$ID"
  assert_success
  assert_output $'1\nthree\nfour'
}

@test "what config.json says of LISTEN_FDS gives way" {
  config '.process.env += ["LISTEN_FDS=7", "LISTEN_PID=77"]'
  program 'env | grep ^LISTEN_ | sort'
  with_fds env LISTEN_FDS=1 $(runtime) run --bundle "$BUNDLE" "$ID"
  assert_success
  assert_output $'LISTEN_FDS=1\nLISTEN_PID=1'
}

@test "strict hands on the runtime's LISTEN_FDS, not config.json's" {
  config '.process.env += ["LISTEN_FDS=7"]'
  program 'env | grep ^LISTEN_ | sort; cat <&3'
  with_fds env LISTEN_FDS=1 $(runtime strict) run --bundle "$BUNDLE" "$ID"
  assert_success
  assert_output $'LISTEN_FDS=1\nLISTEN_PID=1\nthree'
  agentrun delete --force "$ID"
  config '.process.args = ["/bin/sh", "-c", "echo [$LISTEN_FDS]"]'
  run_strict
  assert_output '[]'
}

@test "exec hands LISTEN_FDS on, with the pid of its process" {
  wait_program
  create_and_start
  with_fds env LISTEN_FDS=1 $(runtime) exec "$ID" /bin/sh -c '[ $LISTEN_PID = $$ ] && echo $LISTEN_FDS; cat <&3'
  assert_success
  assert_output $'1\nthree'
}

@test "descriptors that are not open are refused" {
  program true
  with_fds env LISTEN_FDS=9 $(runtime) run --bundle "$BUNDLE" "$ID"
  assert_error "LISTEN_FDS=9: descriptor [0-9]+ is not open"
  with_fds $(runtime) run --preserve-fds 9 --bundle "$BUNDLE" "$ID"
  assert_error "preserve-fds 9: descriptor [0-9]+ is not open"
  with_fds $(runtime) run --preserve-fds 4294967295 --bundle "$BUNDLE" "$ID"
  assert_error "descriptor [0-9]+ is not open"
  assert_clean
}

@test "LISTEN_FDS that is no number is refused" {
  local value
  for value in x -1 1x 99999999999; do
    with_fds env LISTEN_FDS=$value $(runtime) run --bundle "$BUNDLE" "$ID"
    assert_error "LISTEN_FDS=$value"
  done
}
