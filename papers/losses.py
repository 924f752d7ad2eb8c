#!/usr/bin/env python3
"""Where the five papers' policies lose: their worst differences to LRU, to CLOCK and to the best rival, over all traces, in hits; and in device
time with readahead, to the policy `linux`, to LRU and to the best rival.

    papers/losses.py target/release/forebay --traces FOLDER     # about an hour on one core; writes docs/policies.md and docs/figures.md
    papers/losses.py target/release/forebay --registry          # seconds: the page of policies again, the losses as they stand

Each trace is replayed at 1, 5, 10, 20, 30 and 50 % of its pages through all policies that run on-line, at their defaults; with readahead
(`linux:max=128KiB`, the device `nearline`) at 1, 10 and 30 %. A difference is in points of the hit ratio, or in percent of device time. `--keep FILE`
keeps the figures, and a second run takes what it finds there.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE, FIGURES = ROOT / "docs/policies.md", ROOT / "docs/figures.md"
HEADING = "\n## Where the five lose\n"
BEGIN, END = "<!-- papers/losses.py writes from here", "<!-- to here -->"
FIVE = ["ubm", "dulo", "mq", "lru-sp", "clock-pro"]
TRACES = [
    "lirs/cpp.trace.gz", "lirs/cs.trace.gz", "lirs/gli.trace.gz", "lirs/sprite.trace.gz", "lirs/multi1.trace.gz",
    "lirs/multi2.trace.gz", "lirs/multi3.trace.gz", "lirs/2_pools.trace.gz", "lirs/loop.trace.gz", "arc/OLTP.lis.zst",
    "arc/P6.lis.zst", "arc/P12.lis.zst", "block/cloudPhysicsIO.vscsi.zst",
]
# What samples/record_files.sh, samples/record_memory.sh and papers/dulo/record.sh record: no default was chosen by them.
OWN = [
    "file-traces/link.parquet", "file-traces/postgres.parquet", "dulo-traces/diff.parquet", "dulo-traces/files.parquet",
    "dulo-traces/search.parquet", "memory-traces/gnuplot.parquet", "memory-traces/gzip.parquet",
    "memory-traces/matvec.parquet", "memory-traces/sort.parquet",
]
# What is measured; at which sizes, and with which options; the rivals; which of two figures is better; how a loss is shown.
Measure = collections.namedtuple("Measure", "sizes options figure rivals best difference unit")
HITS = Measure(
    sizes=["1%", "5%", "10%", "20%", "30%", "50%"], options=[], figure=lambda run: 100 * run["counted"]["hit_ratio"],
    rivals=[("LRU", "lru"), ("CLOCK", "clock"), ("the best rival", None)], best=max,
    difference=lambda ours, theirs: theirs - ours, unit="")
DEVICE = Measure(
    sizes=["1%", "10%", "30%"], options=["--readahead", "linux:max=128KiB", "--device", "nearline"], figure=lambda run: run["device"]["device_ms"] / 1000,
    rivals=[("`linux`", "linux"), ("LRU", "lru"), ("the best rival", None)], best=min,
    difference=lambda ours, theirs: 100 * (ours / theirs - 1), unit=" s")
COLUMNS = "\n| policy | against | worst | second | third |\n| --- | --- | --- | --- | --- |\n"
EXPLAINED = """
How each works, and what else defeats it: [how the policies work](how/README.md). Why S3-FIFO, LIRS, CLOCK-Pro, MQ and W-TinyLFU have other hits in libCacheSim
and in Caffeine: [differences](differences.md).

The three largest losses of each policy, in points of the hit ratio, on the {traces} traces of `papers/` with caches of 1, 5, 10, 20, 30 and
50 % of their pages. `−3.8: vSCSI at 30 %, 39.4 for 43.2` says: on vSCSI, in a cache of 30 % of its pages, the policy hits 39.4 % of
the references, and the other one 43.2 %.

- The best rival is the best of all other on-line policies.
- `dulo` trades hits for device time.
- `lru-sp` is LRU as long as no application manages its pages.

`papers/losses.py target/release/forebay --traces FOLDER` makes these tables.
"""
OF_OUR_OWN = """
The same on {traces} recorded programs, in pages of 4 KiB. No default was chosen by them. Of linking, PostgreSQL, diff, small files and a text
search the files are recorded; of gnuplot, gzip, a sparse matrix and sort the memory, where 1 % is 2 to 21 pages.
`samples/record_files.sh`, `samples/record_memory.sh` and `papers/dulo/record.sh` record them into the folder of the traces.
"""
WITH_READAHEAD = """
With readahead as Linux has it (`--readahead linux:max=128KiB`), in time of the device `nearline`, on the same {traces} traces with caches of 1, 10 and
30 % of their pages. `+12 %: vSCSI at 10 %, 56.0 s for 50.0` says: the device works for 56.0 s under the policy, and for 50.0 s under the other one.
"""
OF_OUR_OWN_AHEAD = """
The same with readahead on the {traces} recorded programs.
"""


def answer(program, *words):
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


def short(trace):
    name = pathlib.Path(trace).name.split(".")[0]
    return {"cloudPhysicsIO": "vSCSI"}.get(name, name)


def page_size(trace):
    """Only the virtual disk and what we record count in bytes."""
    return ["--page-size", "8KiB"] if "vscsi" in trace else ["--page-size", "4KiB"] if trace in OWN else []


def measured(measure, program, folder, traces, keep):
    """Figures by trace, size and policy."""
    policies = [policy["name"] for policy in json.loads(answer(program, "policies", "--format", "json")) if not policy["off_line"]]
    kept = json.loads(keep.read_text()) if keep and keep.exists() else {}
    figures = kept.setdefault(" ".join(measure.options) or "hits", {})
    for trace in traces:
        of_trace = figures.setdefault(short(trace), {})
        missing = [policy for policy in policies if any(policy not in of_trace.get(size, {}) for size in measure.sizes)]
        if not missing:
            continue
        print(f"{trace}: {len(missing)} policies {' '.join(measure.options)}", file=sys.stderr, flush=True)
        compared = json.loads(answer(
            program, "compare", str(folder / trace), "--policies", ",".join(missing), "--sizes", ",".join(measure.sizes),
            "--threads", "1", "--format", "json", *page_size(trace), *measure.options))
        for run in (compared[0] if isinstance(compared, list) else compared)["runs"]:
            of_trace.setdefault(run["size"], {})[run["policy"]] = measure.figure(run)
        if keep:
            keep.write_text(json.dumps(kept, indent=1))
    return {short(trace): figures[short(trace)] for trace in traces}


def losses(measure, figures, ours, against):
    """The three worst: the difference, where, ours, theirs and whose."""
    found = []
    for trace, sizes in figures.items():
        for size, of in sizes.items():
            rivals = [name for name in of if name != ours] if against is None else [against]
            rival = measure.best(rivals, key=lambda name: of[name])
            found.append((measure.difference(of[ours], of[rival]), f"{trace} at {size.replace('%', ' %')}", of[ours], of[rival], rival))
    return sorted(found, reverse=True)[:3]


def shown(measure, loss, against):
    difference, where, ours, theirs, rival = loss
    if difference < 0.05:
        return "none"
    name = "" if against else f" of `{rival}`"
    by = f"+{difference:.0f} %" if measure.unit else f"−{difference:.1f}"
    return f"{by}: {where}, {ours:,.1f}{measure.unit} for {theirs:,.1f}{name}"


def table(measure, explained, figures):
    rows = []
    for policy in FIVE:
        for title, against in measure.rivals:
            cells = [shown(measure, loss, against) for loss in losses(measure, figures, policy, against)]
            rows.append(f"| `{policy}` | {title} | {' | '.join(cells)} |\n")
    return explained.format(traces=len(figures)) + COLUMNS + "".join(rows)


def lines(ratios):
    """The worst of each policy to LRU, to CLOCK and to the best rival, a line each."""
    of = []
    for policy in FIVE:
        parts = []
        for title, against in HITS.rivals:
            text = shown(HITS, losses(HITS, ratios, policy, against)[0], against)
            parts.append(f"to {title} {text}")
        of.append(f"- `{policy}` " + "; ".join(parts) + ".\n")
    return "".join(of)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the built forebay")
    parser.add_argument("--traces", type=pathlib.Path, help="the folder of the traces")
    parser.add_argument("--keep", type=pathlib.Path, help="a JSON file of the figures, read and written")
    parser.add_argument("--registry", action="store_true", help="keep the losses that the page has now")
    arguments = parser.parse_args()
    if not arguments.registry and not arguments.traces:
        parser.error("--traces FOLDER says where the traces are")
    registry = answer(arguments.program, "policies", "--format", "markdown")
    if arguments.registry:
        PAGE.write_text(registry + HEADING + PAGE.read_text().partition(HEADING)[2])
        return
    missing = [trace for trace in TRACES + OWN if not (arguments.traces / trace).exists()]
    if missing:
        sys.exit(f"not in {arguments.traces}: {', '.join(missing)}")
    ratios, own, ahead, own_ahead = (
        measured(measure, arguments.program, arguments.traces, traces, arguments.keep)
        for measure in (HITS, DEVICE) for traces in (TRACES, OWN))
    tables = [(HITS, EXPLAINED, ratios), (HITS, OF_OUR_OWN, own), (DEVICE, WITH_READAHEAD, ahead), (DEVICE, OF_OUR_OWN_AHEAD, own_ahead)]
    PAGE.write_text(registry + HEADING + "".join(table(*of) for of in tables))
    before, begin, rest = FIGURES.read_text().partition(BEGIN)
    first, _, after = rest.partition("\n")
    _, end, after = after.partition(END)
    if not begin or not end:
        sys.exit(f"docs/figures.md has no lines `{BEGIN} … -->` and `{END}`")
    FIGURES.write_text(before + begin + first + "\n" + lines(ratios) + end + after)


if __name__ == "__main__":
    main()
