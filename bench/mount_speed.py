"""`forebay mount` beside plain pass-throughs of the same directory: requests a second of warm files, and of names.

Usage: mount_speed.py FOREBAY PLAIN [--passthrough-ll PROGRAM] [OPTIONS], as root; needs fio and fusermount3 (tests/install-tools.sh).

PLAIN is `cargo build --release -p forebay-bench --example plain_fuse`: the library that ours is built on, without a cache. libfuse's
pass-through is example/passthrough_ll.c of its source: gcc -O2 -D_GNU_SOURCE -include fcntl.h passthrough_ll.c $(pkg-config fuse3 --cflags --libs).
All lie over the same kind of directory in memory and run throughout; they are measured in turns. That ours misses nothing is checked by
its own figures. Keeps every figure as JSON in bench/runs/.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from measure import keep, machine, of_served_file, parsed, processor_seconds, program, spread, table

KIB, MIB = 1 << 10, 1 << 20
PATIENCE = 30

# What fio does: its engine and pattern, the bytes of a request, requests at a time.
TRANSFERS = {
    "4 KiB random reads, depth 1": ("psync", "randread", 4 * KIB, 1),
    "4 KiB random reads, depth 32": ("io_uring", "randread", 4 * KIB, 32),
    "256 KiB sequential reads, depth 1": ("psync", "read", 256 * KIB, 1),
    "4 KiB random writes, depth 1": ("psync", "randwrite", 4 * KIB, 1),
    "256 KiB sequential writes, depth 1": ("psync", "write", 256 * KIB, 1),
}
NAMES = {"create": "filecreate", "unlink": "filedelete"}
FILES = 2000
STAT = "stat, asked anew"
ACCESS = "access"
LISTED = "list a directory of 2,000"

# Root's mounts let everybody in and have the kernel check permissions, for which it asks for attributes again after each change of a directory; with
# --private they do not. passthrough_ll does so if it is asked to, whoever gets in. Reads and writes of open files are not checked.
OURS, PRIVATE, FUSER, LIBFUSE, CHECKED = "ours", "ours, private", "fuser, plain", "passthrough_ll", "passthrough_ll, permissions checked"
JOBS = [*TRANSFERS, "create", LISTED, STAT, ACCESS, "unlink"]
# Of statx(2): the file system is asked, whatever the kernel knows.
AT_FDCWD, AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, SIZE_OF_STATX = -100, 0x2000, 0x7FF, 256


def bars(names):
    """Of one of ours to a peer, or to the better of several: the least ratio."""
    both = [name for name in (FUSER, LIBFUSE) if name in names]
    yield "4 KiB random reads, depth 1", OURS, [FUSER], 1.0
    yield "4 KiB random reads, depth 32", OURS, both, 1.0
    yield "256 KiB sequential reads, depth 1", OURS, both, 1.0
    yield "4 KiB random writes, depth 1", OURS, both, 1.2
    if LIBFUSE in names:
        yield "4 KiB random reads, depth 1", OURS, [LIBFUSE], 0.8
        for job in (*NAMES, STAT, LISTED):
            yield job, PRIVATE, [LIBFUSE], 0.9
            yield job, OURS, [CHECKED], 0.9
            yield job, OURS, [LIBFUSE], 0.9


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("forebay", type=program, help="the program, built with --release")
    parser.add_argument("plain", type=program, help="plain_fuse, built with --release")
    parser.add_argument("--passthrough-ll", type=program, help="libfuse's pass-through")
    parser.add_argument("--policy", default="clock-pro", help="of our cache")
    parser.add_argument("--names", action="store_true", help="names alone; who asks has one core and the programs another")
    of_served_file(parser)
    return parsed(parser)


class Mounted:
    """A directory with a file `data`, mounted by a program that stays in the foreground."""

    def __init__(self, name, folder, size, command, core=None):
        self.name = name
        self.source, self.seen = folder / "source", folder / "seen"
        self.source.mkdir(parents=True)
        self.seen.mkdir()
        with (self.source / "data").open("wb") as file:
            for _ in range(size):
                file.write(os.urandom(MIB))
        placed = [] if core is None else ["taskset", "-c", core]
        self.process = subprocess.Popen([*map(str, placed), *map(str, command(self.source, self.seen))], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE
        while not (self.seen / "data").exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{name} has not mounted: {command(self.source, self.seen)}")
            time.sleep(0.05)

    def end(self):
        subprocess.run(["fusermount3", "-u", self.seen], check=True)
        self.process.wait(PATIENCE)


def programs(given):
    metrics = "127.0.0.1:9139"
    cache = f"{given.size * 4}MiB"
    ours = [given.forebay, "mount", "--foreground", "--log", "warn", "--policy", given.policy, "--cache", cache]
    all_ = {
        OURS: lambda source, seen: [*ours, "--metrics", metrics, "--dirty-limit", "50%", source, seen],
        PRIVATE: lambda source, seen: [*ours, "--private", source, seen],
        FUSER: lambda source, seen: [given.plain, source / "data", seen],
    }
    if given.passthrough_ll:
        of = lambda source: f"source={source},cache=never,timeout=1,allow_other"  # noqa: E731
        all_[LIBFUSE] = lambda source, seen: [given.passthrough_ll, "-f", "-o", of(source), seen]
        all_[CHECKED] = lambda source, seen: [given.passthrough_ll, "-f", "-o", f"{of(source)},default_permissions", seen]
    return all_, f"http://{metrics}/statistics"


def misses(address):
    with urllib.request.urlopen(address) as answer:
        return json.load(answer)["caches"][0]["misses"]


def fio(*words):
    done = subprocess.run(["fio", "--output-format=json", "--name=measured", *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"fio failed with exit code {done.returncode}: {done.stdout}{done.stderr}")
    (job,) = json.loads(done.stdout[done.stdout.index("{\n") :])["jobs"]
    return job


def transfer(mounted, given, job):
    engine, pattern, size, depth = TRANSFERS[job]
    of_file = [f"--filename={mounted.seen / 'data'}", "--direct=1", "--norandommap", f"--size={given.size}M"]
    done = fio(*of_file, f"--ioengine={engine}", f"--rw={pattern}", f"--bs={size}", f"--iodepth={depth}", "--time_based", f"--runtime={given.seconds}s")
    done = done["write" if pattern.endswith("write") else "read"]
    return done["iops"], done["total_ios"]


def names(mounted, job):
    folder = mounted.seen / "many"
    if job == "create":
        folder.mkdir()
    done = fio(f"--directory={folder}", f"--ioengine={NAMES[job]}", f"--nrfiles={FILES}", "--filesize=4k", "--openfiles=1", "--thread=1")
    if job == "unlink":
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    # One of these operations is counted as a read.
    of = max(done["read"], done["write"], done["trim"], key=lambda kind: kind["total_ios"])
    mean = of["lat_ns"]["mean"] or of["clat_ns"]["mean"]
    return 1e9 / mean, of["total_ios"]


def listed(mounted, rounds=20):
    folder = mounted.seen / "many"
    start = time.perf_counter()
    for _ in range(rounds):
        if sum(1 for _ in os.scandir(folder)) < FILES:
            sys.exit(f"{mounted.name}: fewer files than were made")
    return rounds / (time.perf_counter() - start), rounds


def stat(mounted, rounds=10):
    paths = [os.fsencode(file) for file in (mounted.seen / "many").iterdir()]
    statx, found = ctypes.CDLL(None, use_errno=True).statx, ctypes.create_string_buffer(SIZE_OF_STATX)
    start = time.perf_counter()
    for path in paths * rounds:
        if statx(AT_FDCWD, path, AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, found):
            sys.exit(f"{mounted.name}: {os.strerror(ctypes.get_errno())}: {os.fsdecode(path)}")
    return len(paths) * rounds / (time.perf_counter() - start), len(paths) * rounds


def access(mounted, rounds=10):
    paths = [os.fspath(file) for file in (mounted.seen / "many").iterdir()]
    start = time.perf_counter()
    for path in paths * rounds:
        if not os.access(path, os.R_OK):
            sys.exit(f"{mounted.name}: no access to {path}")
    return len(paths) * rounds / (time.perf_counter() - start), len(paths) * rounds


def measure(mounted, given, job, address):
    ours = mounted.name == OURS and job in TRANSFERS
    missed = misses(address) if ours else 0
    before = processor_seconds(mounted.process)
    if job in TRANSFERS:
        rate, done = transfer(mounted, given, job)
    elif job in NAMES:
        rate, done = names(mounted, job)
    elif job == STAT:
        rate, done = stat(mounted)
    elif job == ACCESS:
        rate, done = access(mounted)
    else:
        rate, done = listed(mounted)
    spent = processor_seconds(mounted.process) - before
    if ours and misses(address) != missed:
        sys.exit(f"{job}: {misses(address) - missed} misses, where all should be in the cache")
    return {"requests_per_second": rate, "processor_microseconds": spent / max(done, 1) * 1e6}


def show(runs, mounts, jobs):
    def figures(job, name, what):
        return [run[what] for run in runs if (run["job"], run["program"]) == (job, name)]

    for what, title, form in [
        ("requests_per_second", "requests a second", "{:.0f}"),
        ("processor_microseconds", "processor time of the program, µs a request", "{:.1f}"),
    ]:
        print(f"\n{title}:\n")
        cell = lambda job, name: spread(figures(job, name, what), form) if figures(job, name, what) else "–"  # noqa: E731, B023
        table([title, *mounts], [[job, *(cell(job, name) for name in mounts)] for job in jobs])
    rows = []
    for job, ours, peers, least in bars(mounts):
        if job not in jobs:
            continue
        median = lambda name: statistics.median(figures(job, name, "requests_per_second"))  # noqa: E731, B023
        best = max(map(median, peers))
        rows.append({"job": job, "ours": ours, "peers": peers, "reached": median(ours) / best, "least": least})
    print()
    table(
        ["bar", "of", "to", "reached", "least", "met"],
        [[row["job"], row["ours"], " or ".join(row["peers"]), f"{row['reached']:.2f}", row["least"], "yes" if row["reached"] >= row["least"] else "no"] for row in rows],
    )
    return rows


def main():
    given = options()
    started, address = programs(given)
    figures = {"machine": machine(), "fio": subprocess.run(["fio", "--version"], capture_output=True, text=True).stdout.strip()}
    jobs = [job for job in JOBS if not (given.names and job in TRANSFERS)]
    asking, serving = sorted(os.sched_getaffinity(0))[:2] if given.names else (None, None)
    runs = []
    with tempfile.TemporaryDirectory(prefix="forebay-", dir="/dev/shm") as folder, contextlib.ExitStack() as running:
        mounts = {}
        for number, (name, command) in enumerate(started.items()):
            # The plain one shows a file, and no names.
            if name == FUSER and given.names:
                continue
            mounts[name] = Mounted(name, pathlib.Path(folder) / str(number), given.size, command, serving)
            running.callback(mounts[name].end)
        if given.names:
            os.sched_setaffinity(0, {asking})
        for _ in range(2):
            subprocess.run(["dd", f"if={mounts[OURS].seen / 'data'}", "of=/dev/null", "bs=1M", "status=none"], check=True)
        for turn in range(given.rounds):
            for job in jobs:
                for name, mounted in mounts.items():
                    # Those that differ by permissions alone are one where none are checked.
                    if (name == FUSER and job not in TRANSFERS) or (name in (PRIVATE, CHECKED) and job in TRANSFERS):
                        continue
                    print(f"round {turn}: {job}: {name}", file=sys.stderr)
                    runs.append({"job": job, "program": name, "round": turn} | measure(mounted, given, job, address))
    rows = show(runs, mounts, jobs)
    keep("mount-speed", given, figures | {"runs": runs, "bars": rows})


if __name__ == "__main__":
    main()
