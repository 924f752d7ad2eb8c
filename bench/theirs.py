"""libCacheSim's part of `against_libcachesim.py`, a process of its own: replays a trace through policies at sizes, and prints as JSON
what it took.

Usage: theirs.py FILE.oracleGeneral[.zst] POLICY,… PAGES,… [WORKERS [reading]]

Policies go by Forebay's names. With several workers, as many processes share the runs, each with readers of its own:
libCacheSim's package has no other way to use more than one core. With the word `reading`, a pass of the package's own `nop`
cache, which reads the trace and does nothing, is timed too.
"""

import json
import multiprocessing
import sys
import time

started = time.perf_counter()
import libcachesim  # noqa: E402 (its import is timed)
from libcachesim import libcachesim_python as engine  # noqa: E402
from libcachesim.cache import CacheBase  # noqa: E402


def of_engine(name):
    """A policy or cache that the engine has and the package gives no class."""
    initialise = getattr(engine, f"{name}_init")
    return lambda pages: CacheBase(initialise(engine.CommonCacheParams(cache_size=pages)))


def of_package(name):
    make = getattr(libcachesim, name)
    return lambda pages: make(cache_size=pages)


# At the package's defaults, which for 2Q, S3-FIFO and LIRS are the papers' and ours.
POLICIES = {
    "lru": of_package("LRU"),
    "fifo": of_package("FIFO"),
    "clock": of_package("Clock"),
    "sieve": of_package("Sieve"),
    "arc": of_package("ARC"),
    "car": of_engine("CAR"),
    "2q": of_package("TwoQ"),
    "lirs": of_package("LIRS"),
    "mq": of_package("MQ"),
    "s3-fifo": of_package("S3FIFO"),
    "clock-pro": of_package("ClockPro"),
    "opt": of_package("Belady"),
}


def replay(file, make, pages):
    """The miss ratio, and the seconds that setting up the cache and replaying took."""
    parameters = libcachesim.ReaderInitParam(ignore_obj_size=True)
    reader = libcachesim.TraceReader(file, libcachesim.TraceType.ORACLE_GENERAL_TRACE, parameters)
    start = time.perf_counter()
    cache = make(pages)
    miss_ratio, _ = cache.process_trace(reader)
    seconds = time.perf_counter() - start
    return miss_ratio, seconds


def run(job):
    file, policy, pages = job
    miss_ratio, seconds = replay(file, POLICIES[policy], pages)
    return {"policy": policy, "pages": pages, "miss_ratio": miss_ratio, "seconds": seconds}


def main(file, policies, sizes, workers="1", reading=""):
    imported = time.perf_counter()
    answer = {"import": imported - started, "import_cpu": time.process_time()}
    jobs = [(file, policy, int(pages)) for policy in policies.split(",") for pages in sizes.split(",")]
    if int(workers) == 1:
        answer["runs"] = [run(job) for job in jobs]
    else:
        with multiprocessing.Pool(int(workers)) as pool:
            answer["runs"] = pool.map(run, jobs, chunksize=1)
    answer["work"] = time.perf_counter() - imported
    if reading:
        answer["reading"] = replay(file, of_engine("nop"), 1)[1]
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
