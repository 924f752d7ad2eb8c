#!/usr/bin/env python3
"""UMap's own benchmark of page faults, by UMap, by the kernel's mmap in as much memory, and by that steered with `forebay steer --memory`, in turns.

Usage: umap_steered.py FOREBAY UMAP [OPTIONS], as root, on a machine without swap space. UMAP is UMap's source with its build in UMAP/build (cmake, make).
Keeps every figure as JSON in bench/runs/.

Each program touches each of 65,536 pages of a file once, in order or shuffled, with room for 16,384: one writes a number to each page, the other checks them. UMap's memory is its
buffer alone. The others' is the limit of a control group, and the memory of `forebay steer` is part of that.
"""

import argparse
import itertools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from measure import keep, machine, program, spread, table
from steering_memory import MIB, PAGE, Steering, group, start, swap

PAGES, ROOM = 65_536, 16_384
# What a program has besides the file.
BESIDES = 4 * MIB
MOST_SECONDS = 300
SYSTEMS = ("UMap", "kernel", "steered")


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("forebay", type=program, help="the program")
    parser.add_argument("umap", type=pathlib.Path, help="UMap's source with its build")
    parser.add_argument("--policy", default="clock-pro", help="which")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured")
    parser.add_argument("--threads", default="1,2", help="how many touch the pages")
    parser.add_argument("--folder", default="/var/tmp", help="where the file lies")
    parser.add_argument("--out", help="the file for the raw figures")
    return parser.parse_args()


def drop(file):
    """Has nothing of a file in the page cache."""
    with open(file, "rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def once(given, system, file, what, threads, shuffled):
    """Microseconds a page, as the program says."""
    words = [given.umap / f"build/tests/pfbenchmark/pfbenchmark-{what}", "-p", PAGES, "-t", threads, "-f", file]
    words += [*(["--shuffle"] if shuffled else []), *(["--noinit"] if what == "read" else []), *([] if system == "UMap" else ["--usemmap"])]
    limit = None if system == "UMap" else ROOM * PAGE + BESIDES
    with group(limit) as path:
        if system == "steered":
            with Steering(given, path, limit // MIB, "--memory", "auto") as steering:
                resident = int(pathlib.Path(f"/proc/{steering.process.pid}/statm").read_text().split()[1]) * PAGE
                (path / "memory.limit_in_bytes").write_text(str(limit - resident))
                said = output(path, words)
        else:
            said = output(path, words)
    lines = [line for line in said.splitlines() if line.startswith(("umap,", "mmap,"))]
    if len(lines) != 1:
        sys.exit(f"{words}: {said}")
    return int(lines[0].split(",")[-1]) / 1000


def output(path, words):
    child = start(path, "env", f"UMAP_BUFSIZE={ROOM}", f"UMAP_PAGESIZE={PAGE}", *words)
    try:
        said = child.communicate(timeout=MOST_SECONDS)[0]
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        sys.exit(f"{words}: not done within {MOST_SECONDS} s: a disk that reads ahead megabytes does so for each page that is read at random")
    if child.returncode:
        sys.exit(f"{words}: exit code {child.returncode}")
    return said


def show(runs):
    rows = []
    cases = dict.fromkeys((run["what"], run["threads"], run["shuffled"]) for run in runs)
    for what, threads, shuffled in cases:
        here = {system: [run["microseconds"] for run in runs if (run["what"], run["threads"], run["shuffled"], run["system"]) == (what, threads, shuffled, system)] for system in SYSTEMS}
        middle = {system: statistics.median(times) for system, times in here.items()}
        row = [f"{what}, {'shuffled' if shuffled else 'in order'}, {threads} thread{'s'[: threads > 1]}", *(spread(here[system], "{:.1f}") for system in SYSTEMS)]
        rows.append([*row, f"{middle['steered'] / middle['kernel']:.2f}", f"{middle['steered'] / middle['UMap']:.2f}"])
    print("\nMicroseconds a page:\n")
    table(["", *SYSTEMS, "steered by the kernel's", "by UMap's"], rows)


def main():
    given = options()
    if os.geteuid() != 0:
        sys.exit("only root may steer: run it as root")
    figures = {"machine": machine(), "runs": []}
    with tempfile.TemporaryDirectory(prefix="forebay-umap-", dir=given.folder) as folder, swap():
        file = pathlib.Path(folder) / "data"
        for turn, threads, shuffled, system in itertools.product(range(given.rounds), map(int, given.threads.split(",")), (False, True), SYSTEMS):
            # The file that the one has written is what the other reads.
            for what in ("write", "read"):
                if file.exists():
                    drop(file)
                taken = once(given, system, file, what, threads, shuffled)
                labels = {"what": what, "threads": threads, "shuffled": shuffled, "system": system, "round": turn}
                figures["runs"].append(labels | {"microseconds": taken})
                print(*labels.values(), f"{taken:.1f}", file=sys.stderr, flush=True)
            file.unlink()
    show(figures["runs"])
    keep("umap-steered", given, figures)


if __name__ == "__main__":
    main()
