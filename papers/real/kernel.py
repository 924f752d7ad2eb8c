#!/usr/bin/python3
"""The policy `linux:kernel=6` beside the page cache that it is a model of: hits and device requests of the same uses.

    papers/real/kernel.py --forebay target/release/forebay      # as root; some 6 minutes a round

Each load runs in the kernel's page cache, in a control group with a quarter, half and three quarters of the pages that it uses, while `forebay steer --observe` records
its uses and counts which of them the kernel had. The recording is then replayed under the policy, with the kernel's readahead. Keeps every run as JSON in runs/;
`--show FILE` prints its table.

Only reads are counted. The kernel's are those that it makes of the block device; the block layer joins some that wait side by side, more of them on a quiet machine, and the server
behind splits long ones. The kernel's figure includes some dozen reads of directories and of maps of files.
"""

import contextlib
import os
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "dulo/real"))

import sessions  # noqa: E402
import stage  # noqa: E402
from fronts import Observing  # noqa: E402
from loads import LOADS  # noqa: E402 - found by the line above
from programs import Cast  # noqa: E402
from volumes.checks import Failed, run  # noqa: E402 - stage finds it

POLICY = "linux:kernel=6"
PROGRAMS = ("cscope", "cpp", "postgres", "glimpse", "ld")
TOGETHER = ("cscope", "cpp", "postgres")
PARTS = (25, 50, 75)
VOLUME = 512 * stage.MIB
# MiB of a cache in which each load fits.
PROBE = 256
# The part of the uses that a recording has at least.
LEAST_RECORDED = 0.98


class Group(stage.Group):
    """A group that bounds only the page cache, also while dozens of programs start.

    A limit that follows what programs take of their own comes too late for these: what they take until then, the kernel takes from the cache, down to nothing. So for a while
    after they have taken `STEP` between two looks they have `ROOM` above it, and what is too much of the cache is reclaimed from outside."""

    SECONDS = 0.002
    STEP = stage.MIB // 8
    ROOM = 64 * stage.MIB
    WHILE = 0.1

    def follow(self):
        usage, statistics, limit = (self.path / f"memory.{name}" for name in ("usage_in_bytes", "stat", "limit_in_bytes"))
        own, roomy = 0, 0
        while not self.over.wait(self.SECONDS):
            told = dict(line.split() for line in statistics.read_text().splitlines())
            cached, used = int(told["cache"]) - int(told["shmem"]), int(usage.read_text())
            self.held.append(cached)
            before, own = own, max(used - cached, 0)
            if own > before + self.STEP:
                roomy = time.monotonic() + self.WHILE
            # The kernel refuses a limit for which it finds too little to reclaim; the next one comes soon.
            with contextlib.suppress(OSError):
                if time.monotonic() >= roomy:
                    limit.write_text(str(self.size + own))
                    continue
                if cached > self.size:
                    limit.write_text(str(used - (cached - self.size)))
            with contextlib.suppress(OSError):
                limit.write_text(str(used + self.ROOM))


class Together:
    """Programs at once, as one load."""

    def __init__(self, *names):
        self.cast, self.names = Cast(names), names
        self.needs = self.cast.needs

    def fill(self, directory, work):
        self.cast.fill(directory, work)

    def commands(self, directory):
        return self.cast.commands(self.names)(directory)


def loads():
    """By name, a function that makes the load."""
    found = {name: LOADS[name] for name in ("tpc-h", "diff", "blast", "text-search")}
    found |= {name: lambda name=name: Together(name) for name in PROGRAMS}
    return found | {"together": lambda: Together(*TOGETHER)}


def options():
    parser = sessions.parser(__doc__, delay="desktop-7200", policies=stage.KERNEL, sizes="")
    parser.add_argument("--loads", default=",".join(loads()), help="which")
    parser.add_argument("--parts", default=",".join(map(str, PARTS)), help="sizes of the cache in percent of the pages that a load uses")
    return parser.parse_args()


def measure_all(given):
    sessions.begin(given)
    session = sessions.Session("kernel", given, HERE)
    parts = [int(part) for part in given.parts.split(",")][: 1 if given.quick else None]
    for name in given.loads.split(","):
        load = loads()[name]()
        sessions.need(*load.needs)
        with stage.folder() as work:
            place = stage.Stage(given.forebay, work, VOLUME, given.delay, lambda directory: load.fill(directory, work), load.commands)  # noqa: B023
            # All that it uses fits here, so that the kernel says how much that is.
            whole = one(place, load, PROBE)["most_held_mib"]
            for turn in range(given.rounds):
                for part in parts:
                    labels = {"load": name, "part": part, "which": stage.KERNEL, "round": turn}
                    session.run(labels, one, place, load, whole * part / 100)
    return session.kept["runs"]


def reads(directory):
    """How many requests of the directory's block device have read so far, those that were joined to others among them, and how many bytes."""
    of = os.stat(directory).st_dev
    told = pathlib.Path(f"/sys/dev/block/{os.major(of)}:{os.minor(of)}/stat").read_text().split()
    done, joined, sectors = map(int, told[:3])
    return done + joined, 512 * sectors


def one(place, load, mib):
    """A run in the kernel's page cache, and what the policy makes of its uses in as many pages."""
    trace = place.work / "uses.parquet"
    with place.cold() as (directory, _), contextlib.ExitStack() as stack:
        stack.enter_context(place.bound(directory))
        observing = stack.enter_context(Observing(place.forebay, directory, place.work, trace))
        before = reads(directory)
        with Group(int(mib * stage.MIB)) as group:
            begin = time.perf_counter()
            stage.run_all(load.commands(place.seen), place.seen, group)
            elapsed = time.perf_counter() - begin
        observing.stop()
        seen = observing.figures()
        run("sync", "--file-system", directory)
        device = {name: now - then for name, now, then in zip(("reads", "read_bytes"), reads(directory), before, strict=True)}
        held = group.held or [0]
    pages = int(mib * stage.MIB) // stage.PAGE
    (told,) = stage.serving.compare(
        place.forebay, trace, [POLICY], pages, "--page-size", stage.PAGE, "--readahead", f"kernel:max={stage.READAHEAD}", "--device", place.delay
    )
    hits, misses = seen["kernel_hits"], seen["kernel_misses"]
    recorded = told["total"]["references"]
    if recorded < LEAST_RECORDED * (hits + misses):
        raise Failed(f"only {recorded} of {hits + misses} uses were recorded")
    return {
        "cache": stage.KERNEL,
        "mib": mib,
        "elapsed": elapsed,
        "held_mib": statistics.median(held) / stage.MIB,
        "most_held_mib": max(held) / stage.MIB,
        "seen": seen,
        "device": device,
        "hit_ratio": hits / max(hits + misses, 1),
        "model": {"hit_ratio": told["total"]["hit_ratio"], "requests": told["device"]["read_requests"], "device_bytes": told["device"]["device_bytes"]},
    }


def show(runs):
    print(f"\nHits of the kernel in percent, and of `{POLICY}` over the same uses; requests that read, and by the model:\n")
    rows, good = [], 0
    keys = list(dict.fromkeys((run["load"], run["part"]) for run in runs))
    for load, part in keys:
        here = sessions.chosen(runs, load=load, part=part)
        points = sessions.median(here, lambda run: 100 * (run["model"]["hit_ratio"] - run["hit_ratio"]))
        ratio = sessions.median(here, lambda run: run["model"]["requests"] / max(run["device"]["reads"], 1))
        good += abs(points) <= 2 and abs(ratio - 1) <= 0.05
        rows.append(
            [
                load,
                f"{part}",
                sessions.cells(here, lambda run: run["mib"]),
                sessions.cells(here, lambda run: 100 * run["hit_ratio"]),
                sessions.cells(here, lambda run: 100 * run["model"]["hit_ratio"]),
                f"{points:+.1f}".replace("-", "−"),
                sessions.cells(here, lambda run: run["device"]["reads"], "{:.0f}"),
                sessions.cells(here, lambda run: run["model"]["requests"], "{:.0f}"),
                sessions.difference(ratio, 1),
            ]
        )
    sessions.table(["load", "% of its pages", "MiB", "kernel's hits", "model's", "points", "kernel's requests", "model's", "differ"], rows)
    print(f"\nWithin 2 points and 5 % of the requests: {good} of {len(keys)}.")


if __name__ == "__main__":
    sessions.main(options(), measure_all, show)
