load helpers

# A hook that appends its name to a file, and keeps what it read.
hook() {
  printf '#!/bin/sh\ncat > %s/state.$1\necho $1 >> %s/order\n' "$BUNDLE" "$BUNDLE" > "$BUNDLE/hook"
  chmod +x "$BUNDLE/hook"
}
add_hook() { # STAGE PATH [ARGS...]
  local stage=$1 path=$2
  shift
  jq --arg stage "$stage" --arg path "$path" --argjson args "$(json_strings "$@")" \
    '.hooks[$stage] += [{"path": $path, "args": $args}]' "$BUNDLE/config.json" > "$BUNDLE/config.new"
  mv "$BUNDLE/config.new" "$BUNDLE/config.json"
}

@test "hooks run in the order of the specification" {
  hook
  local stage
  for stage in prestart createRuntime createContainer poststart poststop; do add_hook $stage "$BUNDLE/hook" $stage; done
  program true
  # createContainer hooks are found on the host and run in the container's namespaces.
  create
  assert_success
  assert_equal "$(tr '\n' ' ' < "$BUNDLE/order")" "prestart createRuntime createContainer "
  start
  assert_success
  assert_equal "$(tail -1 "$BUNDLE/order")" poststart
  wait_for 5 has_status stopped
  run agentrun delete "$ID"
  assert_success
  assert_equal "$(tail -1 "$BUNDLE/order")" poststop
}

@test "startContainer hooks run inside, before the program" {
  printf '#!/bin/sh\ncat > /hook.state\n' > "$BUNDLE/rootfs/inside"
  chmod +x "$BUNDLE/rootfs/inside"
  add_hook startContainer /inside
  program 'cat /hook.state'
  create
  refute_file "$BUNDLE/rootfs/hook.state"
  start
  wait_for 5 has_status stopped
  assert_equal "$(jq -r .id "$BUNDLE/rootfs/hook.state")" "$ID"
}

@test "a hook reads the state on standard input" {
  hook
  config '.annotations = {"org.example": "x"}'
  add_hook createRuntime "$BUNDLE/hook" created
  add_hook poststart "$BUNDLE/hook" started
  add_hook poststop "$BUNDLE/hook" stopped
  wait_program
  create_and_start
  assert_equal "$(jq -r .id "$BUNDLE/state.created")" "$ID"
  assert_equal "$(jq -r .bundle "$BUNDLE/state.created")" "$BUNDLE"
  assert_equal "$(jq -r .pid "$BUNDLE/state.created")" "$(pid_of)"
  assert_equal "$(jq -r '.annotations["org.example"]' "$BUNDLE/state.created")" x
  assert_equal "$(jq -r .status "$BUNDLE/state.started")" running
  run agentrun delete --force "$ID"
  assert_equal "$(jq -r .status "$BUNDLE/state.stopped")" stopped
}

@test "a hook gets its own arguments and environment, not the caller's" {
  printf '#!/bin/sh\n{ echo "$0 $*"; env; } > %s/seen\n' "$BUNDLE" > "$BUNDLE/hook"
  chmod +x "$BUNDLE/hook"
  config ".hooks = {\"createRuntime\": [{\"path\": \"$BUNDLE/hook\", \"args\": [\"name\", \"a b\", \"c\"], \"env\": [\"KEY=value\"]}]}"
  CALLER=leak create
  output=$(cat "$BUNDLE/seen")
  assert_contains "a b c"
  assert_line KEY=value
  if [ -n "$IS_AGENTRUN" ]; then refute_contains CALLER; fi
}

@test "createRuntime runs in the runtime's namespaces, createContainer in the container's" {
  printf '#!/bin/sh\nreadlink /proc/self/ns/$1 > %s/ns.$2\n' "$BUNDLE" > "$BUNDLE/hook"
  chmod +x "$BUNDLE/hook"
  config ".hooks = {\"createRuntime\": [{\"path\": \"$BUNDLE/hook\", \"args\": [\"hook\", \"net\", \"runtime\"]}],
    \"createContainer\": [{\"path\": \"$BUNDLE/hook\", \"args\": [\"hook\", \"net\", \"container\"]}]}"
  create
  assert_success
  assert_equal "$(cat "$BUNDLE/ns.runtime")" "$(readlink /proc/self/ns/net)"
  if [ -n "$ROOTLESS" ]; then # a container that waits for its start shows a user nothing of it
    grep -q '^net:' "$BUNDLE/ns.container"
    [ "$(cat "$BUNDLE/ns.container")" != "$(cat "$BUNDLE/ns.runtime")" ]
  else
    assert_equal "$(cat "$BUNDLE/ns.container")" "$(readlink "/proc/$(pid_of)/ns/net")"
  fi
}

@test "a hook that fails stops create, and nothing is left" {
  local stage
  for stage in prestart createRuntime createContainer; do
    base_config > "$BUNDLE/config.json"
    add_hook $stage /bin/false
    create
    assert_failure || fail "$stage"
    if [ -n "$IS_AGENTRUN" ]; then assert_error "hook #0"; fi
    assert_clean
  done
}

@test "the output of a failing hook is in the error" {
  skip_unless_agentrun
  printf '#!/bin/sh\necho "the disk is full" >&2\nexit 3\n' > "$BUNDLE/hook"
  chmod +x "$BUNDLE/hook"
  add_hook createRuntime "$BUNDLE/hook"
  create
  assert_error "the disk is full"
}

@test "the hooks after a failing one do not run" {
  hook
  add_hook createRuntime /bin/false
  add_hook createRuntime "$BUNDLE/hook" second
  create
  assert_failure
  refute_file "$BUNDLE/order"
}

@test "a hook that does not exist" {
  add_hook createRuntime /no/such/hook
  create
  assert_failure
  assert_contains /no/such/hook
  assert_clean
}

@test "a hook with a relative path is refused" {
  config '.hooks = {"createRuntime": [{"path": "bin/true"}]}'
  create
  assert_failure
  assert_clean
}

@test "a hook that hangs is killed at its timeout, with its children" {
  printf '#!/bin/sh\nsleep 1000 &\necho $! > %s/child\nsleep 1000\n' "$BUNDLE" > "$BUNDLE/hook"
  chmod +x "$BUNDLE/hook"
  config ".hooks = {\"createRuntime\": [{\"path\": \"$BUNDLE/hook\", \"timeout\": 1}]}"
  SECONDS=0
  create
  assert_failure
  [ "$SECONDS" -lt 8 ] || fail "took $SECONDS s"
  if [ -n "$IS_AGENTRUN" ]; then
    assert_error "hook #0"
    wait_for 2 gone "$(cat "$BUNDLE/child")"
  else
    kill -9 "$(cat "$BUNDLE/child")" || true
  fi
  assert_clean
}

@test "a timeout of zero or less is refused" {
  skip_unless_agentrun
  config '.hooks = {"createRuntime": [{"path": "/bin/true", "timeout": 0}]}'
  create
  assert_error /hooks/createRuntime/0/timeout
}

@test "a poststart hook that fails ends the container" {
  # Specification 1.3.0, runtime.md, Lifecycle.
  add_hook poststart /bin/false
  wait_program
  create
  start
  assert_failure
  wait_for 5 has_status stopped
}

@test "a poststop hook that fails does not stop delete" {
  add_hook poststop /bin/false
  program true
  create_and_start
  wait_for 5 has_status stopped
  run agentrun delete "$ID"
  assert_clean
}

@test "a hook that does not read its input does no harm" {
  add_hook createRuntime /bin/true
  config '.annotations = {"big": ("x" * 200000)}'
  create
  assert_success
}

@test "a hook that prints a lot does not block" {
  printf '#!/bin/sh\nhead -c 2000000 /dev/zero | tr "\\0" x\nhead -c 2000000 /dev/zero | tr "\\0" x >&2\n' > "$BUNDLE/hook"
  chmod +x "$BUNDLE/hook"
  add_hook createRuntime "$BUNDLE/hook"
  SECONDS=0
  create
  assert_success
  [ "$SECONDS" -lt 10 ]
}
