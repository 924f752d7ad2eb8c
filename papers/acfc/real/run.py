#!/usr/bin/python3
"""ACFC's experiments on a running system: cscope, linking and PostgreSQL with the paper's managers, alone and at once; and an innocent beside a fool.

    papers/acfc/real/run.py --forebay target/release/forebay      # as root; some 20 minutes a round

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
                managed = which in (sessions.MANAGED, sessions.SUGGESTED)
                yield part, names, size, which, "lru-sp" if managed else which, MANAGERS if which == sessions.MANAGED else None
    for size in sizes if "innocent" in parts else ():
        yield "innocent", ("postgres",), size, "lru", "lru", None
        yield "innocent", INNOCENT, size, "lru", "lru", None
        yield "innocent", INNOCENT, size, FOOLISH, "lru-sp", HERE / "foolish.toml"
        yield "innocent", INNOCENT, size, f"{FOOLISH}, no place-holders", "lru-sp:place-holders=off", HERE / "foolish.toml"
        yield "innocent", INNOCENT, size, f"{FOOLISH}, revoked", "lru-sp:revoke=64", HERE / "foolish.toml"


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
                session.run(labels, stage.measure, place, cache, size, cast.commands(names), managers=managers)
    return session.kept["runs"]


def show(runs):
    for part in dict.fromkeys(run["part"] for run in runs):
        of = [run for run in runs if run["part"] == part]
        print(f"\nSeconds of each program in the order of their names, device reads, hit ratio in percent (forecast), {part}:\n")
        caches = list(dict.fromkeys(run["which"] for run in of))
        rows = []
        for combination, size in dict.fromkeys((run["combination"], run["size"]) for run in of):
            here = [sessions.chosen(of, combination=combination, size=size, which=cache) for cache in caches]
            rows.append([combination, f"{size:g}", *(cell(combination, runs) for runs in here)])
        sessions.table(["programs", "MiB", *caches], rows)


def cell(combination, runs):
    if not runs:
        return "–"
    seconds = " ".join(sessions.cells(runs, lambda run: run["programs"][name]["seconds"]) for name in combination.split("+"))  # noqa: B023
    said = f"{seconds}; {sessions.cells(runs, lambda run: run['device']['reads'], '{:.0f}')}"
    if "hit_ratio" in runs[0]:
        ratios = [sessions.cells(runs, lambda run: 100 * run[what]) for what in ("hit_ratio", "forecast_hit_ratio")]  # noqa: B023
        said += f"; {ratios[0]} ({ratios[1]})"
    return said


if __name__ == "__main__":
    sessions.main(options(), measure_all, show)
