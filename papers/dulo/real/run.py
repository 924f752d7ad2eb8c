#!/usr/bin/python3
"""DULO's experiments on a running system (sections 4.3 and 4.5, Figures 4, 5 and 7): elapsed times, and how long sequences on the disk are.

    papers/dulo/real/run.py --forebay target/release/forebay      # as root; some 20 minutes a round
    papers/dulo/real/run.py --caches "kernel,steered dulo,steered lru" --smallest --rounds 3

The second runs them in the kernel's page cache, which `forebay steer` manages. Caches below 24 MiB are steered *beside*: the memory of `forebay steer` does not count.
TPC-H's query 6, diff, BLAST, PostMark and a text search by several clients, under the kernel's page cache and the mount with Linux's lists and with
DULO; then three of them on an aged file system. Keeps every run as JSON in runs/; `--show FILE` prints its tables.
"""

import bisect
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "real"))

import sessions  # noqa: E402 - found by the line above
import stage  # noqa: E402
from loads import LOADS, age  # noqa: E402

AGED = ("tpc-h", "blast", "postmark")
# Blocks of 4 KiB: what share of the sequences has no more.
LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128)
VOLUME = 400 * stage.MIB


def options():
    parser = sessions.parser(__doc__, delay="desktop-7200", policies="kernel,linux,dulo:base=linux,lru,dulo", sizes="")
    parser.add_argument("--loads", default=",".join(LOADS), help="which")
    parser.add_argument("--disks", default="fresh,aged", help="which")
    parser.add_argument("--smallest", action="store_true", help="only the first size of each load")
    return parser.parse_args()


def measure_all(given):
    sizes = [float(size) for size in given.sizes.split(",") if size]
    sessions.begin(given)
    session = sessions.Session("dulo", given, HERE)
    for disk in given.disks.split(","):
        for name in given.loads.split(","):
            load = LOADS[name]()
            if disk == "aged" and name not in AGED:
                continue
            sessions.need(*load.needs)
            with stage.folder() as work:

                def fill(directory):
                    if disk == "aged":  # noqa: B023 - called at once
                        age(directory, VOLUME * 85 // 100, VOLUME // 2)
                    load.fill(directory, work)  # noqa: B023

                place = stage.Stage(given.forebay, work, VOLUME, given.delay, fill, load.commands)
                session.note(**{f"delay_check_{disk}_{name}": place.check_delay()})
                for turn in range(given.rounds):
                    for size in sizes or load.sizes[: 1 if given.quick or given.smallest else None]:
                        for cache in given.caches.split(","):
                            labels = {"disk": disk, "load": name, "size": size, "which": cache, "round": turn}
                            session.run(labels, one, place, load, stage.by_size(cache, size), size)
    return session.kept["runs"]


def one(place, load, cache, size):
    """A run, with the lengths of its sequences on the disk, and the disk's time for them."""
    requests = place.work / "requests.csv"
    requests.unlink(missing_ok=True)
    result = stage.measure(place, cache, size, load.commands, server_options=["--record", requests])
    result["device"]["modelled_seconds"] = stage.modelled_seconds(place, requests)
    return result | {"sequences": stage.sequences(requests)}


def shares(lengths):
    """Of the sequences, the percentage that has no more blocks than each of LENGTHS."""
    counts = [0] * (len(LENGTHS) + 1)
    for length, count in lengths.items():
        counts[bisect.bisect_left(LENGTHS, int(length))] += count
    return [100 * sum(counts[: place + 1]) / sum(counts) for place in range(len(LENGTHS))]


def show(runs):
    caches = sessions.caches(runs)
    keys = list(dict.fromkeys((run["disk"], run["load"], run["size"]) for run in runs))
    here = lambda key, cache: sessions.chosen(runs, disk=key[0], load=key[1], size=key[2], which=cache)  # noqa: E731
    print("\nSeconds; device reads; hit ratio in percent (forecast):\n")
    said = lambda key: [*key[:2], sessions.mib(key[2], sum((here(key, cache) for cache in caches), []))]  # noqa: E731
    sessions.table(["file system", "load", "MiB", *caches], [[*said(key), *(cell(here(key, cache)) for cache in caches)] for key in keys])
    sessions.show_against_kernel(runs, ["disk", "load", "size"], {"seconds": lambda run: run["elapsed"], "device reads": lambda run: run["device"]["reads"]})
    show_device([[*said(key), {cache: here(key, cache) for cache in caches}] for key in keys], caches)
    print(f"\nSequences on the disk: percent that have no more than {', '.join(map(str, LENGTHS))} blocks:\n")
    rows = []
    for key in keys:
        for cache in caches:
            of = here(key, cache)
            if of:
                rows.append([*key, cache, sum(of[0]["sequences"].values()), *(f"{share:.0f}" for share in shares(of[0]["sequences"]))])
    sessions.table(["file system", "load", "MiB", "cache", "sequences", *map(str, LENGTHS)], rows)


def show_device(keys, caches):
    """The seconds that the device was at work by its model, and those that requests took, against the kernel's."""
    for title, figure in (
        ("Seconds of the device's requests by its model, without waits; against the kernel's", "modelled_seconds"),
        ("Seconds of the device's requests as measured, each from when it was made; against the kernel's", "seconds"),
    ):
        seconds, rows = lambda run: run["device"][figure], []  # noqa: B023 - called at once
        for *labels, here in keys:
            timed = {cache: [run for run in runs if figure in run["device"]] for cache, runs in here.items()}
            kernel = timed.get(stage.KERNEL)
            row = []
            for cache, runs in timed.items():
                differs = kernel and runs and cache != stage.KERNEL
                against = f", {sessions.difference(*(sessions.median(of, seconds) for of in (runs, kernel)))}" if differs else ""
                row.append(sessions.cells(runs, seconds) + against)
            if any(timed.values()):
                rows.append([*labels, *row])
        if rows:
            print(f"\n{title}:\n")
            sessions.table(["file system", "load", "MiB", *caches], rows)


def cell(runs):
    if not runs:
        return "–"
    said = f"{sessions.cells(runs, lambda run: run['elapsed'])}; {sessions.cells(runs, lambda run: run['device']['reads'], '{:.0f}')}"
    if "forecast_hit_ratio" in runs[0]:
        said += "; " + " ".join(
            f"{100 * runs[0][what]:.1f}" if what == "hit_ratio" else f"({100 * runs[0][what]:.1f})" for what in ("hit_ratio", "forecast_hit_ratio")
        )
    return said


if __name__ == "__main__":
    sessions.main(options(), measure_all, show)
