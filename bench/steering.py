#!/usr/bin/env python3
"""What `forebay steer` takes for its work, and how well it keeps its size: processor time for each page that is used and found, and for each page that leaves;
its memory; the size of the page cache every ten milliseconds.

Usage: steering.py FOREBAY [OPTIONS], as root, on ext4 or XFS. By default the files lie in /var/tmp. Keeps every figure as JSON in bench/runs/.

A program reads 4 KiB at a time from a file that fits in the cache, paced, or from one of four times the cache: at random places, or one page behind the other,
with the kernel's readahead. Each policy by turns, in rounds.
"""

import argparse
import contextlib
import ctypes
import json
import mmap
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from measure import keep, machine, processor_seconds, program, spread, table

MIB = 1 << 20
PAGE = 4096
CACHESTAT = 451
SYSTEM = ctypes.CDLL(None, use_errno=True)
BATCH = 500
# The size may be exceeded by the pages that come in so many seconds.
IN_TIME = 0.02


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("forebay", type=program, help="the program")
    parser.add_argument("--policies", default="clock-pro,lru,s3-fifo,ubm", help="which")
    parser.add_argument("--cache", type=int, default=128, help="MiB that may stay")
    parser.add_argument("--hits", type=int, default=100_000, help="pages used and found in a second")
    parser.add_argument("--seconds", type=float, default=5.0, help="of one measurement")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured")
    parser.add_argument("--folder", default="/var/tmp", help="where the files lie")
    parser.add_argument("--out", help="the file for the raw figures")
    return parser.parse_args()


class CacheStat(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")]


def cached(files):
    """The bytes of these that are in the page cache."""
    whole, found, total = (ctypes.c_uint64 * 2)(0, 0), CacheStat(), 0
    for file in files:
        if SYSTEM.syscall(CACHESTAT, file, whole, ctypes.byref(found), 0):
            raise OSError(ctypes.get_errno(), "cachestat")
        total += found.cached
    return total * PAGE


class Steering:
    def __init__(self, forebay, folder, cache, policy):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        command = [forebay, "steer", folder, "--cache", str(cache), "--policy", policy, "--metrics", f"127.0.0.1:{self.port}", "--log", "warn"]
        self.process = subprocess.Popen(list(map(str, command)))
        end = time.monotonic() + 30
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                sys.exit("forebay steer does not begin within 30 s")
            time.sleep(0.02)

    def answers(self):
        with contextlib.suppress(OSError):
            return bool(self.figures())
        return False

    def figures(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/statistics", timeout=10) as answer:
            return json.load(answer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)


def at_random(file, pages, seconds, pace):
    """Reads pages at random places, at most `pace` a second: how many, and in how many seconds."""
    chosen = random.Random(1)
    places = [chosen.randrange(pages) * PAGE for _ in range(1 << 16)]
    begin, done = time.perf_counter(), 0
    while (now := time.perf_counter() - begin) < seconds:
        for place in places[done % len(places) :][:BATCH]:
            os.pread(file, PAGE, place)
        done += BATCH
        if pace and (ahead := done / pace - now) > 0:
            time.sleep(ahead)
    return done, time.perf_counter() - begin


def in_order(file, pages, seconds, _):
    begin, done = time.perf_counter(), 0
    while (now := time.perf_counter() - begin) < seconds:
        for place in range(done, done + BATCH):
            os.pread(file, PAGE, place % pages * PAGE)
        done += BATCH
    return done, now


class Samples(threading.Thread):
    """The size of the page cache of files, every ten milliseconds."""

    def __init__(self, files):
        super().__init__()
        self.files, self.seen, self.over = files, [], threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(0.01):
            self.seen.append(cached(self.files))

    def end(self):
        self.over.set()
        self.join()
        return sorted(self.seen)


WORKS = {
    "hits": (0.5, os.POSIX_FADV_RANDOM, at_random, True),
    "random": (4, os.POSIX_FADV_RANDOM, at_random, False),
    "sequential": (4, os.POSIX_FADV_NORMAL, in_order, False),
}


def measure(given, folder, policy, work):
    part, advice, reads, paced = WORKS[work]
    size = given.cache * MIB
    pages = int(part * size) // PAGE
    files = {name: os.open(folder / name, os.O_RDONLY) for name in WORKS}
    file = files[work]
    try:
        for each in files.values():
            os.posix_fadvise(each, 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file, 0, 0, advice)
        with Steering(given.forebay, folder, size, policy) as steering:
            # What is measured begins when the cache is as full as it becomes.
            reads(file, pages, 2, 0) if not paced else [os.pread(file, PAGE, page * PAGE) for page in range(pages)]
            before, spent = steering.figures(), processor_seconds(steering.process)
            samples = Samples([file])
            done, seconds = reads(file, pages, given.seconds, given.hits if paced else 0)
            seen = samples.end()
            spent = processor_seconds(steering.process) - spent
            after = steering.figures()
            resident = int(pathlib.Path(f"/proc/{steering.process.pid}/statm").read_text().split()[1]) * mmap.PAGESIZE
    finally:
        for each in files.values():
            os.close(each)
    of = {name: after["page_cache"][name] - before["page_cache"][name] for name in ("dropped", "let_go", "reclaimed", "lost", "events", "kernel_misses")}
    most = lambda part: seen[min(int(len(seen) * part), len(seen) - 1)] / size  # noqa: E731
    arriving = of["dropped"] / seconds * IN_TIME * PAGE / size
    return {
        "policy": policy,
        "work": work,
        "reads": done,
        "seconds": seconds,
        "processor": spent,
        "resident": resident,
        "metadata": after["caches"][0]["metadata"],
        "size": {"median": most(0.5), "99 %": most(0.99), "most": most(1)},
        "arriving": arriving,
        **of,
    }


def show(runs, given):
    rows = []
    for policy in given.policies.split(","):
        of = lambda work: [run for run in runs if (run["policy"], run["work"]) == (policy, work)]  # noqa: B023, E731
        core = [100 * run["processor"] / run["seconds"] * 100_000 / (run["reads"] / run["seconds"]) for run in of("hits")]
        leaving = [[run["processor"] / run["dropped"] * 1e6 for run in of(work) if run["dropped"]] for work in ("random", "sequential")]
        sizes = [[100 * (run["size"][what] - 1 - run["arriving"]) for run in of("random") + of("sequential")] for what in ("99 %", "most")]
        metadata = [100 * run["metadata"] / (given.cache * MIB) for run in of("random")]
        rest = [(run["resident"] - run["metadata"]) / MIB for run in of("random")]
        row = [policy, spread(core), *(spread(times) if times else "–" for times in leaving), *map(spread, sizes), spread(metadata, "{:.1f}"), spread(rest, "{:.1f}")]
        rows.append([*row, sum(run["lost"] for run in runs if run["policy"] == policy), sum(run["reclaimed"] for run in runs if run["policy"] == policy)])
    header = ["policy", "% of a core for 100,000 hits/s", "µs a page that leaves, random", "sequential", "% over the size and 20 ms, 99 of 100", "most"]
    table([*header, "metadata, %", "other memory, MiB", "events lost", "reclaimed"], rows)


def main():
    given = options()
    if os.geteuid() != 0:
        sys.exit("only root may steer: run it as root")
    figures = {"machine": machine(), "runs": []}
    with tempfile.TemporaryDirectory(prefix="forebay-steering-", dir=given.folder) as folder:
        folder = pathlib.Path(folder)
        for work, (part, *_) in WORKS.items():
            with open(folder / work, "wb") as file:
                for _ in range(int(part * given.cache)):
                    file.write(os.urandom(MIB))
                os.fsync(file.fileno())
        for turn in range(given.rounds):
            for policy in given.policies.split(","):
                for work in WORKS:
                    run = measure(given, folder, policy, work) | {"round": turn}
                    figures["runs"].append(run)
                    print(turn, policy, work, f"{run['reads'] / run['seconds']:,.0f} reads/s, {run['processor']:.2f} s of processor, {run['dropped']:,} left", file=sys.stderr)
    show(figures["runs"], given)
    keep("steering", given, figures)


if __name__ == "__main__":
    main()
