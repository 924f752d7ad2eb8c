"""A well-behaved client beside an attack: it times each of its operations, and checks every byte that it reads.

As a program, in a process of its own so that nothing but the server slows it, it takes its task as JSON, and at each line of its input
answers with its figures since the last one. It has blocks of 4 KiB to itself, which hold `content` of the version `version`, zeroes if
that is 0. It reads them, or also writes them (`writes` is the share), each time other bytes, and then expects what it wrote. Without a name of
an export its address is a file, which it reads past the system's cache: what the disk itself does meanwhile.
"""

import bisect
import json
import mmap
import os
import pathlib
import random
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from shared import wire  # noqa: E402

BLOCK = 4096
WORDS = struct.Struct("<QQ")


def content(block, version):
    """Other bytes for each block and version; zeroes for what nobody has written."""
    return WORDS.pack(block, version) * (BLOCK // WORDS.size) if version else bytes(BLOCK)


def fill(path, length):
    """Writes the first version to the blocks at the beginning of a file."""
    with open(path, "r+b") as file:
        for block in range(length // BLOCK):
            file.write(content(block, 1))


def quantile(sorted_times, share):
    return sorted_times[min(len(sorted_times) - 1, int(len(sorted_times) * share))] if sorted_times else 0.0


def unhindered(times, interval):
    """The times, and those of the operations that would have begun, one an interval, while another lasted: a client that waits asks less
    while it is slow, and its own times alone would hide that."""
    for seconds in times:
        yield seconds
        for number in range(1, int(seconds / interval)):
            yield seconds - number * interval


class PlainFile:
    """In the place of a client that reads."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        self.aligned = mmap.mmap(-1, BLOCK)

    def read(self, offset, length):
        os.preadv(self.file, [self.aligned], offset)
        return self.aligned[:length]


class Work:
    def __init__(self, task):
        self.task = task
        address = task["address"]
        self.address = address if isinstance(address, str) else tuple(address)
        self.blocks = range(task["offset"] // BLOCK, (task["offset"] + task["length"]) // BLOCK)
        self.versions = {}
        self.first = task["version"]
        self.random = random.Random(1)
        self.lock = threading.Lock()
        self.error = None
        self.began = None
        self.connected, self.over = threading.Event(), threading.Event()
        self.reset()

    def reset(self):
        self.times, self.wrong = [], 0

    def run(self):
        try:
            name = self.task["name"]
            client = wire.Client(self.address, name, self.task["timeout"]) if name else PlainFile(self.address)
            self.connected.set()
            while not self.over.wait(self.task["think"]):
                self.operate(client)
        except Exception as error:  # part of the figures
            self.error = f"{type(error).__name__}: {error}"
            self.connected.set()

    def timed(self, call, *arguments):
        self.began = time.monotonic()
        result = call(*arguments)
        with self.lock:
            self.times.append(time.monotonic() - self.began)
            self.began = None
        return result

    def operate(self, client):
        block = self.random.choice(self.blocks)
        version = self.versions.get(block, self.first)
        if self.random.random() < self.task["writes"]:
            # In doubt until it is acknowledged.
            self.versions[block] = None
            self.timed(client.write, block * BLOCK, content(block, version + 1))
            self.versions[block] = version + 1
        else:
            data = self.timed(client.read, block * BLOCK, BLOCK)
            with self.lock:
                self.wrong += data != content(block, version)

    def figures(self):
        with self.lock:
            times, wrong = sorted(self.times), self.wrong
            self.reset()
            under_way = time.monotonic() - self.began if self.began else 0.0
        # One that has begun counts as long as it has lasted.
        if under_way > quantile(times, 0.99):
            bisect.insort(times, under_way)
        even = sorted(unhindered(times, self.task["think"]))
        figures = {"p50": quantile(times, 0.5), "p99": quantile(times, 0.99), "longest": quantile(times, 1)}
        figures |= {f"p{share} over time": quantile(even, share / 100) for share in (50, 90, 99)}
        milliseconds = {key: seconds * 1000 for key, seconds in figures.items()}
        return {"count": len(times), "wrong": wrong, "error": self.error, **milliseconds}


def main():
    work = Work(json.loads(sys.argv[1]))
    worker = threading.Thread(target=work.run, daemon=True)
    worker.start()
    work.connected.wait()
    for line in sys.stdin:
        if line.strip() == "versions":
            work.over.set()
            worker.join(work.task["timeout"])
            print(json.dumps([[block, version] for block, version in list(work.versions.items())]), flush=True)
        else:
            print(json.dumps(work.figures()), flush=True)


class Bystander:
    """The program above at work; a context. Times are in milliseconds."""

    def __init__(self, address, name="volume", offset=0, length=1 << 20, version=0, writes=0.0, think=0.001, timeout=15):
        task = {"address": address, "name": name, "offset": offset, "length": length, "version": version}
        task |= {"writes": writes, "think": think, "timeout": timeout}
        command = [sys.executable, __file__, json.dumps(task)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def figures(self):
        """Since it was last asked: count, p50, p99 and longest, p50, p90 and p99 over time, wrong blocks, and the error that ended it."""
        return self.ask("figures")

    def versions(self):
        """Ends its work: what it has written, (block, version); the version is None if the write was not acknowledged."""
        return self.ask("versions")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


if __name__ == "__main__":
    main()
