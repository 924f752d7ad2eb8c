"""`forebay serve` beside nbdkit on the same file over a unix socket, driven by fio's nbd engine: requests a second out of the cache.

Usage: /usr/bin/python3 nbd_speed.py FOREBAY [OPTIONS]; needs fio, nbdkit and nbdcopy (tests/install-tools.sh).

Every server holds the whole file in its cache, filled by one sequential pass; that ours misses nothing after that is checked by its own
figures. All servers run throughout, and are measured in turns. Keeps every figure as JSON in bench/runs/.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys

import serving
from measure import keep, machine, of_served_file, parsed, processor_seconds, program, spread, table
from serving import KIB, MIB
from volumes.checks import Failed, run
from volumes.server import Server, Volume

NAME = "volume"

# What fio does: its pattern, the bytes of a request, requests at a time.
JOBS = {
    "4 KiB random reads, depth 1": ("randread", 4 * KIB, 1),
    "4 KiB random reads, depth 32": ("randread", 4 * KIB, 32),
    "8 KiB random reads, depth 1": ("randread", 8 * KIB, 1),
    "8 KiB random reads, depth 32": ("randread", 8 * KIB, 32),
    "256 KiB sequential reads, depth 1": ("read", 256 * KIB, 1),
    "256 KiB sequential reads, depth 32": ("read", 256 * KIB, 32),
    "4 KiB random writes, depth 1": ("randwrite", 4 * KIB, 1),
    "4 KiB random writes, depth 32": ("randwrite", 4 * KIB, 32),
}
OURS = {"ours, 4 KiB pages": "4KiB", "ours, 64 KiB pages": "64KiB"}
MEMORY, CACHE = "nbdkit memory", "nbdkit file, cache filter"


def bars():
    """Of ours to a peer: the least ratio."""
    for job, (pattern, _, depth) in JOBS.items():
        if pattern != "randwrite":
            yield job, MEMORY, 1.0
        if pattern == "randread" and depth == 32:
            yield job, CACHE, 1.5


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("forebay", type=program, help="the program, built with --release")
    of_served_file(parser)
    return parsed(parser)


class Nbdkit:
    """A plugin of nbdkit, in the place of our program."""

    def __init__(self, plugin, *options):
        self.plugin, self.options = plugin, options

    def command(self, volumes, _cache, socket, *_):
        (volume,) = volumes
        words = [str(volume.path) if word is Volume else word for word in self.plugin]
        return ["nbdkit", "--foreground", "--unix", socket, *self.options, *words]


def programs(given):
    # A dirty limit above the file's size, so that writers never wait for the disk: nbdkit's do not, either.
    ours = {name: serving.Forebay(given.forebay, "--page", page, "--dirty-limit", "50%") for name, page in OURS.items()}
    size = f"{given.size}M"
    return ours | {
        "nbdkit null": Nbdkit(["null", size]),
        MEMORY: Nbdkit(["memory", size]),
        "nbdkit file": Nbdkit(["file", Volume]),
        CACHE: Nbdkit(["file", Volume, "cache-on-read=true"], "--filter=cache"),
    }


def fio(server, name, given, pattern, size, depth, *before):
    """`before`: words before fio's, as those that choose its processor."""
    command = [*before, "fio", "--name=measured", "--ioengine=nbd", f"--uri={server.uri(name)}", f"--rw={pattern}", f"--bs={size}"]
    command += [f"--iodepth={depth}", f"--size={given.size}M", "--time_based", f"--runtime={given.seconds}s", "--norandommap"]
    said = run(*command, "--output-format=json", cwd=server.log.parent)
    # Notes may come before the JSON.
    (job,) = json.loads(said[said.index("{\n") :])["jobs"]
    if job["error"]:
        sys.exit(f"fio: error {job['error']}")
    return job["write" if pattern == "randwrite" else "read"]


def flush(server, name):
    client = server.client(name)
    client.flush()
    client.shutdown()


def measure(program, server, name, given, job):
    pattern, size, depth = JOBS[job]
    ours = isinstance(program, serving.Forebay)
    misses = program.cache()["misses"] if ours else 0
    before = processor_seconds(server.process)
    try:
        done = fio(server, name, given, pattern, size, depth)
    except Failed as error:
        sys.exit(f"{error}\nthe server's exit code: {server.process.poll()}; {server.told()}")
    spent = processor_seconds(server.process) - before
    if ours and (missed := program.cache()["misses"] - misses):
        sys.exit(f"{job}: {missed} misses, where all should be in the cache")
    if pattern == "randwrite":
        # Written back now, and not while the next one is measured.
        flush(server, name)
    return {
        "requests_per_second": done["iops"],
        "processor_microseconds": spent / done["total_ios"] * 1e6,
        "latency_microseconds": done["lat_ns"]["mean"] / 1e3,
        "latency_99_microseconds": done["clat_ns"].get("percentile", {}).get("99.000000", 0) / 1e3,
    }


def fill(servers, volume):
    """One sequential pass; memory has to be given the bytes first."""
    for name, (_, server) in servers.items():
        export = NAME if name in OURS else ""
        if name == MEMORY:
            run("nbdcopy", volume.path, server.uri(export))
        run("nbdcopy", server.uri(export), "null:")


def show(runs, servers):
    def figures(job, server, what):
        return [run[what] for run in runs if (run["job"], run["server"]) == (job, server)]

    for what, title, form in [
        ("requests_per_second", "requests a second", "{:.0f}"),
        ("processor_microseconds", "processor time of the server, µs a request", "{:.1f}"),
    ]:
        print(f"\n{title}:\n")
        table([title, *servers], [[job, *(spread(figures(job, server, what), form) for server in servers)] for job in JOBS])
    rows = []
    for job, peer, least in bars():
        for server in OURS:
            got = statistics.median(figures(job, server, "requests_per_second")) / statistics.median(figures(job, peer, "requests_per_second"))
            rows.append({"job": job, "server": server, "peer": peer, "reached": got, "least": least})
    print()
    table(
        ["bar", "of", "to", "reached", "least", "met"],
        [
            [row["job"], row["server"], row["peer"], f"{row['reached']:.2f}", row["least"], "yes" if row["reached"] >= row["least"] else "no"]
            for row in rows
        ],
    )
    return rows


def main():
    given = options()
    serving.need("fio", "nbdkit", "nbdcopy")
    serving.end_in_order()
    figures = {"machine": machine(), "versions": {"fio": serving.version("fio", "--version"), "nbdkit": serving.version("nbdkit", "--version")}}
    runs = []
    with serving.folder() as folder, contextlib.ExitStack() as running:
        volume = Volume(folder / f"{NAME}.img")
        with volume.path.open("wb") as file:
            for _ in range(given.size):
                file.write(os.urandom(MIB))
        servers = {}
        for number, (name, program) in enumerate(programs(given).items()):
            own = folder / str(number)
            own.mkdir()
            # Of one file each: one that is served by us is locked against other writers.
            copy = Volume(own / volume.path.name)
            subprocess.run(["cp", volume.path, copy.path], check=True)
            servers[name] = program, running.enter_context(Server(program, own, copy, cache=f"{given.size * 4}MiB"))
        fill(servers, volume)
        for turn in range(given.rounds):
            for job in JOBS:
                for name, (program, server) in servers.items():
                    print(f"round {turn}: {job}: {name}", file=sys.stderr)
                    figure = measure(program, server, NAME if name in OURS else "", given, job)
                    runs.append({"job": job, "server": name, "round": turn} | figure)
    rows = show(runs, servers)
    keep("nbd-speed", given, figures | {"runs": runs, "bars": rows})


if __name__ == "__main__":
    main()
