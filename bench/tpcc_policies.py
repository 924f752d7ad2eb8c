"""Policies of `forebay serve` under a load like TPC-C's on PostgreSQL: MQ's experiment (Zhou, Philbin, Li, USENIX 2001, section 6: Table 4, Figure 7).

Usage: /usr/bin/python3 tpcc_policies.py FOREBAY STEP... --folder FOLDER [OPTIONS], as root; needs what tests/volumes/postgresql.py needs.

The steps, each of which can be run apart once those before it are done:
  load       the nine tables (bench/tpcc/*.sql) on an ext4 image
  record     the load on a served volume without delay, until the server has seen enough references: a trace
  distances  temporal distances and frequencies of the trace (the paper's Figures 2 to 4), and hits by distance (Table 3)
  replay     the trace, sent again by one client to a server for each policy and size on a delayed device; forecasts beside it
  live       the load on a served volume on a disk-like device, for each policy in one size
  rounds     as live, but a fixed number of transactions after a warm-up, at sizes that are small beside the database, the policies in turn, in several
             rounds (Table 4, Figure 7, and whether MQ equals LRU with twice the cache)
  show       the tables; and keeps every figure as JSON in bench/runs/

The chain of record and live is that of pgbench_policies.py: forebay serve, nbdfuse, loop device, ext4, PostgreSQL, whose log lies beside the volume.
Pages have 8 KiB, as PostgreSQL's. Images of running servers are in memory: only the delay makes them slow.
"""

import argparse
import array
import contextlib
import csv
import itertools
import json
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import serving
from measure import ROOT, keep, machine, program, table
from pgbench_policies import MemoryLimit
from serving import MIB
from volumes import mounted, postgresql
from volumes.checks import Failed, Skipped, run
from volumes.server import KIB, Server, Volume

PAGE = 8 * KIB
SCRIPTS = ROOT / "bench" / "tpcc"
# The mix of clause 5.2.3.
MIX = {"new_order": 45, "payment": 43, "order_status": 4, "delivery": 4, "stock_level": 4}
# Neither vacuum nor a checkpoint falls into one run and not into another. The log is not part of what is measured.
SETTINGS = [
    "autovacuum=off", "checkpoint_timeout=1d", "max_wal_size=16GB", "max_connections=20", "wal_level=minimal", "max_wal_senders=0",
    "synchronous_commit=off", "full_page_writes=off", "random_page_cost=1.1", "deadlock_timeout=100ms",
]  # fmt: skip
MOST_POINTS = 1.0


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forebay", type=program, help="the program, built with --release")
    parser.add_argument("steps", nargs="+", choices=["load", "record", "distances", "replay", "live", "rounds", "show"], metavar="STEP", help="see above")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where the database, the trace and the figures of each step are kept")
    parser.add_argument("--images", type=pathlib.Path, default="/dev/shm", help="where images of running servers are")
    parser.add_argument("--warehouses", type=int, default=8, help="of the database: about 100 MiB each")
    parser.add_argument("--clients", type=int, default=8, help="connections of pgbench")
    parser.add_argument("--memory", type=int, default=64, help="MiB for PostgreSQL and its part of the page cache, 16 MiB of shared buffers included")
    parser.add_argument("--references", type=int, default=3_000_000, help="the fewest that are recorded")
    parser.add_argument("--policies", default="mq,lru", help="of the steps replay and live")
    parser.add_argument("--forecasts", default="mq,lru,2q,arc,clock-pro,lfu,opt", help="policies that `compare` is asked for")
    parser.add_argument("--sizes", default="16,32,64", help="MiB of the cache in the step replay")
    parser.add_argument("--requests", type=int, help="how much of the trace is replayed [default: all]")
    parser.add_argument("--replay-delay", type=float, default=50, help="microseconds that each request of the replay waits for the device")
    parser.add_argument("--delay", default=SCRIPTS / "disk.toml", help="the disk of the step live: a preset of `forebay devices`, or a TOML file")
    parser.add_argument("--live-size", type=int, default=32, help="MiB of the cache in the step live")
    parser.add_argument("--seconds", type=int, default=600, help="of the step live")
    parser.add_argument("--round-sizes", default="0.125,0.25,0.5", help="caches of the step rounds, in percent of the database; each twice the one before")
    parser.add_argument("--rounds", type=int, default=5, help="of the step rounds")
    parser.add_argument("--transactions", type=int, default=1000, help="of each client in a run of the step rounds")
    parser.add_argument("--warm-up", type=int, default=500, help="transactions of each client before them")
    parser.add_argument("--shared-buffers", default="16MB", help="of PostgreSQL, which are the first level")
    parser.add_argument("--out", help="the file for the raw figures")
    return parser.parse_args()


def result(given, name, figures=None):
    """What a step found, kept in a file of its own; or what is kept."""
    file = given.folder / "results" / f"{name}.json"
    if figures is None:
        return json.loads(file.read_text()) if file.exists() else None
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"{name}: done", file=sys.stderr, flush=True)


@contextlib.contextmanager
def work_folder(given):
    """Where a run has its image, log and sockets: other users may pass through, and paths of sockets must be short."""
    with tempfile.TemporaryDirectory(prefix="forebay-", dir=given.images) as path:
        path = pathlib.Path(path)
        path.chmod(0o755)
        yield path


def postgres(folder, *settings):
    return postgresql.Postgres(folder / "mounted" / "data", folder / "sockets", *SETTINGS, *settings)


def load(given):
    kept = given.folder / "kept"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    with work_folder(given) as folder:
        image, target = folder / "volume.img", folder / "mounted"
        with image.open("wb") as file:
            file.truncate((given.warehouses * 180 + 512) * MIB)
        # Clusters of a database page, so that each is one page of the server.
        run("mkfs.ext4", "-q", "-O", "bigalloc,^has_journal", "-C", PAGE, "-E", "lazy_itable_init=0", image)
        target.mkdir()
        run("mount", "-o", "loop", image, target)
        try:
            for made in [target / "data", folder / "log"]:
                run("install", "-d", "-o", postgresql.USER, "-m", "700", made)
            with postgres(folder, "shared_buffers=512MB", "maintenance_work_mem=128MB") as database:
                database.run("initdb", "--pgdata", target / "data", "--waldir", folder / "log", "--auth=trust", "--locale=C", "--encoding=UTF8")
                database.start()
                database.on_bench("createdb")
                begin = time.monotonic()
                words = ["--host", database.sockets, "-qX", "-v", "ON_ERROR_STOP=1", "-v", f"warehouses={given.warehouses}", "--single-transaction"]
                loaded = database.popen("psql", *words, *("-f", "-", "-f", "-"), "bench", stdin=subprocess.PIPE)
                loaded.stdin.write(b"".join((SCRIPTS / file).read_bytes() for file in ["schema.sql", "rows.sql"]))
                loaded.stdin.close()
                if loaded.wait():
                    sys.exit("the tables could not be filled: see above")
                run(database.bin / "psql", "--host", database.sockets, "-qX", "-c", "vacuum (freeze, analyze)", "bench", **database.as_user())
                seconds = time.monotonic() - begin
                size = int(database.ask("select pg_database_size('bench')"))
                tables = "select relname || ' ' || relpages from pg_class where relnamespace = 'public'::regnamespace order by 1"
                pages = {name: int(count) for name, count in (line.split() for line in database.ask(tables).splitlines())}
                if database.stop(signal.SIGINT):
                    sys.exit("PostgreSQL did not stop in order")
        finally:
            mounted.quietly("umount", target)
        run("cp", "--sparse=always", image, kept / "volume.img")
        run("cp", "--archive", folder / "log", kept / "log")
    result(given, "load", {"warehouses": given.warehouses, "database_mib": size / MIB, "seconds": seconds, "pages": pages})


class Load:
    """PostgreSQL on a served volume and, for as long as is asked for, pgbench with the five transactions."""

    def __init__(self, given, database):
        self.given, self.database = given, database

    def start(self, seed, seconds=None, transactions=None):
        scripts = [word for name, weight in MIX.items() for word in ("--file", f"{SCRIPTS / name}.sql@{weight}")]
        words = ["--client", self.given.clients, "--jobs", "2", *self.until(seconds, transactions), "--random-seed", seed, "--no-vacuum", "--protocol=prepared"]
        words += ["--max-tries=10", "--define", f"warehouses={self.given.warehouses}", *scripts]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "stdin": subprocess.DEVNULL}
        self.process = self.database.popen("pgbench", "--host", self.database.sockets, *words, "bench", **pipes)

    @staticmethod
    def until(seconds, transactions):
        return ("--transactions", transactions) if transactions else ("--time", seconds)

    def finish(self):
        """Waits for pgbench, and returns what it has printed."""
        told = self.process.communicate()[0]
        if self.process.returncode:
            sys.exit(f"pgbench failed: {told[-3000:]}")
        return told

    def transactions(self):
        """Those that were committed; sessions report them after a while."""
        return int(self.database.ask("select xact_commit from pg_stat_database where datname = 'bench'"))

    def stop(self):
        self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def under_load(given, program, cache, mode):
    """A server of a copy of the database, PostgreSQL on it."""
    kept = given.folder / "kept"
    with work_folder(given) as folder:
        run("cp", "--sparse=always", kept / "volume.img", folder / "volume.img")
        # What is written to files in memory would be of the control group for good.
        log = given.folder / f"log-{folder.name}"
        run("cp", "--archive", kept / "log", log)
        volume = Volume(folder / "volume.img", mode=mode, readahead="0")
        with Server(program, folder, volume, cache=cache) as server:
            with mounted.LoopDevice(server.uri("volume"), folder) as loop, postgres(folder, f"shared_buffers={given.shared_buffers}") as database:
                # A database page is one request: with none at all the system would read its halves, each by itself.
                run("blockdev", "--setra", PAGE // 512, loop.device)
                loop.mount()
                link = loop.mountpoint / "data" / "pg_wal"
                link.unlink()
                link.symlink_to(log)
                limit = MemoryLimit(given.memory * MIB)
                try:
                    with limit.within():
                        database.start()
                    yield Load(given, database)
                    database.stop(signal.SIGQUIT)
                finally:
                    if database.process and database.process.poll() is None:
                        database.stop(signal.SIGQUIT)
                    limit.remove()
                    shutil.rmtree(log)
                loop.umount()
            last = program.figures()
            if server.stop():
                sys.exit(f"the server failed: {server.told()}")
            if last["record_lost"]:
                sys.exit(f"{last['record_lost']} references came too fast to be recorded")


def references(cache):
    return cache["hits"] + cache["misses"]


def record(given):
    trace = given.folder / "references.parquet"
    trace.unlink(missing_ok=True)
    program = serving.Forebay(given.forebay, "--policy", "lru", "--page", PAGE, "--record", trace)
    begin = time.monotonic()
    with under_load(given, program, "3GiB", "write-back") as load:
        before = load.transactions()
        load.start(seed=1, seconds=24 * 3600)
        while references(program.cache()) < given.references:
            if load.process.poll() is not None:
                sys.exit(f"pgbench ended: {load.process.stdout.read()[-3000:]}")
            time.sleep(2)
            print(f"\r{references(program.cache()):,} references", end="", file=sys.stderr, flush=True)
        load.stop()
        time.sleep(2)
        figures = {"seconds": time.monotonic() - begin, "transactions": load.transactions() - before}
        figures["database_mib"] = int(load.database.ask("select pg_database_size('bench')")) / MIB
    result(given, "record", figures | {"machine": machine(), "clients": given.clients, "memory_mib": given.memory})


def asked(given, *words):
    done = subprocess.run(list(map(str, [given.forebay, *words])), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"`{' '.join(map(str, words))}` failed: {done.stderr}")
    return json.loads(done.stdout)


def pages_of(mib):
    """What a policy has of a cache: a 32nd of the frames is the laundry's."""
    frames = mib * MIB // PAGE
    return frames - max(frames // 32, 1)


def distances(given):
    trace = given.folder / "references.parquet"
    sizes = [pages_of(int(size)) for size in given.sizes.split(",")]
    sections = "footprint,temporal-distance,frequency,hits-by-distance"
    words = ["--only", sections, "--policies", "mq,lru", "--sizes", ",".join(map(str, sizes)), "--page-size", PAGE, "--threads", 1]
    (analysis,) = asked(given, "analyze", trace, *words, "--format", "json")
    (compared,) = asked(given, "compare", trace, "--policies", given.forecasts, "--sizes", ",".join(map(str, sizes)),
                        "--page-size", PAGE, "--threads", 1, "--format", "json")  # fmt: skip
    keys = ["references", "footprint_pages", "temporal_distance", "frequency", "hits_by_distance"]
    forecasts = [{"policy": run["policy"], "pages": run["pages"]} | run["total"] for run in compared["runs"]]
    lengths = recorded(given)[1]
    writes = sum(length < 0 for length in lengths)
    counts = {"reads": len(lengths) - writes, "writes": writes}
    result(given, "distances", {key: analysis[key] for key in keys} | counts | {"forecasts": forecasts})


def recorded(given):
    """The requests of the trace: offsets, and lengths, negative for writes; and a trace of as many as are replayed."""
    file = given.folder / "references.csv"
    if not file.exists():
        run(given.forebay, "convert", given.folder / "references.parquet", file)
    if given.requests:
        whole, file = file, given.folder / f"references-{given.requests}.csv"
        with whole.open() as rows, file.open("w") as part:
            part.writelines(itertools.islice(rows, 1 + given.requests))
    offsets, lengths = array.array("q"), array.array("q")
    with file.open() as rows:
        for row in csv.DictReader(rows):
            offsets.append(int(row["offset"]))
            lengths.append(int(row["length"]) * (-1 if row["operation"] == "write" else 1))
    return offsets, lengths, file


def replay(given):
    offsets, lengths, trace = recorded(given)
    size = max(offset + abs(length) for offset, length in zip(offsets, lengths))
    zeros = memoryview(bytes(max(map(abs, lengths))))
    for mib in map(int, given.sizes.split(",")):
        for policy in given.policies.split(","):
            with work_folder(given) as folder:
                volume, delay = folder / "volume.img", folder / "delay.toml"
                with volume.open("wb") as file:
                    file.truncate(-(-size // MIB) * MIB)
                us = given.replay_delay
                delay.write_text(f'title = "A delay"\nsource = "-"\n[flash]\nread_us = {us}\nwrite_us = {us}\nchannels = 1\nmb_s = 3500.0\n')
                program = serving.Forebay(given.forebay, "--policy", policy, "--page", PAGE, "--delay", delay)
                with Server(program, folder, Volume(volume, mode="write-through", readahead="0"), cache=f"{mib}MiB") as server:
                    client = server.client("volume")
                    begin = time.monotonic()
                    for offset, length in zip(offsets, lengths):
                        if length < 0:
                            client.pwrite(zeros[:-length], offset)
                        else:
                            client.pread(length, offset)
                    seconds = time.monotonic() - begin
                    client.shutdown()
                    cache = program.cache()
                    if server.stop():
                        sys.exit(f"the server failed: {server.told()}")
            figures = {"policy": policy, "mib": mib, "requests": len(offsets), "seconds": seconds, "delay_us": us, "cache": cache}
            figures |= {"references": references(cache), "hit_ratio": serving.ratio({"hits": 0, "misses": 0}, cache)}
            (forecast,) = serving.compare(given.forebay, trace, [policy], pages_of(mib),
                                          "--page-size", PAGE, "--threads", 1)  # fmt: skip
            figures["forecast"] = {key: forecast["total"][key] for key in ("references", "hits", "hit_ratio")}
            result(given, f"replay-{policy.replace(':', '-')}-{mib}", figures)


def live(given):
    for policy in given.policies.split(","):
        trace = given.folder / f"live-{policy.replace(':', '-')}.parquet"
        trace.unlink(missing_ok=True)
        program = serving.Forebay(given.forebay, "--policy", policy, "--page", PAGE, "--delay", given.delay, "--record", trace)
        with under_load(given, program, f"{given.live_size}MiB", "write-through") as load:
            load.start(seed=1, seconds=given.seconds)
            samples, end = [], time.monotonic() + given.seconds + 120
            while load.process.poll() is None and time.monotonic() < end:
                cache = program.cache()
                samples.append({"at": round(time.monotonic() - end + given.seconds + 120, 1), "hits": cache["hits"], "misses": cache["misses"]})
                with contextlib.suppress(subprocess.TimeoutExpired):
                    load.process.wait(10)
            told = load.finish()
        final = samples[-1]
        (forecast,) = serving.compare(given.forebay, trace, [policy], pages_of(given.live_size), "--page-size", PAGE, "--threads", 1)
        middle = next(sample for sample in samples if sample["at"] >= given.seconds / 2)
        result(given, f"live-{policy.replace(':', '-')}", {
            "policy": policy, "mib": given.live_size, "seconds": given.seconds, "delay": pathlib.Path(given.delay).name,
            "transactions_per_second": transactions_per_second(told),
            "hit_ratio": serving.ratio({"hits": 0, "misses": 0}, final), "references": references(final),
            "second_half_hit_ratio": serving.ratio(middle, final),
            "forecast": {key: forecast["total"][key] for key in ("references", "hits", "hit_ratio")},
            "samples": samples, "pgbench": told.replace(f"{SCRIPTS}/", ""),
        })  # fmt: skip


def transactions_per_second(told):
    return float(re.search(r"^tps = ([\d.]+)", told, re.M)[1])


def rounds(given):
    database = result(given, "load")["database_mib"]
    runs = []
    for number in range(given.rounds):
        jobs = [(policy, percent) for percent in map(float, given.round_sizes.split(",")) for policy in given.policies.split(",")]
        # Each round begins with another one, so that none always has the quiet machine.
        at = number % len(jobs)
        for policy, percent in jobs[at:] + jobs[:at]:
            pages = int(database * percent / 100 * MIB) // PAGE
            program = serving.Forebay(given.forebay, "--policy", policy, "--page", PAGE, "--delay", given.delay)
            with under_load(given, program, pages * PAGE, "write-through") as load:
                load.start(seed=2 * number + 1, transactions=given.warm_up)
                load.finish()
                before = program.cache()
                load.start(seed=2 * number + 2, transactions=given.transactions)
                told = load.finish()
                after = program.cache()
            runs.append({
                "round": number, "policy": policy, "percent": percent, "pages": pages, "hit_ratio": serving.ratio(before, after),
                "references": references(after) - references(before), "transactions_per_second": transactions_per_second(told),
            })  # fmt: skip
            result(given, "rounds", {"database_mib": database, "delay": pathlib.Path(given.delay).name, "shared_buffers": given.shared_buffers,
                                     "clients": given.clients, "transactions": given.transactions, "warm_up": given.warm_up, "runs": runs})  # fmt: skip


def show_rounds(found):
    runs = found["runs"]
    sizes = sorted({run["percent"] for run in runs})

    def of(policy, percent, key):
        return {run["round"]: run[key] for run in runs if (run["policy"], run["percent"]) == (policy, percent)}

    def spread(values, digits):
        return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})" if values else "-"

    policies = list(dict.fromkeys(run["policy"] for run in sorted(runs, key=lambda run: run["policy"] != "mq")))
    print(f"\nRounds: {found['transactions']} transactions of each of {found['clients']} clients after {found['warm_up']}; "
          f"{found['shared_buffers']} of shared buffers. Medians, and the least and most.")  # fmt: skip
    print("\nHit ratios in percent (Table 4), and transactions a second (Figure 7):\n")
    rows = []
    for percent in sizes:
        for policy in policies:
            hits = [100 * ratio for ratio in of(policy, percent, "hit_ratio").values()]
            speeds = list(of(policy, percent, "transactions_per_second").values())
            rows.append([f"{percent} %", policy, spread(hits, 2), spread(speeds, 1)])
    table(["of the database", "policy", "hits", "transactions a second"], rows)
    print("\nMQ against LRU, of the same round: transactions a second in percent; and against LRU with twice the cache, points of the hit ratio:\n")
    rows = []
    for percent in sizes:
        ours = {key: of("mq", percent, key) for key in ("hit_ratio", "transactions_per_second")}

        def beside(size, key):
            theirs = of("lru", size, key)
            return [(ours[key][number], theirs[number]) for number in ours[key] if number in theirs]

        faster = [100 * (mine / other - 1) for mine, other in beside(percent, "transactions_per_second")]
        doubled = [100 * (mine / other - 1) for mine, other in beside(2 * percent, "transactions_per_second")]
        points = [100 * (mine - other) for mine, other in beside(2 * percent, "hit_ratio")]
        rows.append([f"{percent} %", spread(faster, 1), spread(doubled, 1), spread(points, 2)])
    table(["of the database", "tps to LRU", "tps to LRU, twice", "hits to LRU, twice"], rows)


def show(given):
    found = {name: result(given, name) for name in ("load", "record", "distances", "rounds")}
    replays = [json.loads(file.read_text()) for file in sorted((given.folder / "results").glob("replay-*.json"))]
    lives = [json.loads(file.read_text()) for file in sorted((given.folder / "results").glob("live-*.json"))]
    sizes, policies = sorted({run["mib"] for run in replays}), sorted({run["policy"] for run in replays}, key=lambda name: (name != "mq", name))
    if found["distances"]:
        of = found["distances"]
        print(f"\nThe trace (Table 1): {of['reads']:,} reads, {of['writes']:,} writes, behind {found['record']['memory_mib']} MiB, "
              f"{found['record']['clients']} clients of one server.")  # fmt: skip
        print(f"\n{of['references']:,} references to {of['footprint_pages']:,} pages of 8 KiB. By temporal distance (Figure 2):\n")
        points = of["temporal_distance"]["points"]
        table(["distance", "references", "%"],
              [["first use", of["temporal_distance"]["first_uses"], f"{of['temporal_distance']['first_uses'] / of['references'] * 100:.1f}"],
               *([point["distance"], point["references"], f"{point['references'] / of['references'] * 100:.1f}"] for point in points)])  # fmt: skip
        print("\nPages referenced so often or more, and references to them, in percent (Figure 4):\n")
        table(["times", "pages", "references"], [[row["times"], f"{row['pages_percent']:.1f}", f"{row['references_percent']:.1f}"] for row in of["frequency"]])
        print("\nHits and misses below and from the cache's size on (Table 3):\n")
        keys = ["policy", "pages", "near_hits", "near_misses", "far_hits", "far_misses"]
        table(keys, [[row[key] for key in keys] for row in of["hits_by_distance"]])
        print("\nForecasts, hit ratios in percent:\n")
        names = list(dict.fromkeys(run["policy"] for run in of["forecasts"]))
        cell = {(run["policy"], run["pages"]): f"{run['hit_ratio'] * 100:.2f}" for run in of["forecasts"]}
        table(["pages", *names], [[pages, *(cell[name, pages] for name in names)] for pages in sorted({run["pages"] for run in of["forecasts"]})])
    farthest = None
    if replays:
        print("\nHit ratios in percent of the replay through the server / forecast:\n")
        cell = {(run["policy"], run["mib"]): f"{run['hit_ratio'] * 100:.2f} / {run['forecast']['hit_ratio'] * 100:.2f}" for run in replays}
        table(["MiB", *policies], [[size, *(cell.get((policy, size), "-") for policy in policies)] for size in sizes])
    if lives:
        print("\nLive: hit ratios in percent, transactions a second:\n")
        table(["policy", "MiB", "measured / forecast", "second half", "references", "transactions a second"],
              [[run["policy"], run["mib"], f"{run['hit_ratio'] * 100:.2f} / {run['forecast']['hit_ratio'] * 100:.2f}",
                f"{run['second_half_hit_ratio'] * 100:.2f}", run["references"], f"{run['transactions_per_second']:.2f}"] for run in lives])  # fmt: skip
    if found["rounds"]:
        show_rounds(found["rounds"])
    if replays or lives:
        farthest = max(abs(run["hit_ratio"] - run["forecast"]["hit_ratio"]) * 100 for run in replays + lives)
        print(f"\nThe farthest forecast is {farthest:.2f} points off: within {MOST_POINTS:.0f} is {'met' if farthest <= MOST_POINTS else 'not met'}.")
    given.folder, given.images, given.delay = given.folder.name, str(given.images), pathlib.Path(given.delay).name
    keep("tpcc-policies", given, {"machine": machine()} | found | {"replays": replays, "live": lives, "farthest_forecast_points": farthest})


def main():
    given = options()
    given.folder = given.folder.resolve()
    serving.need(*mounted.NEEDS, "blockdev")
    serving.end_in_order()
    try:
        mounted.need_devices()
        for step in given.steps:
            globals()[step](given)
    except (Failed, Skipped) as reason:
        sys.exit(str(reason))


if __name__ == "__main__":
    main()
