"""Two builds of Forebay in turns: replay of ten policies, the pool's lookups, `forebay serve` and `forebay mount` under fio, and PostMark on
the mount.

Usage: /usr/bin/python3 two_builds.py BEFORE AFTER [OPTIONS]; each is a folder with a checkout in which `cargo build --release` and
`cargo bench -p forebay-bench --no-run` have been run. Needs fio and nbdcopy (tests/install-tools.sh), Debian's postmark and root for the mount,
and real traces for the replay.

Which build goes first alternates from round to round. What is compared is the median of each; a figure above the limit is marked. The
builds must have the same hits. Keeps every figure as JSON in bench/runs/.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import mount_speed
import nbd_speed
import serving
from measure import TRACES, keep, machine, of_served_file, parsed, program, run, spread, table
from volumes.server import Server, Volume

POLICIES = ["lru", "fifo", "clock", "arc", "lirs", "clock-pro", "mq", "ubm", "dulo", "s3-fifo"]
REPLAYED = ["arc/P6.lis.zst", "arc/OLTP.lis.zst"]
LOOKUPS = ["--caches", "pool:clock-pro,pool:lru", "--rounds", "1", "--threads", "1", "--lookups", "2000000", "--pages", "200000", "--room", "20000"]
SERVED = ["4 KiB random reads, depth 1", "4 KiB random reads, depth 32", "256 KiB sequential reads, depth 32", "4 KiB random writes, depth 32"]
MOUNTED = ["4 KiB random reads, depth 1", "4 KiB random writes, depth 1", "256 KiB sequential writes, depth 1"]
# 500 files of 512 bytes to 32 KiB, made in a folder of their own.
POSTMARK = "set number 500\nset size 512 32768\nset transactions 4000\nset bias read 8\nset bias create 5\nset seed 7\nset buffering false\nrun\nquit\n"
# Slower by more than this is marked.
LIMIT = 0.03


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("before", type=pathlib.Path, help="the folder of the earlier build")
    parser.add_argument("after", type=pathlib.Path, help="the folder of the later build")
    parser.add_argument("--parts", default="replay,pool,server,mount", help="which parts, between commas")
    of_served_file(parser)
    given = parsed(parser)
    given.parts = given.parts.split(",")
    if unknown := set(given.parts) - {"replay", "pool", "server", "mount"}:
        parser.error(f"there is no part {', '.join(unknown)}; there are replay, pool, server and mount")
    return given


def lookups(folder):
    """The newest program of the benchmark `against_caches` in a checkout."""
    found = sorted((folder / "target/release/deps").glob("against_caches-*"), key=lambda file: file.stat().st_mtime)
    found = [file for file in found if file.suffix == "" and os.access(file, os.X_OK)]
    if not found:
        sys.exit(f"{folder}: no benchmark is built: run cargo bench -p forebay-bench --no-run there")
    return found[-1].resolve()


def replays(folder):
    """Seconds of each policy, of one thread, at a tenth of the footprint; and hits."""
    forebay = program(folder / "target/release/forebay")
    for trace in REPLAYED:
        text, _ = run([forebay, "compare", TRACES / trace, "-p", ",".join(POLICIES), "-s", "10%", "--threads", "1", "-f", "json"])
        for answer in json.loads(text)[0]["runs"]:
            yield {"figure": f"{answer['policy']}, {pathlib.Path(trace).name}", "value": answer["seconds"], "check": answer["total"]["hits"]}


def pool(folder):
    """Nanoseconds of the processor for a lookup: hits alone, and with misses."""
    text, _ = run([lookups(folder), *LOOKUPS])
    answer = json.loads(text)
    for done in answer if isinstance(answer, list) else answer["runs"]:
        value = done["processor_seconds"] / done["lookups"] * 1e9
        yield {"figure": f"{done['cache']}, {done['setting']}", "value": value, "check": None}


@contextlib.contextmanager
def served(given):
    """A way to measure the servers of both builds, which run throughout."""
    with serving.folder() as folder, contextlib.ExitStack() as running:
        servers = {}
        for build in (given.before, given.after):
            own = folder / str(len(servers))
            own.mkdir()
            volume = Volume(own / f"{nbd_speed.NAME}.img")
            with volume.path.open("wb") as file:
                for _ in range(given.size):
                    file.write(os.urandom(serving.MIB))
            forebay = serving.Forebay(program(build / "target/release/forebay"), "--page", "4KiB", "--dirty-limit", "50%")
            server = running.enter_context(Server(forebay, own, volume, cache=f"{given.size * 4}MiB"))
            nbd_speed.run("nbdcopy", server.uri(nbd_speed.NAME), "null:")
            servers[build] = forebay, server

        def measure(build):
            for job in SERVED:
                done = nbd_speed.measure(*servers[build], nbd_speed.NAME, given, job)
                yield {"figure": f"{job}, µs a request", "value": 1e6 / done["requests_per_second"], "check": None}
                yield {"figure": f"{job}, processor µs", "value": done["processor_microseconds"], "check": None}

        yield measure


@contextlib.contextmanager
def mounted(given):
    """A way to measure the mounts of both builds, which run throughout, over a directory in memory each."""
    with tempfile.TemporaryDirectory(prefix="forebay-", dir="/dev/shm") as folder, contextlib.ExitStack() as running:
        mounts = {}
        for build in (given.before, given.after):
            forebay = program(build / "target/release/forebay")
            words = [forebay, "mount", "--foreground", "--log", "warn", "--cache", f"{given.size * 4}MiB", "--dirty-limit", "50%"]
            own = pathlib.Path(folder) / str(len(mounts))
            mounts[build] = mount_speed.Mounted(str(build), own, given.size, lambda source, seen, words=words: [*words, source, seen])
            running.callback(mounts[build].end)
            (own / "postmark").write_text(POSTMARK)

        def measure(build):
            mount = mounts[build]
            for job in MOUNTED:
                before = mount_speed.processor_seconds(mount.process)
                rate, done = mount_speed.transfer(mount, given, job)
                yield {"figure": f"mount: {job}, µs a request", "value": 1e6 / rate, "check": None}
                spent = mount_speed.processor_seconds(mount.process) - before
                yield {"figure": f"mount: {job}, processor µs", "value": spent / done * 1e6, "check": None}
            files = mount.seen / "files"
            files.mkdir()
            started = time.perf_counter()
            subprocess.run(["postmark", mount.source.parent / "postmark"], cwd=files, check=True, stdout=subprocess.DEVNULL)
            yield {"figure": "mount: PostMark, seconds", "value": time.perf_counter() - started, "check": None}
            files.rmdir()

        yield measure


def rows(runs):
    for figure in dict.fromkeys(run["figure"] for run in runs):
        of = {build: [run for run in runs if (run["figure"], run["build"]) == (figure, build)] for build in ("before", "after")}
        values = {build: [run["value"] for run in made] for build, made in of.items()}
        ratio = statistics.median(values["after"]) / statistics.median(values["before"])
        if len({run["check"] for made in of.values() for run in made}) > 1:
            sys.exit(f"{figure}: the builds have different hits")
        slower = "slower" if ratio > 1 + LIMIT else ""
        yield {"figure": figure, "before": spread(values["before"], "{:.3g}"), "after": spread(values["after"], "{:.3g}"), "ratio": ratio, "": slower}


def main():
    given = options()
    serving.need("fio", "nbdcopy")
    serving.end_in_order()
    figures, runs = {"machine": machine()}, []
    with contextlib.ExitStack() as open_servers:
        parts = {"replay": replays, "pool": pool}
        if "server" in given.parts:
            parts["server"] = open_servers.enter_context(served(given))
        if "mount" in given.parts:
            serving.need("postmark")
            parts["mount"] = open_servers.enter_context(mounted(given))
        for turn in range(given.rounds):
            builds = [("before", given.before), ("after", given.after)]
            for part in given.parts:
                for name, folder in builds if turn % 2 == 0 else builds[::-1]:
                    print(f"round {turn}: {part}: {name}", file=sys.stderr)
                    runs += [{"part": part, "build": name, "round": turn} | figure for figure in parts[part](folder)]
    found = list(rows(runs))
    table(list(found[0]), [[*row.values()][:3] + [f"{row['ratio']:.3f}", row[""]] for row in found])
    given.before, given.after = (subprocess.run(["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip() for folder in (given.before, given.after))
    keep("two-builds", given, figures | {"runs": runs, "ratios": found})


if __name__ == "__main__":
    main()
