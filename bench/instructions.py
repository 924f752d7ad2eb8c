"""Instructions that a reference costs in each policy's inner loop, counted by callgrind: they stay the same on a noisy machine.

Usage: instructions.py FOREBAY [OPTIONS]; needs valgrind (Debian: apt-get install valgrind).

Only what is executed within the replay of a run counts (`forebay_sim::replay::replay` and what it calls), so neither reading nor
setting up does. Keeps every figure as JSON in bench/runs/.
"""

import argparse
import csv
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from measure import keep, machine, program, run, table, zipf

INNER_LOOP = "*forebay_sim::replay::replay*"


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("forebay", type=program, help="the program, built with --release")
    parser.add_argument("--policies", help="which; by default all")
    parser.add_argument("--pages", type=int, default=100_000, help="distinct pages of the Zipf trace")
    parser.add_argument("--references", type=int, default=2_000_000, help="its references")
    parser.add_argument("--size", type=int, default=10_000, help="pages of the cache")
    parser.add_argument("--out", help="the file for the raw figures")
    return parser.parse_args()


def count(given, policy):
    command = [given.forebay, "compare", zipf(given.forebay, given.pages, given.references), "-p", policy, "-s", given.size, "-t", 1, "-f", "csv"]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind"
        words = ["valgrind", "--tool=callgrind", f"--toggle-collect={INNER_LOOP}", f"--callgrind-out-file={out}"]
        done = subprocess.run([*words, *map(str, command)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"valgrind failed on {policy}:\n{done.stderr}")
        total = re.search(r"^totals: (\d+)", out.read_text(), re.M)
    instructions = int(total[1]) if total else 0
    if not instructions:
        sys.exit(f"{given.forebay} calls no function {INNER_LOOP}: was it built with debug lines, or the inner loop renamed?")
    row = next(csv.DictReader(io.StringIO(done.stdout)))
    return {"policy": policy, "instructions": instructions, "references": int(row["references"]), "misses": int(row["misses"])}


def main():
    given = options()
    if not shutil.which("valgrind"):
        sys.exit("valgrind is missing (Debian: apt-get install valgrind)")
    if given.policies:
        policies = given.policies.split(",")
    else:
        policies = [policy["name"] for policy in json.loads(run([given.forebay, "policies", "--format", "json"])[0])]
    figures = {"machine": machine(), "runs": []}
    for policy in policies:
        print(policy, file=sys.stderr)
        figures["runs"].append(count(given, policy))
    rows = [
        [run["policy"], f"{run['instructions'] / run['references']:.1f}", f"{run['misses'] / run['references']:.4f}"]
        for run in figures["runs"]
    ]
    table(["policy", "instructions a reference", "miss ratio"], rows)
    keep("instructions", given, figures)


if __name__ == "__main__":
    main()
