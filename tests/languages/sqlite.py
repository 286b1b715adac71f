"""SQLite, as a library in a language and as its own tool on the same file: locks, the write-ahead log's shared memory, mmap."""
import os
import sqlite3
import subprocess
import threading


def ok(ability):
    print("ok", ability, flush=True)


def write_ahead_log(path):
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA journal_mode=WAL").fetchone() == ("wal",)
        database.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY, text TEXT)")
        database.executemany("INSERT INTO numbers VALUES (?, ?)", ((n, str(n)) for n in range(1000)))
    assert os.path.exists(path + "-shm")
    database.close()


def threads(path):
    def insert(first):
        database = sqlite3.connect(path, timeout=300)
        with database:
            database.executemany("INSERT INTO numbers VALUES (?, 'thread')", ((n,) for n in range(first, first + 100)))
        database.close()

    all = [threading.Thread(target=insert, args=(first,)) for first in (1000, 2000, 3000, 4000)]
    for thread in all:
        thread.start()
    for thread in all:
        thread.join()
    database = sqlite3.connect(path)
    assert database.execute("SELECT count(*) FROM numbers").fetchone() == (1400,)
    database.close()


def memory_maps(path):
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA mmap_size=16777216").fetchone() == (16777216,)
    assert database.execute("SELECT sum(n) FROM numbers WHERE text <> 'thread'").fetchone() == (499500,)
    database.execute("VACUUM")  # by a temporary file
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


def rollback_journal(path):
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
    database.execute("DELETE FROM numbers")
    assert os.path.exists(path + "-journal")
    database.rollback()
    assert database.execute("SELECT count(*) FROM numbers").fetchone() == (1400,)
    database.close()


write_ahead_log("base.db")
ok("files")
threads("base.db")
ok("threads")
memory_maps("base.db")
ok("mmap")
rollback_journal("base.db")
ok("journal")
write_ahead_log("/tmp/base.db")
ok("tmp")
answer = subprocess.run(["sqlite3", "base.db", "SELECT max(n) FROM numbers"], capture_output=True, check=True)
assert answer.stdout == b"4099\n", answer
ok("subprocess")
print("cpus", len(os.sched_getaffinity(0)))
print("done")
