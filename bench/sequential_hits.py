"""Instructions that the pool takes for a page read in the order of blocks, counted by callgrind, of two builds: they stay the same on a busy machine.

Usage: sequential_hits.py BEFORE AFTER [OPTIONS]; each is a folder with a checkout, in which `cargo build --release -p forebay-bench --example
sequential_hits` is run. An earlier checkout may lack the example: copy bench/examples/sequential_hits.rs there. Needs valgrind (Debian:
apt-get install valgrind). Keeps every figure as JSON in bench/runs/.

Only reads count (`counted_read` and what it calls, in the reading thread), so neither setting up nor the threads that read ahead do.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from measure import keep, machine, table

COUNTED = "*counted_read*"
EXAMPLE = "sequential_hits"


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("before", type=pathlib.Path, help="the folder of the earlier build")
    parser.add_argument("after", type=pathlib.Path, help="the folder of the later build")
    parser.add_argument("--policies", default="lru,clock-pro,s3-fifo,mq,lirs,arc,ubm,linux", help="which")
    parser.add_argument("--out", help="the file for the raw figures")
    return parser.parse_args()


def count(build, folder, policy, setting):
    with tempfile.TemporaryDirectory() as work:
        out = pathlib.Path(work) / "callgrind"
        program = folder / "target/release/examples" / EXAMPLE
        words = ["valgrind", "--tool=callgrind", f"--toggle-collect={COUNTED}", f"--callgrind-out-file={out}", program, policy, setting]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"valgrind failed on {policy}:\n{done.stderr}")
        instructions = int(re.search(r"^totals: (\d+)", out.read_text(), re.M)[1])
    pages, hits = map(int, done.stdout.split())
    if not instructions:
        sys.exit(f"{program} calls no function {COUNTED}: was it built with debug lines?")
    return {"build": build, "policy": policy, "setting": setting, "instructions": instructions, "pages": pages, "hits": hits}


def main():
    given = options()
    if not shutil.which("valgrind"):
        sys.exit("valgrind is missing (Debian: apt-get install valgrind)")
    builds = {name: vars(given).pop(name) for name in ("before", "after")}
    for folder in builds.values():
        subprocess.run(["cargo", "build", "--release", "--locked", "-p", "forebay-bench", "--example", EXAMPLE], cwd=folder, check=True)
    figures, rows = {"machine": machine(), "runs": []}, []
    for policy in given.policies.split(","):
        for setting in ("resident", "ahead"):
            before, after = (count(build, folder, policy, setting) for build, folder in builds.items())
            figures["runs"] += [before, after]
            ratio = (after["instructions"] / after["pages"]) / (before["instructions"] / before["pages"]) - 1
            each = [f"{run['instructions'] / run['pages']:.0f}" for run in (before, after)]
            hits = [f"{100 * run['hits'] / run['pages']:.2f}" for run in (before, after)]
            rows.append([policy, setting, *each, f"{100 * ratio:+.1f} %", *hits])
            print(*rows[-1], file=sys.stderr)
    table(["policy", "pages are", "instructions a page before", "after", "difference", "hits before, %", "after, %"], rows)
    keep("sequential-hits", given, figures)


if __name__ == "__main__":
    main()
