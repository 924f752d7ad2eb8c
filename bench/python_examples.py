#!/usr/bin/env python3
"""What the documentation of libcachesim's Python package shows, with it and with ours: lines and seconds.

Run it in an environment that has both, as at the head of python_speed.py:

    /tmp/forebay/bin/python bench/python_examples.py target/dist/forebay

Each example is written here as short as either package allows, one statement a line, and counted without its `import`s. Both are run in turns in each
round, in this process, with the same trace; the figures are the medians. An example of ours is to have no more lines, and to take less time. Where both answer
the same question of the same policy, the answers are held to be equal. `--quick` shows in a minute that it works, and gives no figure to quote.

libcachesim opens traces of many sizes of objects, and has admission policies and time-outs: their examples have no counterpart among fixed-size pages.
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time

import measure

#: Each: title, theirs, ours, and how far the two values of `answer` may be apart; None: they are of different kinds.
EXAMPLES = [
    (
        "a policy over a trace",
        """
reader = lcs.TraceReader(TRACE, lcs.TraceType.ORACLE_GENERAL_TRACE, lcs.ReaderInitParam(ignore_obj_size=True))
cache = lcs.LRU(cache_size=0.1, reader=reader)
answer, _ = cache.process_trace(reader)
""",
        """
answer = forebay.compare(TRACE, "lru", "10%").to_arrow()["miss_ratio"][0].as_py()
""",
        1e-4,
    ),
    (
        "one with parameters",
        """
reader = lcs.TraceReader(TRACE, lcs.TraceType.ORACLE_GENERAL_TRACE, lcs.ReaderInitParam(ignore_obj_size=True))
cache = lcs.S3FIFO(cache_size=0.1, small_size_ratio=0.2, ghost_size_ratio=0.8, move_to_main_threshold=2, reader=reader)
answer, _ = cache.process_trace(reader)
""",
        """
answer = forebay.compare(TRACE, "s3-fifo:small=0.2:ghost=0.8", "10%").to_arrow()["miss_ratio"][0].as_py()
""",
        0.02,
    ),
    (
        "the first 1,000 requests",
        """
reader = lcs.TraceReader(TRACE, lcs.TraceType.ORACLE_GENERAL_TRACE, lcs.ReaderInitParam(ignore_obj_size=True))
cache = lcs.S3FIFO(cache_size=100)
answer, _ = cache.process_trace(reader, start_req=0, max_req=1000)
""",
        """
trace = forebay.Trace.read(TRACE).only(first=1000)
answer = forebay.compare(trace, "s3-fifo", 100).to_arrow()["miss_ratio"][0].as_py()
""",
        0.02,
    ),
    (
        "a made-up trace",
        """
reader = lcs.SyntheticReader(num_objects=1000, num_of_req=REQUESTS, obj_size=1, alpha=1.0, dist="zipf")
answer, _ = lcs.LRU(128).process_trace(reader)
""",
        """
trace = f"zipf:pages=1000,references={REQUESTS},alpha=1.0"
answer = forebay.compare(trace, "lru", 128).to_arrow()["miss_ratio"][0].as_py()
""",
        0.02,
    ),
    (
        "an LRU of one's own",
        """
cache = lcs.PluginCache(
    cache_size=128,
    cache_init_hook=lambda _: collections.OrderedDict(),
    cache_hit_hook=lambda data, request: data.move_to_end(request.obj_id),
    cache_miss_hook=lambda data, request: data.__setitem__(request.obj_id, request.obj_size),
    cache_eviction_hook=lambda data, _: data.popitem(last=False)[0],
    cache_remove_hook=lambda data, number: data.pop(number, None),
    cache_free_hook=lambda data: data.clear(),
    cache_name="LRU in Python",
)
reader = lcs.SyntheticReader(num_objects=1000, num_of_req=REQUESTS, obj_size=1, alpha=1.0, dist="zipf")
answer, _ = cache.process_trace(reader)
""",
        """
class LRU(collections.OrderedDict):
    __init__ = lambda self, capacity: None
    hit = collections.OrderedDict.move_to_end
    miss = lambda self, page: self.__setitem__(page, None)
    evict = lambda self, page: self.popitem(last=False)[0]
    remove = collections.OrderedDict.pop
trace = f"zipf:pages=1000,references={REQUESTS},alpha=1.0"
answer = forebay.compare(trace, LRU, 128).to_arrow()["miss_ratio"][0].as_py()
""",
        0.02,
    ),
    (
        "how much a trace touches",
        """
reader = lcs.TraceReader(TRACE, lcs.TraceType.ORACLE_GENERAL_TRACE, lcs.ReaderInitParam(ignore_obj_size=True))
answer, _ = reader.get_working_set_size()
""",
        """
answer = forebay.Trace.read(TRACE).info()["pages"]
""",
        0,
    ),
    (
        "what a trace is like",
        """
reader = lcs.TraceReader(TRACE, lcs.TraceType.ORACLE_GENERAL_TRACE, lcs.ReaderInitParam(ignore_obj_size=False))
analyzer = lcs.TraceAnalyzer(reader, "analysis")
analyzer.run()
answer = open("stat").read()
""",
        """
answer = forebay.analyze(TRACE, only="footprint,space-time,request-length,temporal-distance,frequency").to_arrow()
""",
        None,
    ),
]


def lines(example):
    return len(example.strip().splitlines())


@contextlib.contextmanager
def silent():
    """Their analyzer writes what it found to the standard output, from C."""
    sys.stdout.flush()
    kept, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nothing)


def run(example, names):
    """The seconds of an example, and its answer."""
    code, space = compile(example.strip(), "example", "exec"), dict(names)
    start = time.perf_counter()
    with silent():
        exec(code, space)
    return time.perf_counter() - start, space["answer"]


def main(given):
    import collections

    import libcachesim as lcs

    import forebay

    trace = measure.zipf(given.forebay, given.pages, given.references)
    names = {"TRACE": str(trace), "REQUESTS": given.requests, "lcs": lcs, "forebay": forebay, "collections": collections}
    machine, rows, failed = measure.machine(), {}, []
    os.chdir(tempfile.mkdtemp(prefix="forebay-examples-"))
    for number in range(given.rounds):
        for title, theirs, ours, apart in EXAMPLES:
            row = rows.setdefault(title, {"lines": {"ours": lines(ours), "theirs": lines(theirs)}, "seconds": {"ours": [], "theirs": []}})
            answers = {}
            for whose, example in (("ours", ours), ("theirs", theirs)) if number % 2 else (("theirs", theirs), ("ours", ours)):
                seconds, answers[whose] = run(example, names)
                row["seconds"][whose].append(seconds)
            if apart is not None and abs(answers["ours"] - answers["theirs"]) > apart:
                sys.exit(f"{title}: ours answers {answers['ours']}, theirs {answers['theirs']}")
    for title, row in rows.items():
        ours, theirs = (statistics.median(row["seconds"][whose]) for whose in ("ours", "theirs"))
        met = row["lines"]["ours"] <= row["lines"]["theirs"] and ours < theirs
        failed += [] if met else [title]
        print(
            f"{title:<26} lines {row['lines']['ours']:>2} to {row['lines']['theirs']:>2}, seconds {ours:.4g} to {theirs:.4g}, "
            f"{theirs / ours:.3g} times as fast: {'met' if met else 'NOT MET'}"
        )
    if not given.quick:
        measure.keep("python-examples", given, {"machine": machine, "rows": rows})
    # A short round says nothing of speed.
    return 1 if failed and not given.quick else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forebay", type=measure.program, help="the command, of the same build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pages", type=int, default=1_000_000, help="of the trace")
    parser.add_argument("--references", type=int, default=20_000_000, help="of the trace")
    parser.add_argument("--requests", type=int, default=1_000_000, help="of what is made up")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that it works")
    parser.add_argument("--out", help="the file for the raw figures")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.pages, given.references, given.requests = 1, 100_000, 1_000_000, 20_000
    given.out = given.out and os.path.abspath(given.out)
    sys.exit(main(given))
