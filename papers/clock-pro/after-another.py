#!/usr/bin/env python3
"""Whether policies leave a working set behind: hits on a trace that follows another one, in percent of the hits on it alone.

    papers/clock-pro/after-another.py target/release/forebay --traces FOLDER     # some 10 minutes on one core; writes the table of the README

Each of the LIRS authors' traces is replayed after each other one, in a cache of 40 % of the second trace's pages. Hits are counted over the second
trace; where there are none alone, none are lost. `phases`: a slowly moving working set, then laps of a loop 1.2, 1.5 and 1.8 times the cache; hits in percent of those of LIRS.
"""

import argparse
import gzip
import json
import pathlib
import random
import subprocess
import tempfile

PAGE = pathlib.Path(__file__).resolve().parent / "README.md"
BEGIN, END = "<!-- after-another.py writes from here -->\n", "<!-- to here -->"
POLICIES = ["clock-pro", "clock-pro:recovery=off", "lirs", "mq", "arc", "car", "s3-fifo", "ubm", "dulo", "2q", "lru-k", "clock"]
NAMES = ["cpp", "cs", "gli", "sprite", "multi1", "multi2", "multi3", "2_pools", "loop"]
PHASES = [(1000, 120), (3000, 150), (10000, 180)]
# Pages of the second trace have other numbers than those of the first.
APART = 10**6


def write(path, pages):
    path.write_text("".join(f"{page}\n" for page in pages))
    return path


def hits(program, trace, size, skipped=0):
    """Hits by policy, without those of the first references."""
    command = [program, "compare", str(trace), "-p", ",".join(POLICIES), "-s", str(size), "--warmup", str(skipped), "--threads", "1", "--format", "json"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {run["policy"]: run["counted"]["hits"] for run in (answer[0] if isinstance(answer, list) else answer)["runs"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the built forebay")
    parser.add_argument("--traces", type=pathlib.Path, required=True, help="the folder of the traces")
    arguments = parser.parse_args()
    pages = {}
    for name in NAMES:
        with gzip.open(arguments.traces / f"lirs/{name}.trace.gz", "rt") as file:
            pages[name] = [int(page) for page in file.read().split()]
    of = {policy: [] for policy in POLICIES}
    phases = {policy: [] for policy in POLICIES}
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace.txt"
        for second in NAMES:
            size = round(0.4 * len(set(pages[second])))
            alone = hits(arguments.program, write(trace, pages[second]), size)
            for first in NAMES:
                if first == second:
                    continue
                both = write(trace, pages[first] + [APART + page for page in pages[second]])
                after = hits(arguments.program, both, size, len(pages[first]))
                for policy in POLICIES:
                    percent = 100 * after[policy] / alone[policy] if alone[policy] else 100
                    of[policy].append((percent, f"{second} after {first}"))
        for count, loop in PHASES:
            draw = random.Random(2)
            moving = [at // 20 + min(int(draw.expovariate(1 / 60)), 400) for at in range(count)]
            found = hits(arguments.program, write(trace, moving + [APART + page for _ in range(200) for page in range(loop)]), 100)
            for policy in POLICIES:
                phases[policy].append(f"{100 * found[policy] / found['lirs']:.0f}")
    lines = ["| policy | phases | pairs below 80 % | the worst pair | the median |\n", "| --- | ---: | ---: | --- | ---: |\n"]
    for policy in POLICIES:
        ranked = sorted(of[policy])
        below = sum(percent < 80 for percent, _ in ranked)
        worst, where = ranked[0]
        lines.append(f"| `{policy}` | {', '.join(phases[policy])} | {below} of {len(ranked)} | {worst:.0f}: {where} | {ranked[len(ranked) // 2][0]:.0f} |\n")
    before, begin, rest = PAGE.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, f"{PAGE} has no place for the table"
    PAGE.write_text(before + begin + "".join(lines) + end + after)


if __name__ == "__main__":
    main()
