"""What Python programs need of a kernel. Prints a line for each ability that works; dies at the first that does not."""
import asyncio
import concurrent.futures
import locale
import mmap
import multiprocessing
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time


def ok(ability):
    print("ok", ability, flush=True)


def square(n):
    return n * n


def threads():
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(square, range(20))) == [n * n for n in range(20)]
    ok("threads")


def processes():
    assert subprocess.run(["sh", "-c", "cat; exit 3"], input=b"in", capture_output=True).stdout == b"in"
    assert subprocess.run(["sh", "-c", "exit 3"]).returncode == 3
    # Semaphores in /dev/shm, pipes, fork.
    with multiprocessing.Pool(2) as pool:
        assert pool.map(square, [1, 2, 3]) == [1, 4, 9]
    ok("subprocess")


def sockets():
    with socket.create_server(("127.0.0.1", 0)) as server:
        def answer():
            connection, _ = server.accept()
            with connection:
                connection.sendall(connection.recv(16).upper())

        thread = threading.Thread(target=answer)
        thread.start()
        with socket.create_connection(server.getsockname()) as client:
            client.sendall(b"hello")
            assert client.recv(16) == b"HELLO"
        thread.join()
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("/tmp/abilities.socket")
        server.listen()
        client.connect("/tmp/abilities.socket")
    ok("sockets")


def files(directory):
    with tempfile.TemporaryDirectory(dir=directory) as inner:
        path = os.path.join(inner, "file")
        with open(path, "w", encoding="utf-8") as file:
            file.write("inhält")
            os.fsync(file.fileno())
        os.rename(path, path + "2")
        os.symlink("file2", path)
        with open(path, encoding="utf-8") as file:
            assert file.read() == "inhält"
        assert sorted(os.listdir(inner)) == ["file", "file2"]


def memory_maps():
    with tempfile.TemporaryFile() as file:
        file.truncate(8192)
        with mmap.mmap(file.fileno(), 8192) as map:
            map[4096:4102] = b"mapped"
            map.flush()
        file.seek(4096)
        assert file.read(6) == b"mapped"
    ok("mmap")


def signals():
    caught = []
    signal.signal(signal.SIGUSR1, lambda number, _: caught.append(number))
    os.kill(os.getpid(), signal.SIGUSR1)
    assert caught == [signal.SIGUSR1]
    child = subprocess.Popen(["sleep", "1000"])
    child.terminate()
    assert child.wait() == -signal.SIGTERM
    ok("signals")


def timers():
    rung = threading.Event()
    signal.signal(signal.SIGALRM, lambda *_: rung.set())
    signal.setitimer(signal.ITIMER_REAL, 0.005)
    assert rung.wait(60)
    before = time.monotonic()
    asyncio.run(asyncio.sleep(0.005))
    assert time.monotonic() - before >= 0.004
    ok("timers")


def locales():
    assert locale.setlocale(locale.LC_ALL, "") == "C.UTF-8"
    assert locale.nl_langinfo(locale.CODESET) == "UTF-8"
    assert time.strftime("%A", (2024, 1, 1, 0, 0, 0, 0, 1, 0)) == "Monday"
    ok("locale")


if __name__ == "__main__":
    threads()
    processes()
    sockets()
    files(".")
    ok("files")
    files("/tmp")
    ok("tmp")
    memory_maps()
    signals()
    timers()
    locales()
    print("cpus", len(os.sched_getaffinity(0)))
    print("done")
