"""The pool as a library beside caches that others made: lookups a second of 4 KiB pages, with misses and with hits alone.

Usage: against_caches.py [OPTIONS]; builds with cargo what it runs.

Zipf(0.99) over a million pages, room for 100,000. All caches fetch what they miss from the same memory, and add up a byte of each page: the
sums must be equal. The pool pins each page while it is read, the others hold an `Arc` of it. They run in turns on threads bound to
cores of their own. Keeps every figure as JSON in bench/runs/.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tomllib

from measure import ROOT, keep, machine, spread, table

PEERS = ["quick_cache", "moka"]
OURS = "pool:clock-pro"
LEAST_OF_PEER = 0.8
LEAST_OF_SECOND_THREAD = 1.6


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured")
    parser.add_argument("--lookups", type=int, default=2_000_000, help="lookups of each thread with misses; of hits alone four times as many")
    parser.add_argument("--pages", type=int, default=1_000_000, help="pages there are")
    parser.add_argument("--room", type=int, default=100_000, help="pages that fit")
    parser.add_argument("--caches", help="which: quick_cache, moka, mutex-lru, pool:POLICY")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that it works")
    parser.add_argument("--out", help="the file for the raw figures")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.lookups, given.pages, given.room = 1, 100_000, 100_000, 10_000
    return given


def measured(given):
    command = ["cargo", "bench", "--locked", "-p", "forebay-bench", "--bench", "against_caches", "--"]
    for name in ["rounds", "lookups", "pages", "room", "caches"]:
        if (value := getattr(given, name)) is not None:
            command += [f"--{name}", str(value)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"`{' '.join(command)}` failed with exit code {done.returncode}: see above")
    return json.loads(done.stdout)


def versions():
    packages = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    return {package["name"]: package["version"] for package in packages if package["name"] in ("quick_cache", "moka", "lru")}


def show(runs, setting):
    """A table of a setting, and the pool's medians by threads in relation to the faster peer's."""
    of_setting = [run for run in runs if run["setting"] == setting]
    caches = list(dict.fromkeys(run["cache"] for run in of_setting))
    threads = sorted({run["threads"] for run in of_setting})

    def speeds(cache, count):
        return [run["lookups"] / run["seconds"] / 1e6 for run in of_setting if (run["cache"], run["threads"]) == (cache, count)]

    median = {(cache, count): statistics.median(speeds(cache, count)) for cache in caches for count in threads}
    faster = {count: max((median[peer, count] for peer in PEERS if (peer, count) in median), default=None) for count in threads}
    rows = []
    for cache in caches:
        row = [cache]
        for count in threads:
            ratio = f"{median[cache, count] / faster[count]:.2f}" if faster[count] else "-"
            row += [spread(speeds(cache, count)), ratio]
        row.append(f"{median[cache, threads[-1]] / median[cache, threads[0]]:.2f}")
        one = [run for run in of_setting if run["cache"] == cache and run["threads"] == threads[0]]
        row.append(spread([run["processor_seconds"] / run["lookups"] * 1e9 for run in one], "{:.0f}"))
        row.append(f"{1 - sum(run['misses'] for run in one) / sum(run['lookups'] for run in one):.4f}")
        rows.append(row)
    columns = [word for count in threads for word in (f"{count} thread{'s' * (count > 1)}, M/s", "of the faster peer")]
    print(f"\n{setting}:\n")
    table([setting, *columns, f"{threads[-1]} threads by {threads[0]}", "processor ns a lookup, 1 thread", "hit ratio"], rows)
    return median, faster, threads


def main():
    given = options()
    figures = {"machine": machine(), "versions": versions(), "runs": measured(given)}
    bars = {}
    for setting in ["misses", "hits"]:
        median, faster, threads = show(figures["runs"], setting)
        if any((OURS, count) not in median for count in threads):
            continue
        for count in threads:
            if faster[count]:
                bars[f"{setting}, {count} threads: of the faster peer"] = (median[OURS, count] / faster[count], LEAST_OF_PEER)
        if setting == "hits" and {1, 2} <= set(threads):
            bars["hits: 2 threads by 1"] = (median[OURS, 2] / median[OURS, 1], LEAST_OF_SECOND_THREAD)
    print(f"\n{OURS}:\n")
    table(["bar", "reached", "least", "met"], [[name, f"{got:.2f}", least, "yes" if got >= least else "no"] for name, (got, least) in bars.items()])
    figures["bars"] = [{"bar": name, "reached": got, "least": least} for name, (got, least) in bars.items()]
    keep("pool-against-caches", given, figures)


if __name__ == "__main__":
    main()
