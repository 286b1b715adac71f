# Programs of real languages under the strict policy: what tests/languages has, compiled inside where the language is compiled.
# All of it is under strict: its 512 MiB, 128 tasks and one CPU are enough for gcc, g++, javac, rustc and go build.
# The programs look at lower bounds of time alone, so a slow machine is only slow.
LIMIT=540
load helpers

setup() {
  skip_unless_agentrun
  stage
}

# As the sandbox sees it: what is in /usr, not on the caller's PATH.
needs() { # PROGRAM PACKAGE
  POLICY=strict run agentrun sandbox -- sh -c 'command -v "$1" > /dev/null && echo there || echo missing' sh "$1" < /dev/null
  assert_success
  [ "$output" = there ] || skip "$1 is not installed: Debian package $2"
}

# Runs a line of shell in a copy of tests/languages, where every ability named has to be there, and one CPU.
has_abilities() { # VERSION-COMMAND COMMAND ABILITY...
  local version=$1 command=$2 ability
  shift 2
  POLICY=strict run --separate-stderr agentrun sandbox --timeout 8m --workdir "$here/../languages" -- sh -c "$command" < /dev/null
  [ "$status" -eq 0 ] || fail "status $status" "$output" "$stderr"
  for ability in "$@"; do assert_line "ok $ability"; done
  assert_line "cpus 1"
  assert_line "done"
  # Nor one that this file does not know.
  assert_equal "$(grep -c '^ok ' <<< "$output")" "$#"
  [ -z "${LANGUAGES_TABLE:-}" ] || table_row "$version" "$@" >> "$LANGUAGES_TABLE"
  assert_clean
}

# A row of the table in tests/languages/README.md.
table_row() { # VERSION-COMMAND ABILITY...
  local version=$1 column
  shift
  version=$(POLICY=strict agentrun sandbox -- sh -c "$version" < /dev/null 2>&1 | grep -oE '[0-9]+(\.[0-9]+)+' | head -1)
  printf '| %s | %s |' "${BATS_TEST_DESCRIPTION% under strict*}" "$version"
  local columns=" threads subprocess sockets files tmp mmap signals timers locale " more=
  for column in $columns; do
    [[ " $* " == *" $column "* ]] && printf ' yes |' || printf ' – |'
  done
  for column in "$@"; do [[ $columns == *" $column "* ]] || more="$more $column"; done
  echo "${more:- –} | 1 |"
}

common=(threads subprocess sockets files tmp mmap signals timers)

@test "C under strict" {
  needs gcc gcc
  has_abilities 'gcc -dumpfullversion' 'gcc -O1 -pthread abilities.c -o program && ./program' "${common[@]}" locale
}

@test "C++ under strict" {
  needs g++ g++
  has_abilities 'g++ -dumpfullversion' 'g++ -std=c++17 -O1 -pthread abilities.cc -o program && ./program' "${common[@]}" locale
}

@test "Python under strict" {
  needs python3 python3
  has_abilities 'python3 --version' 'python3 abilities.py' "${common[@]}" locale
}

@test "Node under strict" {
  needs node nodejs
  has_abilities 'node --version' 'node abilities.js' "${common[@]/mmap/heap}" locale
}

@test "Go under strict" {
  needs go golang-go
  has_abilities 'go version' 'go build -o program abilities.go && ./program' "${common[@]}"
}

@test "Rust under strict" {
  needs rustc rustc
  has_abilities 'rustc --version' 'rustc -o program abilities.rs && ./program' "${common[@]}"
}

@test "Java under strict" {
  needs javac default-jdk-headless
  has_abilities 'javac -version' 'javac -nowarn Abilities.java && java Abilities' "${common[@]}" locale
}

@test "Perl under strict" {
  needs perl perl
  has_abilities 'perl -v' 'perl abilities.pl' "${common[@]}" locale shm
}

@test "bash, coreutils and git under strict" {
  needs git git
  has_abilities 'git --version' 'bash abilities.sh' jobs subprocess sockets files tmp git signals timers locale
}

@test "SQLite under strict, from Python and by its own tool" {
  needs python3 python3
  needs sqlite3 sqlite3
  has_abilities 'sqlite3 --version' 'python3 sqlite.py' threads subprocess files tmp mmap journal
}
