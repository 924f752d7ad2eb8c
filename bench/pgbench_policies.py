"""Policies of `forebay serve` under PostgreSQL: hit ratios and transactions a second at three cache sizes on a disk-like device, and what
the simulator forecasts from the recorded references. It is MQ's experiment (Zhou, Philbin, Li, USENIX 2001, section 6: Table 4,
Figure 7) with pgbench's mix, which is TPC-B's, in the place of TPC-C.

Usage: /usr/bin/python3 pgbench_policies.py FOREBAY [OPTIONS], as root; needs what tests/volumes/postgresql.py needs.

The volume is a loop device on nbdfuse with ext4, and has the database without its log, as in the paper. What PostgreSQL does not find in its 16 MB of
shared buffers it would find in the system's page cache: a control group bounds that, so that the server's cache is a second level.
Each run begins with a copy of the same database. Keeps every figure as JSON in bench/runs/.
"""

import argparse
import contextlib
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

import serving
from measure import keep, machine, program, spread, table
from serving import KIB, MIB
from volumes import mounted, postgresql
from volumes.checks import Failed, Skipped, run
from volumes.server import Server, Volume, make_volume

PAGE = 4 * KIB
# No vacuum and no checkpoint falls into one run and not into another.
SETTINGS = ["autovacuum=off", "checkpoint_timeout=1h", "max_wal_size=4GB", "max_connections=20"]
MOST_POINTS = 2.0


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("forebay", type=program, help="the program, built with --release")
    parser.add_argument("--policies", default="mq,lru,arc,clock-pro", help="which")
    parser.add_argument("--sizes", default="8,16,32", help="MiB of the cache: what is filled in the time to warm up")
    parser.add_argument("--delay", default="ultrastar-18zx", help="the disk: a preset of `forebay devices`, or a TOML file")
    parser.add_argument("--mode", default="write-through", help="of the volume: the paper's, or write-back")
    parser.add_argument("--scale", type=int, default=15, help="of pgbench: about 15 MiB each")
    parser.add_argument("--clients", type=int, default=8, help="connections of pgbench")
    parser.add_argument("--memory", type=int, default=40, help="MiB for PostgreSQL and its part of the page cache, shared buffers included")
    parser.add_argument("--warmup", type=int, default=25, help="seconds before what is measured")
    parser.add_argument("--seconds", type=int, default=35, help="of what is measured")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is measured")
    parser.add_argument("--keep-traces", metavar="FOLDER", help="where the recorded references of each run are kept, for forebay compare")
    parser.add_argument("--quick", action="store_true", help="two policies in a small cache for seconds, to see that it works")
    parser.add_argument("--out", help="the file for the raw figures")
    given = parser.parse_args()
    if given.quick:
        given.policies, given.sizes, given.scale, given.warmup, given.seconds = "mq,lru", "8", 3, 5, 5
    return given


class MemoryLimit:
    """A control group of either version, for programs started `within` it: their memory, page cache included, is bounded."""

    def __init__(self, bytes):
        root = pathlib.Path("/sys/fs/cgroup")
        first = (root / "memory").is_dir()
        # Where this process is; the second version has one hierarchy, without a name.
        lines = [line.split(":", 2) for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()]
        own = next(path for _, names, path in lines if (names == "memory" if first else names == ""))
        root = root / "memory" if first else root
        self.home, self.group = root / own.lstrip("/"), root / f"forebay-bench-{os.getpid()}"
        if not self.home.is_dir():
            self.home = root
        try:
            self.group.mkdir(exist_ok=True)
            (self.group / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(bytes))
        except OSError as error:
            sys.exit(f"no control group bounds memory here, so that the page cache would hold the whole database: {error}")

    @contextlib.contextmanager
    def within(self):
        """What is started now is in the group, and its children are."""
        (self.group / "cgroup.procs").write_text("0")
        try:
            yield
        finally:
            (self.home / "cgroup.procs").write_text("0")

    def remove(self):
        # The group goes when its last process has.
        for _ in range(100):
            try:
                return self.group.rmdir()
            except OSError:
                time.sleep(0.05)


class Database:
    """A database on an image, made once, and copied for each run with its log, which lies beside the volume."""

    def __init__(self, given, folder):
        self.given, self.folder = given, folder
        self.log, self.kept = folder / "log", folder / "kept"
        self.volume = make_volume(folder, "volume", (given.scale * 20 + 384) * MIB)
        data = folder / "mounted" / "data"
        undelayed = serving.Forebay(given.forebay)
        with Server(undelayed, folder, self.volume, cache="512MiB") as server, mounted.LoopDevice(server.uri("volume"), folder) as loop:
            run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", loop.device)
            loop.mount()
            run("install", "-d", "-o", postgresql.USER, "-m", "700", data)
            run("install", "-d", "-o", postgresql.USER, "-m", "700", self.log)
            with self.postgres() as postgres:
                postgres.run("initdb", "--pgdata", data, "--waldir", self.log, "--auth=trust", "--locale=C", "--encoding=UTF8")
                postgres.start()
                postgres.on_bench("createdb")
                postgres.on_bench("pgbench", "--initialize", "--quiet", f"--scale={given.scale}")
                self.size = int(postgres.ask("select pg_database_size('bench')"))
                postgres.stop(signal.SIGINT)
            loop.umount()
            server.stop()
        self.kept.mkdir()
        self.volume.path.rename(self.kept / "volume.img")
        shutil.move(self.log, self.kept / "log")

    def postgres(self):
        return postgresql.Postgres(self.folder / "mounted" / "data", self.folder / "sockets", *SETTINGS)

    def copy(self):
        shutil.rmtree(self.log, ignore_errors=True)
        run("cp", "--archive", self.kept / "log", self.log)
        run("cp", "--sparse=always", self.kept / "volume.img", self.volume.path)
        return Volume(self.volume.path, mode=self.given.mode, readahead="0")


def pgbench(postgres, given, seconds, seed):
    """Transactions a second of the default mix."""
    command = ["--client", given.clients, "--jobs", "2", "--time", seconds, "--random-seed", seed, "--no-vacuum"]
    return float(re.search(r"^tps = ([\d.]+)", postgres.on_bench("pgbench", *command), re.M)[1])


def measure(given, database, policy, size):
    trace = database.folder / "references.parquet"
    trace.unlink(missing_ok=True)
    program = serving.Forebay(given.forebay, "--policy", policy, "--delay", given.delay, "--record", trace)
    with Server(program, database.folder, database.copy(), cache=f"{size}MiB") as server:
        with mounted.LoopDevice(server.uri("volume"), database.folder) as loop, database.postgres() as postgres:
            loop.mount()
            limit = MemoryLimit(given.memory * MIB)
            try:
                with limit.within():
                    postgres.start()
                pgbench(postgres, given, given.warmup, seed=1)
                before = program.cache()
                rate = pgbench(postgres, given, given.seconds, seed=2)
                after = program.cache()
                postgres.stop(signal.SIGQUIT)
            finally:
                limit.remove()
            loop.umount()
        last = program.figures()
        if server.stop():
            sys.exit(f"the server failed: {server.told()}")
    (last_cache,) = last["caches"]
    if last["record_lost"]:
        sys.exit(f"{last['record_lost']} references came too fast to be recorded")
    if given.keep_traces:
        pathlib.Path(given.keep_traces).mkdir(parents=True, exist_ok=True)
        shutil.copy(trace, pathlib.Path(given.keep_traces) / f"pgbench-{policy.replace(':', '-')}-{size}.parquet")
    frames = size * MIB // PAGE
    # A 32nd of the frames is the laundry's.
    (forecast,) = serving.compare(given.forebay, trace, [policy], frames - max(frames // 32, 1), "--page-size", PAGE)
    return {
        "transactions_per_second": rate,
        "hit_ratio": serving.ratio(before, after),
        "references": after["hits"] + after["misses"] - before["hits"] - before["misses"],
        "whole_hit_ratio": serving.ratio({"hits": 0, "misses": 0}, last_cache),
        "whole_references": last_cache["hits"] + last_cache["misses"],
        "forecast_hit_ratio": forecast["total"]["hit_ratio"],
        "forecast_references": forecast["total"]["references"],
        "caches": {"before": before, "after": after},
    }


def show(given, runs):
    policies, sizes = given.policies.split(","), given.sizes.split(",")

    def figures(policy, size, what, scale=1):
        return [run[what] * scale for run in runs if (run["policy"], run["mib"]) == (policy, int(size))]

    print("\nHit ratio of the server's cache in percent while measured (Table 4):\n")
    table(["MiB", *policies], [[size, *(spread(figures(policy, size, "hit_ratio", 100)) for policy in policies)] for size in sizes])
    print("\nTransactions a second (Figure 7), and by LRU's in the smallest cache:\n")
    least = statistics.median(figures("lru", sizes[0], "transactions_per_second")) if "lru" in policies else None
    rows = []
    for size in sizes:
        rates = [figures(policy, size, "transactions_per_second") for policy in policies]
        normal = [f"{statistics.median(rate) / least:.2f}" if least else "-" for rate in rates]
        rows.append([size, *(spread(rate, "{:.1f}") + f" ({one})" for rate, one in zip(rates, normal))])
    table(["MiB", *policies], rows)
    print(f"\nHit ratio in percent from start to end, measured / forecast by the simulator; within {MOST_POINTS:.0f} points is met:\n")
    cells = lambda policy, size: zip(figures(policy, size, "whole_hit_ratio", 100), figures(policy, size, "forecast_hit_ratio", 100))  # noqa: E731
    rows = [[size, *("; ".join(f"{got:.2f} / {forecast:.2f}" for got, forecast in cells(policy, size)) for policy in policies)] for size in sizes]
    table(["MiB", *policies], rows)
    farthest = max(abs(run["whole_hit_ratio"] - run["forecast_hit_ratio"]) * 100 for run in runs)
    print(f"\nThe farthest forecast is {farthest:.2f} points off: {'met' if farthest <= MOST_POINTS else 'not met'}.")
    return farthest


def main():
    given = options()
    serving.need(*mounted.NEEDS)
    serving.end_in_order()
    figures = {"machine": machine(), "versions": {"postgresql": serving.version(postgresql.programs() / "postgres", "--version")}}
    runs = []
    try:
        mounted.need_devices()
        with serving.folder() as folder:
            database = Database(given, folder)
            for turn in range(given.rounds):
                for size in map(int, given.sizes.split(",")):
                    for policy in given.policies.split(","):
                        print(f"round {turn}: {policy}, {size} MiB", file=sys.stderr)
                        runs.append({"policy": policy, "mib": size, "round": turn} | measure(given, database, policy, size))
            figures["database_mib"] = database.size / MIB
    except (Failed, Skipped) as reason:
        sys.exit(str(reason))
    farthest = show(given, runs)
    keep("pgbench-policies", given, figures | {"runs": runs, "farthest_forecast_points": farthest})


if __name__ == "__main__":
    main()
