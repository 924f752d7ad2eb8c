#!/usr/bin/env python3
"""UMap's own benchmark of page faults, compiled against UMap and against the pager, in turn. Prints JSON: microseconds a page.

    cargo build --release -p forebay-pager-c
    bench/against_umap.py UMAP [--rounds 5] [--threads 1,2] [--cores 0] > bench/runs/DATE-pager-umap.json

UMAP is UMap's source with its build in UMAP/build (cmake, make). Each program touches each of 65,536 pages of a file in memory once, with room for
16,384: it writes a number to each page, and the reading program checks each. The kernel's mmap of the same file has no limit."""

import argparse
import datetime
import itertools
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES, ROOM = 65_536, 16_384


def compile_ours(umap, target, folder):
    source = umap / "tests/pfbenchmark/pfbenchmark.cpp"
    for name in ("pfbenchmark-read", "pfbenchmark-write"):
        subprocess.run(
            ["c++", "-O3", "-DNDEBUG", "-fopenmp", "-w", f"-I{ROOT}/bench/umap_api", f"-I{ROOT}/include", "-o",
             folder / name, source, f"-L{target}", "-lforebay_pager_c", f"-Wl,-rpath,{target}"],
            check=True,
        )  # fmt: skip


def run(system, folder, umap, file, what, threads, shuffled, cores):
    """Nanoseconds a page, as the program says."""
    ours = system.startswith("pager")
    program = (folder if ours else umap / "build/tests/pfbenchmark") / f"pfbenchmark-{what}"
    command = [program, "-p", str(PAGES), "-t", str(threads), "-f", file]
    command += ["--shuffle"] if shuffled else []
    command += ["--noinit"] if what == "read" else []
    command += ["--usemmap"] if system == "kernel mmap" else []
    command = (["taskset", "-c", cores] if cores else []) + command
    environment = os.environ | {"UMAP_BUFSIZE": str(ROOM)}
    if system == "pager, in place":
        environment["FOREBAY_IN_PLACE"] = "1"
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("umap,", "mmap,"))]
    if done.returncode or len(lines) != 1:
        sys.exit(f"{command}: code {done.returncode}\n{done.stdout}{done.stderr}")
    return int(lines[0].split(",")[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("umap", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--cores", help="as taskset takes them; all if it is not given")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no round begins later than this")
    parser.add_argument("--target", type=pathlib.Path, default=ROOT / "target/release")
    arguments = parser.parse_args()
    systems = ["pager, in place", "pager, threads", "UMap", "kernel mmap"]
    kinds = list(itertools.product(map(int, arguments.threads.split(",")), (False, True)))
    times = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        folder = pathlib.Path(folder)
        compile_ours(arguments.umap, arguments.target, folder)
        begun, file = time.monotonic(), folder / "data"
        for number, (threads, shuffled), system in itertools.product(range(arguments.rounds), kinds, systems):
            late = time.monotonic() - begun > arguments.seconds
            if late and (threads, shuffled, system) == (*kinds[0], systems[0]):
                break
            # The file that the one has written is what the other reads.
            for what in ("write", "read"):
                taken = run(system, folder, arguments.umap, file, what, threads, shuffled, arguments.cores)
                case = f"{'shuffled' if shuffled else 'in order'}, {what}, {threads} thread{'s'[: threads > 1]}"
                times.setdefault(case, {}).setdefault(system, []).append(round(taken / 1000, 2))
    medians = {case: {system: statistics.median(runs) for system, runs in of.items()} for case, of in times.items()}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    answer = {
        "date": datetime.date.today().isoformat(),
        "commit": commit.strip(),
        "machine": {"cores": os.cpu_count(), "kernel": platform.release(), "used": arguments.cores or "all"},
        "what": __doc__.split("\n\n")[-1].replace("\n", " "),
        "median_microseconds_a_page": medians,
        "part_of_umap": {
            case: {system: round(of[system] / of["UMap"], 3) for system in systems[:2]} for case, of in medians.items()
        },
        "microseconds_a_page": times,
    }
    print(json.dumps(answer, indent=1))


if __name__ == "__main__":
    main()
