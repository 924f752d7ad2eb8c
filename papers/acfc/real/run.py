#!/usr/bin/python3
"""ACFC's experiments on a running system: cscope, linking and PostgreSQL with the paper's managers, alone and at once; and an innocent beside a fool.

    papers/acfc/real/run.py --forebay target/release/forebay      # as root; some 20 minutes a round
    papers/acfc/real/run.py --caches "kernel,steered lru-sp with managers,steered lru" --sizes 8 --rounds 3

The second runs them in the kernel's page cache, which `forebay steer` manages. Caches below 24 MiB are steered *beside*: the memory of `forebay steer` does not count.
The fool is a linker whose manager drops what it has just used; the innocent is PostgreSQL, without a manager. Keeps every run as JSON in runs/;
`--show FILE` prints its tables.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "real"))

import sessions  # noqa: E402 - found by the line above
import stage  # noqa: E402
from programs import Cast  # noqa: E402

FOOLISH = "a foolish manager"
MANAGERS = HERE / "managers.toml"
ALONE = ("cscope", "ld", "postgres")
INNOCENT = ("ld", "postgres")


def options():
    parser = sessions.parser(__doc__, delay="ultrastar-18zx", policies=f"kernel,lru,{sessions.SUGGESTED},{sessions.MANAGED}", sizes="4,8,12")
    parser.add_argument("--parts", default="alone,together,innocent", help="which")
    return parser.parse_args()


def plan(given):
    """Part, programs, size, name of the cache, policy and file of managers of each run of a round."""
    parts, sizes = given.parts.split(","), [float(size) for size in given.sizes.split(",")]
    groups = [("alone", (name,)) for name in ALONE] + [("together", ALONE)]
    for part, names in groups:
        for size in sizes if part in parts else ():
            for which in given.caches.split(","):
                policy = which.replace(sessions.MANAGED, "lru-sp").replace(sessions.SUGGESTED, "lru-sp")
                yield part, names, size, which, policy, MANAGERS if which.endswith(sessions.MANAGED) else None
    fronts = [name for name in dict.fromkeys(map(front, given.caches.split(","))) if name != stage.KERNEL]
    for size in sizes if "innocent" in parts else ():
        for before in fronts:
            yield from innocent(before, size)


def front(which):
    """What comes before the policy in the name of a cache: the kernel's name, how it is steered, or nothing, for a mount."""
    return next((front for front in (stage.KERNEL, stage.STEERED_BESIDE, stage.STEERED) if which.startswith(front)), "")


def innocent(before, size):
    """The innocent alone, beside a linker without a manager, and beside the fool."""
    lru = f"{before}lru"
    yield "innocent", ("postgres",), size, lru, lru, None
    yield "innocent", INNOCENT, size, lru, lru, None
    fool = HERE / "foolish.toml"
    yield "innocent", INNOCENT, size, before + FOOLISH, f"{before}lru-sp", fool
    if not before:
        yield "innocent", INNOCENT, size, f"{FOOLISH}, no place-holders", "lru-sp:place-holders=off", fool
    yield "innocent", INNOCENT, size, f"{before}{FOOLISH}, revoked", f"{before}lru-sp:revoke=64", fool


def measure_all(given):
    sessions.begin(given)
    cast = Cast(ALONE)
    sessions.need(*cast.needs)
    session = sessions.Session("acfc", given, HERE)
    with stage.folder() as work:
        place = stage.Stage(given.forebay, work, 512 * stage.MIB, given.delay, lambda directory: cast.fill(directory, work), cast.commands(ALONE))
        session.note(delay_check=place.check_delay())
        for turn in range(given.rounds):
            for part, names, size, which, cache, managers in plan(given):
                labels = {"part": part, "combination": "+".join(names), "size": size, "which": which, "round": turn}
                if which == sessions.SUGGESTED:
                    managers = stage.suggested(place, size)
                session.run(labels, stage.measure, place, stage.by_size(cache, size), size, cast.commands(names), managers=managers)
    return session.kept["runs"]


def show(runs):
    for part in dict.fromkeys(run["part"] for run in runs):
        of = [run for run in runs if run["part"] == part]
        print(f"\nSeconds of each program in the order of their names, device reads, hit ratio in percent (forecast), {part}:\n")
        caches = sessions.caches(of)
        rows = []
        for combination, size in dict.fromkeys((run["combination"], run["size"]) for run in of):
            here = [sessions.chosen(of, combination=combination, size=size, which=cache) for cache in caches]
            rows.append([combination, sessions.mib(size, sum(here, [])), *(cell(combination, runs) for runs in here)])
        sessions.table(["programs", "MiB", *caches], rows)
        sessions.show_against_kernel(of, ["combination", "size"], {"seconds of all": all_seconds, "device reads": device_reads})
    show_steered([run for run in runs if run["part"] != "innocent"])
    show_innocent([run for run in runs if run["part"] == "innocent"])


def all_seconds(run):
    return sum(program["seconds"] for program in run["programs"].values())


def seconds(name):
    return lambda run: run["programs"][name]["seconds"]


def against(ours, theirs, figure):
    return sessions.difference(sessions.median(ours, figure), sessions.median(theirs, figure))


def show_steered(runs):
    """Each program's time and the device reads against the kernel's, and the sum of the reads."""
    caches = dict.fromkeys(run["which"] for run in runs if front(run["which"]) in (stage.STEERED, stage.STEERED_BESIDE))
    for which in caches:
        print(f"\n{which}: seconds of each program and device reads, against the kernel's:\n")
        rows, reads = [], []
        for part, combination, size in dict.fromkeys((run["part"], run["combination"], run["size"]) for run in runs):
            ours, theirs = (sessions.chosen(runs, part=part, combination=combination, size=size, which=cache) for cache in (which, stage.KERNEL))
            if not ours or not theirs:
                continue
            times = ", ".join(against(ours, theirs, seconds(name)) for name in combination.split("+"))
            reads.append([sessions.median(of, device_reads) for of in (ours, theirs)])
            rows.append([combination, sessions.mib(size, ours), times, sessions.difference(*reads[-1])])
        if rows:
            rows.append(["sum", "", "", sessions.difference(*map(sum, zip(*reads)))])
            sessions.table(["programs", "MiB", "seconds", "device reads"], rows)


def show_innocent(runs):
    """What a fool costs the innocent, against the same programs without a manager."""
    rows = []
    for which, size in dict.fromkeys((run["which"], run["size"]) for run in runs if FOOLISH in run["which"]):
        labels = {"combination": "+".join(INNOCENT), "size": size}
        fool, without = (sessions.chosen(runs, which=cache, **labels) for cache in (which, f"{front(which)}lru"))
        if fool and without:
            rows.append([which, sessions.mib(size, fool), *(against(fool, without, seconds(name)) for name in INNOCENT), against(fool, without, device_reads)])
    if rows:
        print("\nBeside the fool, against both under LRU:\n")
        sessions.table(["cache", "MiB", *(f"seconds of {name}" for name in INNOCENT), "device reads"], rows)


def device_reads(run):
    return run["device"]["reads"]


def cell(combination, runs):
    if not runs:
        return "–"
    times = " ".join(sessions.cells(runs, seconds(name)) for name in combination.split("+"))
    said = f"{times}; {sessions.cells(runs, device_reads, '{:.0f}')}"
    if all("forecast_hit_ratio" in run for run in runs):
        ratios = [sessions.cells(runs, lambda run: 100 * run[what]) for what in ("hit_ratio", "forecast_hit_ratio")]  # noqa: B023
        said += f"; {ratios[0]} ({ratios[1]})"
    return said


if __name__ == "__main__":
    sessions.main(options(), measure_all, show)
