#!/usr/bin/env python3
"""What `forebay steer --memory` costs a program whose memory fits, how well it keeps its size, and what becomes of a second program after a first.
Where both have one size: what becomes of a program beside a file that is read again and again.

Usage: steering_memory.py FOREBAY [OPTIONS], as root, with gcc, on a machine without swap space: it makes a swap file of its own in /var/tmp.
Keeps every figure as JSON in bench/runs/.

The program goes through its memory in order, again and again, and touches each page once a round. That is the most that clearing reference bits can cost it.
"""

import argparse
import contextlib
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from measure import keep, machine, processor_seconds, program, spread, table

MIB = 1 << 20
PAGE = 4096
ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCES = ROOT / "crates/cli/tests/steer"
GROUPS = pathlib.Path("/sys/fs/cgroup/memory")
SWAP = 4096 * MIB
# What the kernel alone may have beside the size, as `forebay steer` gives it to a program's group.
MORE = 32
# Until then a program fills its memory.
FILLS = 2.0
# A program's part of the memory beside a file, the file's, and the MiB of the file that are read in a second.
BESIDE, FILE, RATES = 0.7, 1.2, (64, 256)
# A stopped program has the first part of the memory; a file of the second part is read in so many rounds.
IDLE, READ, ROUNDS = 0.6, 0.7, 20


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("forebay", type=program, help="the program")
    parser.add_argument("--policy", default="clock-pro", help="which")
    parser.add_argument("--fits", type=int, default=1024, help="MiB of the program that fits")
    parser.add_argument("--memory", type=int, default=256, help="MiB of memory where a program does not fit")
    parser.add_argument("--parts", default=",".join(SHOWN), help="what is measured")
    parser.add_argument("--seconds", type=int, default=10, help="of one run")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured")
    parser.add_argument("--out", help="the file for the raw figures")
    return parser.parse_args()


@contextlib.contextmanager
def swap():
    if pathlib.Path("/proc/swaps").read_text().count("\n") > 1:
        sys.exit("there is swap space already, with pages of others: swapoff it")
    file = pathlib.Path(f"/var/tmp/forebay-steering-memory-{os.getpid()}")
    try:
        file.touch(0o600)
        for words in (["fallocate", "-l", SWAP], ["mkswap"], ["swapon"]):
            subprocess.run([*map(str, words), file], check=True, stdout=subprocess.DEVNULL)
        yield
    finally:
        # It is not on if it could not be made.
        subprocess.run(["swapoff", file], check=False, stderr=subprocess.DEVNULL)
        file.unlink(missing_ok=True)


@contextlib.contextmanager
def group(limit=None):
    path = GROUPS / f"forebay-steering-memory-{os.getpid()}"
    path.mkdir()
    try:
        if limit:
            (path / "memory.limit_in_bytes").write_text(str(limit))
        yield path
    finally:
        path.rmdir()


def start(path, *words):
    """A program in a group."""
    command = ["sh", "-c", f'echo $$ > {path / "cgroup.procs"}; exec "$@"', "sh", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


class Steering:
    """`forebay steer --memory` of a group."""

    def __init__(self, given, path, mebibytes, *more):
        policy = [] if "--policy" in more else ["--policy", given.policy]
        size = [] if "--memory" in more else ["--memory", f"{mebibytes}MiB"]
        command = [given.forebay, "steer", *size, "--cgroup", path, "--log", "warn", *policy, *more]
        self.process = subprocess.Popen(list(map(str, command)))
        self.spent = 0.0
        time.sleep(0.5)
        if self.process.poll() is not None:
            sys.exit("forebay steer does not begin")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.spent = processor_seconds(self.process)
        self.process.terminate()
        self.process.wait(30)


def rounds_of(child):
    """The rounds that a program has done, once it has ended."""
    said = child.communicate(timeout=300)[0]
    if child.returncode:
        sys.exit(f"the program has failed with exit code {child.returncode}")
    return int(said.split()[0])


def resident(path):
    """The bytes that the processes of a group have in memory."""
    total = 0
    for process in (path / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):
            total += int(pathlib.Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE
    return total


def fits(given, loop, how):
    """A program whose memory fits: alone, steered, or observed, which looks at its reference bits each second."""
    with group() as path:
        child = start(path, loop, given.fits, given.seconds)
        if how == "alone":
            return {"rounds": rounds_of(child), "start": 0.0, "core": 0.0}
        with Steering(given, path, given.fits * 3 // 2, *(["--observe"] if how == "observed" else [])) as steering:
            time.sleep(FILLS)
            start_took, begin = processor_seconds(steering.process), time.monotonic()
            done = rounds_of(child)
            took = time.monotonic() - begin
        return {"rounds": done, "start": start_took, "core": (steering.spent - start_took) / took}


def size(given, loop):
    """A program of half as much again as it may have: how much it has, every ten milliseconds once it has filled its memory."""
    with group(given.memory * MIB * (MORE + 1) // MORE) as path, Steering(given, path, given.memory) as steering:
        child, seen, begin = start(path, loop, given.memory * 3 // 2, given.seconds), [], time.monotonic()
        while child.poll() is None:
            if time.monotonic() - begin > FILLS:
                seen.append(resident(path))
            time.sleep(0.01)
        done = rounds_of(child)
    # The last samples are of a program that ends.
    seen = sorted(sample / (given.memory * MIB) for sample in seen[:-5])
    return {"rounds": done, "median": seen[len(seen) // 2], "99 %": seen[len(seen) * 99 // 100], "most": seen[-1], "spent": steering.spent}


def second(given, loop, how, first):
    """A program of nine tenths of what there is, alone or after another that keeps what it had: its rounds."""
    used = given.memory * 9 // 10
    with group(given.memory * MIB * (MORE + 1) // MORE) as path, contextlib.ExitStack() as stack:
        if how == "steered":
            stack.enter_context(Steering(given, path, given.memory))
        other = start(path, loop, used, 3600) if first else None
        if other:
            time.sleep(given.seconds)
            other.send_signal(signal.SIGSTOP)
        done = rounds_of(start(path, loop, used, given.seconds))
        if other:
            other.kill()
            other.communicate()
    return {"rounds": done}


def beside(given, loop, reads, file, how, rate):
    """A program that fits beside a file that does not: its rounds, and the pages that came back from swap space."""
    with group(given.memory * MIB * (MORE + 1) // MORE) as path, contextlib.ExitStack() as stack:
        with open(file, "rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if how != "kernel":
            half = given.memory // 2
            stack.enter_context(Steering(given, path, half, "--cache", f"{half}MiB", "--policy", how))
        other = start(path, reads, file, rate, 1 << 20)
        before = swapped_in()
        done = rounds_of(start(path, loop, int(given.memory * BESIDE), given.seconds))
        came = swapped_in() - before
        other.kill()
        other.communicate()
    return {"rounds": done, "swapped_in": came}


def idle(given, loop, reads, file, how):
    """A file that fits once the memory of a program that stands still has left: the seconds that it takes to read it again and again."""
    with group(given.memory * MIB * (MORE + 1) // MORE) as path, contextlib.ExitStack() as stack:
        with open(file, "rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if how != "kernel":
            half = given.memory // 2
            stack.enter_context(Steering(given, path, half, "--cache", f"{half}MiB", "--policy", how))
        other = start(path, loop, int(given.memory * IDLE), 3600)
        time.sleep(FILLS)
        other.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        rounds_of(start(path, reads, file, 1 << 20, ROUNDS))
        took = time.monotonic() - begin
        other.kill()
        other.communicate()
    return {"took": took}


def swapped_in():
    return int(dict(line.split() for line in pathlib.Path("/proc/vmstat").read_text().splitlines())["pswpin"])


def of(runs, **labels):
    return [run for run in runs if all(run.get(name) == value for name, value in labels.items())]


def rate(runs):
    return spread([run["rounds"] / run["seconds"] for run in runs])


def show_fits(runs):
    alone, rows = of(runs, how="alone"), []
    for how in ("alone", "steered", "observed"):
        here = of(runs, how=how)
        slower = [100 * (before["rounds"] / max(run["rounds"], 1) - 1) for before, run in zip(alone, here)]
        rows.append([how, rate(here), spread(slower), spread([run["start"] for run in here]), spread([100 * run["core"] for run in here])])
    print("\nA program whose memory fits:\n")
    table(["", "rounds a second", "% slower than alone in the same round", "seconds of processor for the start", "% of a core after it"], rows)


def show_size(runs):
    print("\nThe size, every 10 ms, of a program that would have half as much again, in percent over what was asked for:\n")
    table(["median", "99 of 100", "most"], [[spread([100 * (run[what] - 1) for run in runs]) for what in ("median", "99 %", "most")]])


def show_second(runs):
    rows = []
    for how in dict.fromkeys(run["how"] for run in runs):
        here = [of(runs, how=how, first=first) for first in (False, True)]
        lost = [one["seconds"] * (1 - two["rounds"] / one["rounds"]) for one, two in zip(*here)]
        rows.append([how, *map(rate, here), spread(lost)])
    print("\nRounds a second of a program that fits, alone and after another that stands still and keeps what it had:\n")
    table(["", "alone", "after another", "seconds that this takes"], rows)


def show_beside(runs):
    rows = []
    for how in dict.fromkeys(run["how"] for run in runs):
        here = [of(runs, how=how, rate=one) for one in RATES]
        rows.append([how, *(cell for runs in here for cell in (rate(runs), spread([run["swapped_in"] / 1000 for run in runs])))])
    print("\nA program that fits beside a file that does not, in one size: rounds a second, and thousands of pages that came back from swap space, by MiB of the file a second:\n")
    table(["", *(name for one in RATES for name in (f"{one}: rounds", "came back"))], rows)


def show_idle(runs):
    print(f"\nSeconds for {ROUNDS} rounds over a file that fits once the memory of a program that stands still has left:\n")
    table(["", "seconds"], [[how, spread([run["took"] for run in of(runs, how=how)])] for how in dict.fromkeys(run["how"] for run in runs)])


SHOWN = {"fits": show_fits, "size": show_size, "second": show_second, "beside": show_beside, "idle": show_idle}


def main():
    given = options()
    # Its swap space and its groups go with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("it was asked to end"))
    if os.geteuid() != 0:
        sys.exit("only root may steer: run it as root")
    if not (GROUPS / "memory.limit_in_bytes").exists():
        sys.exit("version 1 of control groups does not limit memory here")
    parts = given.parts.split(",")
    if unknown := set(parts) - set(SHOWN):
        sys.exit(f"--parts {unknown.pop()}: it measures {', '.join(SHOWN)}")
    figures = {"machine": machine(), "runs": []}

    def measured(labels, figured):
        figures["runs"].append(labels | {"seconds": given.seconds} | figured)
        print(*labels.values(), figured, file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="forebay-steering-memory-") as folder, swap(), contextlib.ExitStack() as stack:
        loop, reads = (pathlib.Path(folder) / name for name in ("pages", "reads"))
        for program_file in (loop, reads):
            subprocess.run(["cc", "-O2", "-o", program_file, SOURCES / f"{program_file.name}.c"], check=True)
        file, smaller = (stack.enter_context(tempfile.NamedTemporaryFile(dir="/var/tmp")) for _ in range(2))
        for each, part in ((file, FILE), (smaller, READ)):
            each.write(os.urandom(MIB) * int(given.memory * part))
            os.fsync(each.fileno())
        ways, fronts = ("kernel", given.policy, "lru"), ("kernel", "steered")
        for turn in range(given.rounds):
            for how in ("alone", "steered", "observed") if "fits" in parts else ():
                measured({"part": "fits", "how": how, "round": turn}, fits(given, loop, how))
            if "size" in parts:
                measured({"part": "size", "round": turn}, size(given, loop))
            for how, first in itertools.product(fronts, (False, True)) if "second" in parts else ():
                measured({"part": "second", "how": how, "first": first, "round": turn}, second(given, loop, how, first))
            for rate, how in itertools.product(RATES, ways) if "beside" in parts else ():
                measured({"part": "beside", "how": how, "rate": rate, "round": turn}, beside(given, loop, reads, file.name, how, rate))
            for how in ways if "idle" in parts else ():
                measured({"part": "idle", "how": how, "round": turn}, idle(given, loop, reads, smaller.name, how))
    for part in parts:
        SHOWN[part](of(figures["runs"], part=part))
    keep("steering-memory", given, figures)


if __name__ == "__main__":
    main()
