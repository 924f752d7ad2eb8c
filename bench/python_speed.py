#!/usr/bin/env python3
"""The Python package against the command, functools, cachetools and libcachesim, in turns.

    make wheel
    python3 -m venv /tmp/forebay && /tmp/forebay/bin/pip install target/wheels/*$(uname -m).whl cachetools distributed libcachesim==0.3.5
    /tmp/forebay/bin/python bench/python_speed.py target/dist/forebay

The program is of the same build as the package: `make wheel` makes both with the profile `dist` (the program as
target/*-linux-musl/dist/forebay). Each figure is the median of the rounds; the two of a row are measured one after the other in each
round. `--quick` shows in a minute that it works, and gives no figure to quote.
"""

import argparse
import collections
import functools
import statistics
import subprocess
import sys
import time

import measure

TRACE = "arc/P6.lis.zst"
#: What is asked of it.
POLICIES, SIZES = "lru,arc,lirs,clock-pro,mq,s3-fifo", "1%,2%,5%,10%,20%"


class PlainLRU:
    """An LRU as a newcomer writes it."""

    def __init__(self, capacity):
        self.pages = collections.OrderedDict()

    def hit(self, page):
        self.pages.move_to_end(page)

    def miss(self, page):
        self.pages[page] = None

    def evict(self, page):
        return self.pages.popitem(last=False)[0]

    def remove(self, page):
        del self.pages[page]


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def processor_seconds(work):
    """The same of the processor, for work of one thread alone: what others do on the machine counts less."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def started():
    """What starting the command and nothing else takes."""
    return seconds(lambda: subprocess.run([given.forebay, "--version"], stdout=subprocess.DEVNULL, check=True))


def compare():
    """`compare` on P6: ours from Python, theirs the command without the time of its start."""
    trace = measure.TRACES / TRACE
    ours = seconds(lambda: forebay.compare(trace, POLICIES, SIZES))
    command = [given.forebay, "compare", trace, "-p", POLICIES, "-s", SIZES, "-f", "csv"]
    theirs = seconds(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True)) - started()
    return ours, theirs


def from_numpy():
    """Keys of an array to a first hit ratio: ours from Python, theirs the command on the same references in a file."""
    file = measure.zipf(given.forebay, 1_000_000, given.references)
    if "keys" not in kept:
        table = forebay.Trace.read(file).to_arrow()
        kept["keys"] = table.column("offset").to_numpy()
        kept["file"] = file
    ours = seconds(lambda: forebay.compare(forebay.Trace.from_numpy(kept["keys"]), "lru", 100_000))
    command = [given.forebay, "compare", file, "-p", "lru", "-s", "100000", "-f", "csv"]
    theirs = seconds(lambda: subprocess.run(command, stdout=subprocess.DEVNULL, check=True))
    return ours, theirs


def keys(count):
    if "zipf" not in kept:
        table = forebay.Trace.synthetic(f"zipf:pages=100k,references={given.keys},alpha=1.0").to_arrow()
        kept["zipf"] = table.column("offset").to_pylist()
    return kept["zipf"][:count]


def access():
    """Accesses a second: ours of Cache("clock-pro"), theirs of cachetools.LRUCache with what a use of it takes."""
    import cachetools

    all = keys(given.keys)
    access = forebay.Cache("clock-pro", 10_000).access

    def ours():
        for key in all:
            access(key)

    def theirs():
        cache = cachetools.LRUCache(10_000)
        for key in all:
            try:
                cache[key]
            except KeyError:
                cache[key] = None

    return len(all) / processor_seconds(ours), len(all) / processor_seconds(theirs)


def cached():
    """Nanoseconds of a hit: ours of @cached, theirs of functools.lru_cache."""
    times = []
    for decorate in (forebay.cached(policy="clock-pro", maxsize=1000), functools.lru_cache(maxsize=1000)):
        function = decorate(lambda number: number)
        numbers = list(range(500)) * (given.keys // 500)
        for number in range(500):
            function(number)

        def calls():
            for number in numbers:
                function(number)

        def nothing():
            for number in numbers:
                pass

        times.append((processor_seconds(calls) - processor_seconds(nothing)) / len(numbers) * 1e9)
    return tuple(times)


def policy():
    """References a second of an LRU in 20 lines of Python; theirs is libcachesim's plugin cache with the same class."""
    references = given.keys
    trace = forebay.Trace.synthetic(f"zipf:pages=100k,references={references},alpha=1.0")
    if "numbers" not in kept:
        kept["numbers"] = forebay.Trace.from_keys(trace.to_arrow().column("offset").to_pylist())
    [row] = forebay.compare(kept["numbers"], [PlainLRU], [10_000]).to_arrow().to_pylist()
    [same] = forebay.compare(kept["numbers"], ["lru"], [10_000]).to_arrow().to_pylist()
    assert row["hits"] == same["hits"], "the policy in Python is no LRU"
    return references / row["seconds"], plugin(keys(references))


def plugin(numbers):
    """libcachesim's plugin cache, on the requests that it takes one by one."""
    import libcachesim

    request = libcachesim.Request()
    cache = libcachesim.PluginCache(
        10_000,
        cache_init_hook=lambda params: PlainLRU(10_000),
        cache_hit_hook=lambda policy, request: policy.hit(request.obj_id),
        cache_miss_hook=lambda policy, request: policy.miss(request.obj_id),
        cache_eviction_hook=lambda policy, request: policy.evict(None),
        cache_remove_hook=lambda policy, number: policy.remove(number),
        cache_free_hook=lambda policy: None,
        cache_name="PlainLRU",
    )

    def run():
        request.obj_size = 1
        for number in numbers:
            request.obj_id = number
            cache.get(request)

    return len(numbers) / processor_seconds(run)


def sweep():
    """A grid of 200 over four traces: ours on 4 workers of Dask, theirs in one process with 2 threads. The cluster is started before."""
    # Others in each round: workers hold what they have read.
    first = kept["seed"] = kept.get("seed", 0) + 4
    traces = [f"zipf:pages=200k,references={given.keys},seed={seed}" for seed in range(first, first + 4)]
    sizes = ["0.5%", "1%", "2%", "3%", "5%", "7%", "10%", "20%", "30%", "50%"]
    policies = ["lru", "arc", "lirs", "clock-pro", "mq"]
    if "client" not in kept:
        import distributed

        cluster = distributed.LocalCluster(n_workers=4, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1")
        kept["client"] = distributed.Client(cluster)
        kept["cluster"] = cluster
        kept["client"].wait_for_workers(4, timeout=60)
        # What they import is no part of it.
        kept["client"].run(lambda: __import__("forebay").policies())
    client, answers = kept["client"], {}
    ours = seconds(lambda: answers.update(ours=forebay.sweep(traces, policies, sizes, client=client)))
    theirs = seconds(lambda: answers.update(theirs=forebay.compare(traces, policies, sizes, threads=2)))
    ours_hits, their_hits = (answers[whose].to_arrow().column("hits") for whose in ("ours", "theirs"))
    assert len(ours_hits) == 200 and ours_hits == their_hits, "the sweep has other hits"
    return ours, theirs


#: Each row: what it is, how it is measured, whether ours is to be less than so many times theirs, or more, and the bar of ours alone.
ROWS = {
    "compare": (compare, "s", "<", 1.05, None),
    "from-numpy": (from_numpy, "s", "<", 1.5, None),
    "access": (access, "/s", ">", 3.0, 3e6),
    "cached": (cached, "ns", "<", 2.5, None),
    "policy": (policy, "/s", ">", None, 0.7e6),
    "sweep": (sweep, "s", "<", 1.15, None),
}


def main():
    machine, figures = measure.machine(), {}
    for number in range(given.rounds):
        for name in given.rows:
            ours, theirs = ROWS[name][0]()
            figures.setdefault(name, {"ours": [], "theirs": []})
            figures[name]["ours"].append(ours)
            figures[name]["theirs"].append(theirs)
            print(f"round {number + 1}: {name:<10} {ours:14.4g} {theirs:14.4g} {ROWS[name][1]}", file=sys.stderr)
    for name, both in figures.items():
        _, unit, side, bar, alone = ROWS[name]
        ours, theirs = (statistics.median(both[whose]) for whose in ("ours", "theirs"))
        met = (bar is None or (ours <= bar * theirs if side == "<" else ours >= bar * theirs)) and (alone is None or ours >= alone)
        bars = [f"{side} {bar} x theirs"] if bar else []
        bars += [f"> {alone:g}{unit}"] if alone else []
        print(f"{name:<10} ours {ours:.4g} {unit}, theirs {theirs:.4g} {unit}, ratio {ours / theirs:.3g} ({', '.join(bars)}): {'met' if met else 'NOT MET'}")
    if not given.quick:
        measure.keep("python-speed", given, {"machine": machine, "rows": figures})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forebay", type=measure.program, help="the command, of the same build")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS), help="what to measure; all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--references", type=int, default=20_000_000, help="of the array of keys")
    parser.add_argument("--keys", type=int, default=2_000_000, help="of the caches")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that it works")
    parser.add_argument("--out", help="the file for the raw figures")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.references, given.keys = 1, 1_000_000, 100_000
    kept = {}
    import forebay

    try:
        main()
    finally:
        # Else it is torn down while the interpreter ends, with a log of lost connections.
        for each in ("client", "cluster"):
            if each in kept:
                kept[each].close(timeout=30)
