"""`forebay serve` and nbdkit's memory plugin in pairs, by where their processors are: hits of one client over a unix socket.

Usage: /usr/bin/python3 nbd_pairs.py FOREBAY [OPTIONS]; needs fio, nbdkit, nbdcopy (tests/install-tools.sh) and two cores.

A pair is one run of fio against each, one directly after the other, and in turns the one or the other first. So what else the machine
does weighs on both, and the ratio of a pair means something where a rate alone does not. A placement is met if the median of its pairs'
ratios is at least 1.0, and the lower bound of the median at least 0.95. The bound is an order statistic, which supposes nothing of the
ratios' distribution: the median of all that might be measured lies above it with 95 % confidence or more. That ours misses nothing is
checked by its own figures. At the end every server is left alone, and the processor time of the idle ones is shown. Keeps every figure
as JSON in bench/runs/.
"""

import argparse
import contextlib
import math
import os
import pathlib
import statistics
import sys
import time

import serving
from measure import keep, machine, of_served_file, parsed, processor_seconds, program, table
from nbd_speed import NAME, Nbdkit, fio, flush
from serving import KIB, MIB
from volumes.checks import run
from volumes.server import Server, Volume

# What fio does: its pattern, the bytes of a request, requests at a time.
JOBS = {
    "4 KiB random reads, depth 1": ("randread", 4 * KIB, 1),
    "4 KiB random writes, depth 32": ("randwrite", 4 * KIB, 32),
    "4 KiB random reads, depth 32": ("randread", 4 * KIB, 32),
    "4 KiB random writes, depth 1": ("randwrite", 4 * KIB, 1),
}
OURS, THEIRS = "ours", "nbdkit memory"
LEAST_MEDIAN, LEAST_BOUND = 1.0, 0.95
IDLE_SECONDS = 3


def placements():
    """The processors of the server and of the client: None is where the scheduler chooses."""
    first, second, *_ = sorted(os.sched_getaffinity(0))
    return {"same core": (first, first), "two cores": (first, second), "unpinned": (None, None)}


def pinned(processor):
    return [] if processor is None else ["taskset", "-c", str(processor)]


class Placed:
    """A server's program on one processor."""

    def __init__(self, program, processor):
        self.program, self.processor = program, processor

    def command(self, *asked):
        return [*pinned(self.processor), *self.program.command(*asked)]


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("forebay", type=program, help="the program, built with --release")
    of_served_file(parser)
    parser.set_defaults(rounds=10, seconds=1.0, size=64)
    parser.add_argument("--jobs", type=int, default=len(JOBS), help="only the first of: " + "; ".join(JOBS))
    parser.add_argument("--nice", type=int, default=0, help="the priority of servers and clients, as -20 beside other work; as root")
    given = parsed(parser)
    os.nice(given.nice)
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("two processors are needed: one for the server, one for the client")
    return given


def threads(process):
    """Of each thread of a process: nanoseconds on a processor, and how often it went to sleep."""
    found = {}
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        # A thread may have ended.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            lines = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
            found[task.name] = int((task / "schedstat").read_text().split()[0]), int(lines["voluntary_ctxt_switches"])
    return found


def since(before, after):
    """What threads have done that were there at both times."""
    both = [(before[thread], after[thread]) for thread in before.keys() & after.keys()]
    return [sum(late[what] - early[what] for early, late in both) for what in (0, 1)]


def measure(server, export, processor, given, job):
    pattern, size, depth = JOBS[job]
    spent = processor_seconds(server.process)
    done = fio(server, export, given, pattern, size, depth, *pinned(processor))
    figures = {
        "requests_per_second": done["iops"],
        "processor_microseconds": (processor_seconds(server.process) - spent) / done["total_ios"] * 1e6,
        "latency_99_microseconds": done["clat_ns"].get("percentile", {}).get("99.000000", 0) / 1e3,
        "load": os.getloadavg()[0],
    }
    if pattern == "randwrite":
        # Written back now, and not while the next one is measured.
        flush(server, export)
    return figures


def bound(ratios):
    """The largest of the ratios that the median lies above with 95 % confidence: the k-th smallest is above the median only if fewer
    than k of the ratios are below it, each of which is so with a probability of one half."""
    count, below = len(ratios), 0
    chance = 0.0
    while (chance := chance + math.comb(count, below) / 2**count) <= 0.05:
        below += 1
    return sorted(ratios)[max(below - 1, 0)]


def started(given, folder, running):
    """Every placement's two servers, with the whole file in memory: (placement, name) to (program, server, export)."""
    content = folder / f"{NAME}.img"
    with content.open("wb") as file:
        for _ in range(given.size):
            file.write(os.urandom(MIB))
    servers = {}
    for number, (placement, (processor, _)) in enumerate(placements().items()):
        for name in (OURS, THEIRS):
            own = folder / f"{number}{name[0]}"
            own.mkdir()
            volume = Volume(own / content.name)
            volume.path.write_bytes(content.read_bytes())
            # A dirty limit above the file's size, so that writers never wait for the disk: nbdkit's do not, either.
            ours = serving.Forebay(given.forebay, "--page", "4KiB", "--dirty-limit", "50%")
            program = ours if name == OURS else Nbdkit(["memory", f"{given.size}M"])
            server = running.enter_context(Server(Placed(program, processor), own, volume, cache=f"{given.size * 4}MiB"))
            export = NAME if name == OURS else ""
            if name == THEIRS:
                run("nbdcopy", content, server.uri(export))
            run("nbdcopy", server.uri(export), "null:")
            servers[placement, name] = program, server, export
    return servers


def missed(servers):
    return sum(program.cache()["misses"] for program, _, _ in servers.values() if isinstance(program, serving.Forebay))


def idle(servers):
    """What servers do that are asked for nothing, though a client is connected."""
    figures = []
    with contextlib.ExitStack() as connected:
        for (_, server, export) in servers.values():
            client = server.client(export)
            connected.callback(client.shutdown)
            # Enough requests for a server to spin.
            for _ in range(1000):
                client.pread(4 * KIB, 0)
        time.sleep(0.1)
        before = [threads(server.process) for _, server, _ in servers.values()]
        time.sleep(IDLE_SECONDS)
        for early, ((placement, name), (_, server, _)) in zip(before, servers.items()):
            nanoseconds, sleeps = since(early, threads(server.process))
            figures.append({
                "placement": placement,
                "server": name,
                "processor_microseconds_per_second": nanoseconds / 1e3 / IDLE_SECONDS,
                "sleeps_per_second": sleeps / IDLE_SECONDS,
            })
    return figures


def show(pairs, idle):
    rows = []
    for job in JOBS:
        for placement in placements():
            chosen = [pair for pair in pairs if (pair["job"], pair["placement"]) == (job, placement)]
            if not chosen:
                continue
            ratios = [pair["ratio"] for pair in chosen]
            rate = lambda name, what: statistics.median(pair[name][what] for pair in chosen)  # noqa: E731
            median, low = statistics.median(ratios), bound(ratios)
            rows.append({"job": job, "placement": placement, "median": median, "lower_bound": low, "met": median >= LEAST_MEDIAN and low >= LEAST_BOUND})
            for name, short in ((OURS, "ours"), (THEIRS, "theirs")):
                rows[-1] |= {f"{short}_{what}": rate(name, what) for what in ("requests_per_second", "processor_microseconds")}
    table(
        ["job", "placement", "ours/s", "nbdkit/s", "µs", "nbdkit µs", "ratio", "bound", "met"],
        [
            [
                row["job"],
                row["placement"],
                *(f"{row[name]:.0f}" for name in ("ours_requests_per_second", "theirs_requests_per_second")),
                *(f"{row[name]:.1f}" for name in ("ours_processor_microseconds", "theirs_processor_microseconds")),
                *(f"{row[name]:.2f}" for name in ("median", "lower_bound")),
                "yes" if row["met"] else "no",
            ]
            for row in rows
        ],
    )
    print()
    table(
        ["idle", "server", "processor, µs a second", "sleeps a second"],
        [[one["placement"], one["server"], f"{one['processor_microseconds_per_second']:.0f}", f"{one['sleeps_per_second']:.1f}"] for one in idle],
    )
    return rows


def main():
    given = options()
    serving.need("fio", "nbdkit", "nbdcopy", "taskset")
    serving.end_in_order()
    figures = {"machine": machine(), "versions": {"fio": serving.version("fio", "--version"), "nbdkit": serving.version("nbdkit", "--version")}}
    pairs = []
    with serving.folder() as folder, contextlib.ExitStack() as running:
        servers = started(given, folder, running)
        misses = missed(servers)
        for turn in range(given.rounds):
            for job in list(JOBS)[: given.jobs]:
                for placement, (_, client) in placements().items():
                    print(f"round {turn}: {job}, {placement}", file=sys.stderr)
                    pair = {"job": job, "placement": placement, "round": turn}
                    for name in (OURS, THEIRS) if turn % 2 == 0 else (THEIRS, OURS):
                        _, server, export = servers[placement, name]
                        pair[name] = measure(server, export, client, given, job)
                    pair["ratio"] = pair[OURS]["requests_per_second"] / pair[THEIRS]["requests_per_second"]
                    pairs.append(pair)
        if more := missed(servers) - misses:
            sys.exit(f"{more} misses, where all should be in the cache")
        alone = idle(servers)
    rows = show(pairs, alone)
    keep("nbd-pairs", given, figures | {"pairs": pairs, "idle": alone, "bars": rows})


if __name__ == "__main__":
    main()
