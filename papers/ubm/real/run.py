#!/usr/bin/python3
"""UBM's experiment on a running system (section 5: Figures 13 and 14): elapsed times of programs alone and at once, by cache.

    papers/ubm/real/run.py --forebay target/release/forebay      # as root; some 45 minutes a round

Alone: each program in a cache of the middle size. Together: the paper's combinations at three sizes. Overhead: two of them beside a program that only
computes. Keeps every run as JSON in runs/; `--show FILE` prints its tables.
"""

import itertools
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "real"))

import sessions  # noqa: E402 - found by the line above
import stage  # noqa: E402
from programs import Cast  # noqa: E402

BASE = ("cpp", "postgres", "cscope")
TOGETHER = (BASE, (*BASE, "player"), ("glimpse", *BASE), ("glimpse", *BASE, "player"))
OVERHEAD = (("cpu_bound", *BASE), ("cpu_bound", "glimpse", *BASE))
ALONE = ("cscope", "cpp", "postgres", "glimpse", "player")


def options():
    parser = sessions.parser(__doc__, delay="ultrastar-18zx", policies=f"kernel,lru,{sessions.SUGGESTED},seq,ubm", sizes="8,12,16")
    parser.add_argument(
        "--more",
        default="clock,linux,clock-pro,dulo,lru-sp",
        help="caches measured in the middle size with the first combination alone",
    )
    parser.add_argument("--parts", default="together,alone,overhead", help="which")
    return parser.parse_args()


def plan(given):
    """Part, programs, size and cache of each run of a round: those to be compared lie next to each other."""
    sizes, caches = [float(size) for size in given.sizes.split(",")], given.caches.split(",")
    middle = sizes[len(sizes) // 2]
    parts = given.parts.split(",")
    if "together" in parts:
        for names, size in itertools.product(TOGETHER, sizes):
            more = given.more.split(",") if given.more and (names, size) == (BASE, middle) else []
            yield from (("together", names, size, cache) for cache in caches + more)
    if "alone" in parts:
        yield from (("alone", (name,), middle, cache) for name, cache in itertools.product(ALONE, caches))
    if "overhead" in parts:
        yield from (("overhead", names, middle, cache) for names, cache in itertools.product(OVERHEAD, ("lru", "ubm")))


def measure_all(given):
    sessions.begin(given)
    cast = Cast(["cpu_bound", *ALONE])
    sessions.need(*cast.needs)
    session = sessions.Session("ubm", given, HERE)
    with stage.folder() as work:
        place = stage.Stage(
            given.forebay, work, 512 * stage.MIB, given.delay, lambda directory: cast.fill(directory, work), cast.commands(cast.programs)
        )
        session.note(delay_check=place.check_delay())
        for turn in range(given.rounds):
            for part, names, size, cache in plan(given):
                labels = {"part": part, "combination": "+".join(names), "size": size, "which": cache, "round": turn}
                managers = stage.suggested(place, size) if cache == sessions.SUGGESTED else None
                policy = "lru-sp" if managers else stage.by_size(cache, size)
                session.run(labels, stage.measure, place, policy, size, cast.commands(names), managers=managers)
    return session.kept["runs"]


def mean_seconds(run):
    return statistics.mean(program["seconds"] for name, program in run["programs"].items() if name != "cpu_bound")


def show(runs):
    for part in ("together", "alone"):
        of = [run for run in runs if run["part"] == part]
        if not of:
            continue
        print(f"\nSeconds, {part}: the mean over the programs, and device reads:\n")
        caches = sessions.caches(of)
        rows = []
        for combination, size in dict.fromkeys((run["combination"], run["size"]) for run in of):
            here = {cache: sessions.chosen(of, combination=combination, size=size, which=cache) for cache in caches}
            row = [combination, f"{size:g}"]
            row += [
                sessions.cells(here[cache], mean_seconds) + "; " + sessions.cells(here[cache], lambda run: run["device"]["reads"], "{:.0f}")
                for cache in caches
            ]
            ubm, lru = here.get("ubm"), here.get("lru")
            row.append(sessions.difference(sessions.median(ubm, mean_seconds), sessions.median(lru, mean_seconds)) if ubm and lru else "–")
            rows.append(row)
        sessions.table(["programs", "MiB", *caches, "ubm to lru"], rows)
        sessions.show_against_kernel(of, ["combination", "size"], {"seconds": mean_seconds, "device reads": lambda run: run["device"]["reads"]})
    show_programs([run for run in runs if run["part"] == "together"])
    show_ratios([run for run in runs if run["part"] == "together"])
    show_overhead([run for run in runs if run["part"] == "overhead"])


def gains(runs):
    """Of each program in each combination and size: UBM's seconds by LRU's."""
    for combination, size in dict.fromkeys((run["combination"], run["size"]) for run in runs):
        ubm, lru = (sessions.chosen(runs, combination=combination, size=size, which=cache) for cache in ("ubm", "lru"))
        for name in combination.split("+") if ubm and lru else []:
            seconds = lambda run: run["programs"][name]["seconds"]  # noqa: B023, E731 - called at once
            yield name, combination, size, sessions.median(ubm, seconds) / sessions.median(lru, seconds) - 1


def show_programs(runs):
    found = list(gains(runs))
    if not found:
        return
    print("\nElapsed time under UBM against LRU, over the combinations and sizes:\n")
    rows = []
    for name in (*ALONE, "all"):
        of = [gain for program, *_, gain in found if name in (program, "all")]
        rows.append(
            [name, *(f"{100 * figure:+.0f} %".replace("-", "−") for figure in (statistics.mean(of), min(of), max(of)))]
            if of
            else [name, "–", "–", "–"]
        )
    sessions.table(["program", "mean", "best", "worst"], rows)


def show_ratios(runs):
    of = [run for run in runs if "forecast_hit_ratio" in run]
    if not of:
        return
    print("\nHit ratio of the mount in percent, measured / forecast from the recorded trace:\n")
    caches = sessions.caches(of)
    both = lambda run: f"{100 * run['hit_ratio']:.1f} / {100 * run['forecast_hit_ratio']:.1f}"  # noqa: E731
    rows = []
    for combination, size in dict.fromkeys((run["combination"], run["size"]) for run in of):
        here = [sessions.chosen(of, combination=combination, size=size, which=cache) for cache in caches]
        rows.append([combination, f"{size:g}", *("; ".join(map(both, cell)) or "–" for cell in here)])
    sessions.table(["programs", "MiB", *caches], rows)
    worst = max(abs(run["hit_ratio"] - run["forecast_hit_ratio"]) for run in of)
    print(f"\nThe worst forecast is {100 * worst:.2f} points off; the bar is 2.")


def show_overhead(runs):
    if not runs:
        return
    print("\nThe program that computes: seconds, and its processor seconds (Figure 14):\n")
    rows = []
    for combination in dict.fromkeys(run["combination"] for run in runs):
        row = [combination]
        for cache in ("lru", "ubm"):
            of = sessions.chosen(runs, combination=combination, which=cache)
            row += [sessions.cells(of, lambda run: run["programs"]["cpu_bound"][what]) for what in ("seconds", "cpu")]  # noqa: B023
        rows.append(row)
    sessions.table(["programs", "lru, s", "lru, processor s", "ubm, s", "ubm, processor s"], rows)


if __name__ == "__main__":
    sessions.main(options(), measure_all, show)
