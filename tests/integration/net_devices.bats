load helpers

# Everything happens in a network namespace of the test's own: no interface of the host is touched.
make_probe='ip link add probe type dummy 2> /dev/null || ip link add probe type veth peer name far'
setup() {
  skip_unless "no ip(8)" command -v ip
  skip_unless "neither dummy nor veth interfaces" unshare -n sh -c "$make_probe"
  stage
}
inside() { # inside COMMANDS: bash in a new network namespace with an interface "probe"
  export -f agentrun
  export ROOT BUNDLE ID POLICY IS_AGENTRUN LIMIT LOG
  run timeout 120 unshare -n bash -c '
    set -e
    '"$make_probe"'
    ip link set probe mtu 1400 address 02:00:00:00:00:07 up
    ip addr add 192.0.2.7/24 dev probe
    ip -6 addr add 2001:db8::7/64 dev probe nodad
    eval "$1"' - "$1" < /dev/null
}
run_it='agentrun run --bundle "$BUNDLE" "$ID"'

@test "an interface is moved, keeps its addresses, MTU and MAC, and is up" {
  config '.linux.netDevices = {"probe": {}}'
  program 'ip addr show probe; cat /sys/class/net/probe/mtu /sys/class/net/probe/address'
  inside "$run_it"
  assert_success
  assert_contains "192.0.2.7/24"
  assert_contains "2001:db8::7/64"
  assert_matches '<[A-Z,-]*,UP[,>]'
  assert_line 1400
  assert_line 02:00:00:00:00:07
}

@test "an interface is renamed on its way, and is gone outside" {
  config '.linux.netDevices = {"probe": {"name": "eth0"}}'
  program 'ip -o link; ip addr show eth0; sleep 1000'
  inside 'agentrun create --bundle "$BUNDLE" "$ID" > "$LOG" 2>&1; ip -o link | grep -c probe || true; agentrun exec "$ID" ip -o addr show eth0; agentrun delete --force "$ID"'
  assert_success
  assert_line 0
  assert_contains 192.0.2.7/24
}

@test "an interface goes to a namespace that is joined by path" {
  config '.linux.netDevices = {"probe": {"name": "in0"}}'
  program 'ip addr show in0'
  inside 'unshare -n sleep 1000 & holder=$!; own=$(readlink /proc/self/ns/net)
    for _ in $(seq 200); do other=$(readlink /proc/$holder/ns/net); [ "$other" != "$own" ] && break; sleep 0.05; done
    jq "(.linux.namespaces[] | select(.type == \"network\")).path = \"/proc/$holder/ns/net\"" "$BUNDLE/config.json" > "$BUNDLE/new"
    mv "$BUNDLE/new" "$BUNDLE/config.json"
    agentrun run --bundle "$BUNDLE" "$ID"; code=$?; kill $holder; exit $code'
  assert_success
  assert_contains "192.0.2.7/24"
}

@test "interfaces that are not there, lo, a name twice, and no namespace to move to" {
  program true
  config '.linux.netDevices = {"nosuch": {}}'
  inside "$run_it"
  assert_error "nosuch: no such interface"
  config '.linux.netDevices = {"lo": {"name": "lo1"}}'
  inside "$run_it"
  assert_error "netDevices lo"
  config '.linux.netDevices = {"probe": {"name": "a"}, "a": {}}'
  inside "$run_it"
  assert_error "netDevices a"
  config '.linux.netDevices = {"probe": {"name": "lo"}}'
  inside "$run_it"
  assert_error "probe"
  config '.linux.netDevices = {"probe": {"name": "../x"}}'
  inside "$run_it"
  assert_error "netDevices"
  config '.linux.netDevices = {"probe": {}}' 'del(.linux.namespaces[] | select(.type == "network"))'
  inside "$run_it"
  assert_error "netDevices.*network namespace"
  assert_clean
}

@test "strict drops them, and the interface stays outside" {
  config '.linux.netDevices = {"probe": {}}'
  program 'ip -o link | grep -c probe'
  POLICY=strict
  inside 'agentrun run --bundle "$BUNDLE" "$ID" || true; ip -o link show probe'
  assert_success
  assert_line 0
  assert_matches '^[0-9]+: probe'
}
