"""Forebay against libCacheSim's Python package: the same traces, sizes and policies, in turns in one session.

Usage: against_libcachesim.py FOREBAY [OPTIONS]; run it with target/test-tools/bin/python, which `make tools` makes.

Fails if the two do not miss equally often where they are the same policy. Prints a table for each part, with the bars
beside the ratios, and keeps every figure as JSON in bench/runs/. details.md says what is compared, and how it is fair.
"""

import argparse
import csv
import io
import json
import pathlib
import statistics
import sys

from measure import ROOT, TRACES, keep, machine, program, run, spread, table, zipf

# Held to equal misses; the others are near relations: details.md says where they differ.
EQUAL = {"lru", "fifo", "clock", "sieve", "opt", "mq:lifetime=10000"}
# At least so many times as fast, replay alone. Theirs is the policy before the colon; the parameters make ours the nearest to it.
REPLAY_BARS = {
    **dict.fromkeys(["lru", "clock", "fifo", "sieve"], 15),
    **dict.fromkeys(["arc", "car", "2q", "lirs", "lirs:history=1", "mq", "mq:lifetime=10000", "s3-fifo", "clock-pro"], 8),
    "opt": 10,
}
PROCESS_BAR, SIZES_BAR, GRID_BAR = 4, 15, 10
# At most the time of so many single runs of theirs.
CURVE_BARS = {"lru": 6, "opt": 3}
PAGE_BYTES, REFERENCE_BYTES = 24, 4
GRID_POLICIES = "lru,fifo,clock,sieve,arc,car,2q,lirs,s3-fifo,opt"
GRID_SHARES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)

unequal = []


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("forebay", type=program, help="the program, built with --release")
    parser.add_argument("--parts", default="single,sizes,grid,curves", help="which to run, of single, sizes, grid, curves")
    parser.add_argument("--runs", type=int, default=5, help="how often each is run (5)")
    parser.add_argument("--policies", default=",".join(REPLAY_BARS), help="of the part `single`")
    parser.add_argument("--pages", type=int, default=1_000_000, help="distinct pages of the Zipf trace")
    parser.add_argument("--references", type=int, default=20_000_000, help="its references")
    parser.add_argument("--size", type=int, default=100_000, help="pages of the cache in single runs")
    parser.add_argument("--grid", nargs="*", metavar="TRACE", help="traces of the part `grid` (P6 and P12 of FOREBAY_TRACES)")
    parser.add_argument("--out", help="the file for the raw figures")
    given = parser.parse_args()
    unknown = [part for part in given.parts.split(",") if part not in ("single", "sizes", "grid", "curves")]
    unknown += [policy for policy in given.policies.split(",") if policy not in REPLAY_BARS]
    if unknown:
        parser.error(f"no such part or policy: {', '.join(unknown)}; --help lists the parts, and policies are {', '.join(REPLAY_BARS)}")
    return given


class Ours:
    """Runs of Forebay."""

    def __init__(self, forebay):
        self.forebay = forebay

    def compare(self, trace, policies, sizes, threads=1):
        sizes = ",".join(map(str, sizes))
        command = [self.forebay, "compare", trace, "-p", policies, "-s", sizes, "-t", threads, "-f", "csv"]
        output, took = run(command)
        rows = csv.DictReader(io.StringIO(output))
        kinds = {"policy": str, "pages": int, "references": int, "misses": int, "compulsory_misses": int, "seconds": float}
        took["runs"] = [{key: kind(row[key]) for key, kind in kinds.items()} for row in rows]
        return took

    def held(self, trace, policy, size, footprint):
        """Replays one policy over a trace that is read before: a size in percent of the pages needs to know them all first."""
        run = self.compare(trace, policy, [f"{100 * size / footprint:.12f}%"])["runs"][0]
        assert run["pages"] == size, f"{run['pages']} pages are not {size}"
        return run["seconds"]

    def curve(self, trace, policy):
        """Computes an exact curve."""
        return run([self.forebay, "curve", trace, "-p", policy, "-f", "csv"])[1]

    def misses_on_curve(self, trace, policy, pages):
        """What an exact curve says of one size."""
        output, _ = run([self.forebay, "curve", trace, "-p", policy, "--sizes", pages, "-f", "csv"])
        return next((int(row["misses"]) for row in csv.DictReader(io.StringIO(output)) if int(row["pages"]) == pages), None)

    def has_curve(self):
        return "\n  curve " in run([self.forebay, "--help"])[0]


def nearest(policy):
    """The policy of theirs that one of ours is set against."""
    return policy.split(":")[0]


def theirs(file, policies, sizes, workers=1, reading=False):
    script = pathlib.Path(__file__).with_name("theirs.py")
    words = [file, policies, ",".join(map(str, sizes)), workers, *(["reading"] if reading else [])]
    output, took = run([sys.executable, script, *words])
    return took | json.loads(output)


def in_turns(runs, name, ours, theirs):
    """Runs both sides so many times, in turns, so that a noisy minute meets both."""
    figures = {"name": name, "ours": [], "theirs": []}
    for turn in range(runs):
        print(f"{name}: {turn + 1} of {runs}", file=sys.stderr)
        figures["ours"].append(ours())
        figures["theirs"].append(theirs())
        check_misses(name, figures["ours"][-1]["runs"], figures["theirs"][-1]["runs"])
    return figures


def check_misses(name, ours, theirs):
    miss_ratios = {(run["policy"], run["pages"]): run["miss_ratio"] for run in theirs}
    for run in ours:
        expected = round(miss_ratios[nearest(run["policy"]), run["pages"]] * run["references"])
        if run["policy"] in EQUAL and run["misses"] != expected:
            unequal.append(f"{name}: {run['policy']} of {run['pages']} pages misses {run['misses']}, theirs {expected}")


def median(runs, figure):
    return statistics.median(figure(run) for run in runs)


def cpu_ratio(case):
    """Theirs less its import by ours in processor time, which others who use the machine disturb less than the clock's."""
    mine, other = median(case["ours"], lambda run: run["cpu"]), median(case["theirs"], lambda run: run["cpu"] - run["import_cpu"])
    return f"{other / mine:.1f}"


def verdict(ratio, bar):
    return "yes" if ratio >= bar else "no"


def single(given, ours, file):
    """One policy, one size: replay alone of a trace held in memory, one thread; whole process, ours on all cores; memory."""
    policies = given.policies.split(",")
    # Without a warm-up, as many misses are compulsory as there are pages: a Zipf trace does not reach all that it may.
    pages = ours.compare(file, "fifo", [given.size])["runs"][0]["compulsory_misses"]

    def mine(policy):
        return ours.compare(file, policy, [given.size], threads=0) | {"held": ours.held(file, policy, given.size, pages)}

    cases = [
        in_turns(
            given.runs,
            policy,
            lambda policy=policy: mine(policy),
            lambda policy=policy: theirs(file, nearest(policy), [given.size], reading=True),
        )
        for policy in policies
    ]
    replay = lambda run: run["runs"][0]["seconds"]  # noqa: E731
    without_reading = lambda run: replay(run) - run["reading"]  # noqa: E731
    rate = lambda runs, seconds: spread([given.references / seconds(run) / 1e6 for run in runs], "{:.1f}")  # noqa: E731

    print("\nReplay alone, million references a second\n")
    rows = []
    for case in cases:
        mine, other, bar = case["ours"], case["theirs"], REPLAY_BARS[case["name"]]
        held = median(mine, lambda run: run["held"])
        ratio = median(other, replay) / held
        strict = median(other, without_reading) / held
        our_run, their_run = mine[0]["runs"][0], other[0]["runs"][0]
        miss_ratios = [f"{our_run['misses'] / our_run['references']:.4f}", f"{their_run['miss_ratio']:.4f}"]
        same = round(their_run["miss_ratio"] * our_run["references"]) == our_run["misses"]
        misses = "equal" if same else " / ".join(miss_ratios)
        rows.append(
            [case["name"], rate(mine, lambda run: run["held"]), rate(other, replay), f"{ratio:.1f}", rate(other, without_reading), f"{strict:.1f}"]
            + [f"≥ {bar}", verdict(ratio, bar), verdict(strict, bar), misses]
        )
    head = ["policy", "ours", "theirs", "ratio", "theirs less reading", "ratio", "bar", "met", "met less reading", "miss ratios, ours / theirs"]
    table(head, rows)

    print("\nWhole process, seconds\n")
    rows = []
    for case in cases:
        mine, other = case["ours"], case["theirs"]
        whole, work = ([run[key] for run in other] for key in ("seconds", "work"))
        seconds = [run["seconds"] for run in mine]
        ratio = statistics.median(work) / statistics.median(seconds)
        met = verdict(ratio, PROCESS_BAR)
        rows.append([case["name"], spread(seconds), spread(whole), spread(work), f"{ratio:.1f}", f"≥ {PROCESS_BAR}", met, cpu_ratio(case)])
    table(["policy", "ours", "theirs", "theirs less import", "ratio to that", "bar", "met", "CPU ratio"], rows)

    print("\nPeak memory, MiB\n")
    bound = PAGE_BYTES * pages + REFERENCE_BYTES * given.references
    rows = []
    for case in cases:
        mine, other = ([run["peak"] for run in case[side]] for side in ("ours", "theirs"))
        peak = statistics.median(mine)
        a_page = (peak - REFERENCE_BYTES * given.references) / pages
        mebibytes = [spread([peak / 2**20 for peak in peaks], "{:.0f}") for peaks in (mine, other)]
        rows.append([case["name"], *mebibytes, f"{a_page:.1f}", f"≤ {PAGE_BYTES}", "yes" if peak <= bound else "no"])
    table(["policy", "ours", "theirs", f"ours, bytes a page above {REFERENCE_BYTES} a reference", "bar", "met"], rows)
    return cases


def many(name, case, bar):
    """A row for many runs in one process; theirs less its import."""
    mine, other = [run["seconds"] for run in case["ours"]], [run["work"] for run in case["theirs"]]
    peaks = [spread([run["peak"] / 2**20 for run in case[side]], "{:.0f}") for side in ("ours", "theirs")]
    ratio = statistics.median(other) / statistics.median(mine)
    return [name, spread(mine), spread(other), f"{ratio:.1f}", f"≥ {bar}", verdict(ratio, bar), cpu_ratio(case), *peaks]


MANY_HEAD = ["what", "ours, s", "theirs, s", "ratio", "bar", "met", "CPU ratio", "ours, MiB", "theirs, MiB"]


def sizes(given, ours, file):
    """LRU at 20 sizes, from a twentieth of the pages to all, one thread, whole process."""
    pages = [max(1, given.pages * step // 20) for step in range(1, 21)]
    case = in_turns(given.runs, "20 LRU sizes", lambda: ours.compare(file, "lru", pages), lambda: theirs(file, "lru", pages))
    print("\n20 LRU sizes, one thread, whole process\n")
    table(MANY_HEAD, [many("20 LRU sizes", case, SIZES_BAR)])
    return [case]


def grid(given, ours):
    """10 policies at 10 sizes on real traces from compressed files, two cores, whole process."""
    cases, rows = [], []
    for trace in given.grid if given.grid is not None else [TRACES / "arc" / f"{name}.lis.zst" for name in ("P6", "P12")]:
        name = pathlib.Path(trace).name.split(".")[0]
        if given.grid is None and not trace.exists():
            print(f"\n{name}: skipped, for want of {trace}; FOREBAY_TRACES names the folder of the traces")
            continue
        file = ROOT / "target" / "bench-traces" / f"{name}.oracleGeneral.zst"
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            run([ours.forebay, "convert", trace, file])
        footprint = json.loads(run([ours.forebay, "compare", trace, "-p", "fifo", "-s", "1", "-f", "json"])[0])[0]["footprint_pages"]
        pages = [max(2, int(footprint * share)) for share in GRID_SHARES]
        case = in_turns(
            given.runs,
            name,
            lambda: ours.compare(trace, GRID_POLICIES, pages, threads=2),
            lambda: theirs(file, GRID_POLICIES, pages, workers=2),
        )
        cases.append(case)
        rows.append(many(name, case, GRID_BAR))
    print("\n10 policies × 10 sizes, two cores, whole process\n")
    table(MANY_HEAD, rows)
    return cases


def curves(given, ours, file):
    """Exact curves over all sizes, whole process, against single runs of theirs."""
    print("\nExact curves over all sizes, whole process\n")
    if not ours.has_curve():
        print(f"Skipped: `{ours.forebay}` has no command `curve`.")
        return []
    cases, rows = [], []
    for policy, bar in CURVE_BARS.items():
        print(f"{policy} curve", file=sys.stderr)
        case = {"name": f"{policy} curve", "ours": [], "theirs": []}
        for _ in range(given.runs):
            case["ours"].append(ours.curve(file, policy))
            case["theirs"].append(theirs(file, policy, [given.size]))
        misses = ours.misses_on_curve(file, policy, given.size)
        expected = round(case["theirs"][0]["runs"][0]["miss_ratio"] * given.references)
        if misses != expected:
            unequal.append(f"{policy} curve: {misses} misses at {given.size} pages, theirs {expected}")
        seconds, single = [run["seconds"] for run in case["ours"]], [run["runs"][0]["seconds"] for run in case["theirs"]]
        runs = statistics.median(seconds) / statistics.median(single)
        rows.append([policy, spread(seconds), spread(single), f"{runs:.2f}", f"≤ {bar}", "yes" if runs <= bar else "no"])
        cases.append(case)
    table(["policy", "ours, all sizes, s", "theirs, one size, s", "in runs of theirs", "bar", "met"], rows)
    return cases


def main():
    given = options()
    parts = given.parts.split(",")
    ours = Ours(given.forebay)
    figures = {"machine": machine(), "parts": {}}
    file = zipf(ours.forebay, given.pages, given.references)
    if "single" in parts:
        figures["parts"]["single"] = single(given, ours, file)
    if "sizes" in parts:
        figures["parts"]["sizes"] = sizes(given, ours, file)
    if "grid" in parts:
        figures["parts"]["grid"] = grid(given, ours)
    if "curves" in parts:
        figures["parts"]["curves"] = curves(given, ours, file)
    keep("against-libcachesim", given, figures)
    if unequal:
        sys.exit("\n".join(["The same policies do not miss equally often:", *unequal]))


if __name__ == "__main__":
    main()
