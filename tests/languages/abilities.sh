#!/bin/bash
# What scripts need of a kernel: bash, coreutils and git. Prints a line for each ability that works; ends at the first that does
# not.
set -eu -o pipefail
trap 'echo "abilities.sh: line $LINENO" >&2' ERR
ok() { echo "ok $1"; }
same() { [ "$1" = "$2" ] || { echo "abilities.sh: $1 instead of $2" >&2; exit 1; }; }

jobs=()
for n in 1 2 3 4; do
  (seq 1000 > "/tmp/job.$n") &
  jobs+=($!)
done
for job in "${jobs[@]}"; do wait "$job"; done
same "$(cat /tmp/job.? | sort -n | uniq -c | awk '$1 == 4' | wc -l)" 1000
ok jobs

same "$(printf '%s\n' c a b | sort | tr '\n' ' ')" "a b c "
same "$(diff <(seq 3) <(seq 4) | tail -1)" "> 4"
code=0
(exit 3) || code=$?
same "$code" 3
same "$(timeout 60 xargs -P 4 -n 1 echo <<< "x y z" | sort | tr -d '\n')" xyz
ok subprocess

for directory in . /tmp; do
  inner=$(mktemp -d -p "$directory")
  seq 100000 > "$inner/file"
  cp -a "$inner/file" "$inner/copy"
  ln "$inner/file" "$inner/hard"
  ln -s file "$inner/soft"
  touch -d @0 "$inner/old"
  dd if="$inner/file" of="$inner/part" bs=1k count=10 status=none
  truncate -s 1M "$inner/sparse"
  chmod 0640 "$inner/file"
  same "$(stat -c %a:%h "$inner/file")" 640:2
  same "$(sha256sum < "$inner/soft")" "$(sha256sum < "$inner/copy")"
  tar -C "$inner" -czf "$inner.tgz" file copy soft
  same "$(tar -tzf "$inner.tgz" | wc -l)" 3
  rm -r "$inner" "$inner.tgz"
  [ "$directory" = /tmp ] && ok tmp || ok files
done

export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
git init -q /tmp/repository
cd /tmp/repository
seq 1000 > numbers
git add numbers
git commit -q -m first
git checkout -q -b other
sed -i s/^500$/five/ numbers
git commit -q -a -m second
git gc -q --no-detach 2> /dev/null || git gc -q
git clone -q /tmp/repository /tmp/clone # by hard links and, for packs, mmap
same "$(git -C /tmp/clone log --format=%s | tr '\n' ' ')" "second first "
git fsck 2>&1 | { ! grep -i error; }
ok git

# bash is a client alone: git has the server.
git daemon --reuseaddr --listen=127.0.0.1 --port=9418 --export-all --base-path=/tmp /tmp 2> /dev/null &
daemon=$!
until (exec 3<> /dev/tcp/127.0.0.1/9418) 2> /dev/null; do
  kill -0 "$daemon"
  sleep 0.05
done
git clone -q git://127.0.0.1/repository /tmp/cloned
same "$(git -C /tmp/cloned rev-parse HEAD)" "$(git rev-parse HEAD)"
kill "$daemon"
wait "$daemon" || true
ok sockets

caught=
trap 'caught=USR1' USR1
kill -USR1 $$
same "$caught" USR1
sleep 1000 &
kill $!
code=0
wait $! || code=$?
same "$code" 143
ok signals

code=0
timeout 0.1 sleep 1000 || code=$?
same "$code" 124
mkfifo /tmp/silent
exec 4<> /tmp/silent
code=0
read -r -t 0.05 -u 4 || code=$?
[ "$code" -gt 128 ]
ok timers

text=$(printf '\xc3\xa4')
same "${#text}" 1
same "$(locale charmap)" UTF-8
ok locale

echo "cpus $(nproc)"
echo done
