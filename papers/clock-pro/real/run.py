#!/usr/bin/python3
"""CLOCK-Pro's experiments on a running system (sections 5.1.3 and 5.2): programs whose memory is paged, and programs beside accesses to files.

    papers/clock-pro/real/run.py --forebay target/release/forebay      # as root; some 15 minutes a round

Programs: gnuplot, gzip and gap in six sizes of memory, by page faults and execution times (Figures 5 and 6), and how far the hands go (Table 6).
Tables: the faults of a matrix and of a sort, alone and beside accesses to a file in one memory (Tables 4 and 5). Keeps every run as JSON in
runs/; `--show FILE` prints tables.
"""

import json
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "real"))

import large  # noqa: E402 - found by the line above
import paging  # noqa: E402
import sessions  # noqa: E402
import stage  # noqa: E402
from volumes.checks import Failed, run  # noqa: E402

PAPER = (large.Gnuplot, large.Gzip, large.Gap)
PROGRAMS = {program.name: program for program in (*PAPER, large.Redis, large.Sqlite, large.Dictionary, large.Java, large.Touch)}
# Of beside.c: pages of the program, and its rounds. The file is accessed some sixteen times as often as the paper's matrix has faults alone.
PAGES, ROUNDS = 1024, {"sor": 5, "sort": 1}
ACCESSES = 80_000
BESIDE = ("clock-pro", "car", "clock")
# Percent of the pages of the program.
SHARES = (25, 50, 75, 95, 105)


def options():
    parser = paging.options(__doc__, delay="desktop-7200", policies="clock,linux,clock-pro,lru,car,kernel")
    parser.add_argument("--parts", default=",".join((*(program.name for program in PAPER), *ROUNDS)), help="which programs, alone or beside accesses to a file")
    return parser.parse_args()


def measure_all(given):
    sessions.begin(given)
    session = sessions.Session("clock-pro", given, HERE)
    for part in given.parts.split(","):
        if part in ROUNDS:
            measure_table(session, given, part)
        else:
            program = PROGRAMS[part]()
            paging.measure_program(session, given, program, paging.percents(given, program), {"part": "programs"})
    return session.kept["runs"]


def measure_table(session, given, name):
    library = given.forebay.parent
    if not (library / "libforebay_pager_c.so").exists():
        raise Failed(f"there is no libforebay_pager_c.so beside {given.forebay}: cargo build --release -p forebay-pager-c")
    sessions.need("gcc")
    shares = [int(size) for size in given.sizes.split(",")] if given.sizes else SHARES
    with stage.folder() as work:
        program, file = work / "beside", work / "file"
        link = [f"-L{library}", "-lforebay_pager_c", f"-Wl,-rpath,{library}"]
        run("gcc", "-O2", f"-I{stage.ROOT / 'include'}", HERE / "beside.c", "-o", program, *link)
        with file.open("wb") as made:
            made.truncate(2 * ACCESSES * stage.PAGE)
        for turn in range(given.rounds):
            for share in shares[: 1 if given.quick else None]:
                for beside in (False, True):
                    for policy in BESIDE:
                        labels = {"part": "tables", "program": name, "percent": share, "beside": beside, "which": policy, "round": turn}
                        session.run(labels, one_beside, program, name, policy, share, file if beside else None)


def one_beside(program, name, policy, share, file):
    size = asked = PAGES * stage.PAGE * share // 100
    begin = time.perf_counter()
    # The limit is such that pages have the size: what managing them takes comes on top.
    for _ in range(6):
        told = said(program, name, PAGES, 0, policy, asked, file, 1)
        if abs(told["frames"] * stage.PAGE - size) <= size / 100:
            break
        asked += size - told["frames"] * stage.PAGE
    told = said(program, name, PAGES, ROUNDS[name], policy, asked, file, ACCESSES)
    return {"cache": policy, "elapsed": time.perf_counter() - begin, "limit": asked, "own_faults": told["major"] - told["file_accesses"]} | told


def said(program, name, pages, rounds, policy, size, file, accesses):
    words = [program, name, pages, rounds, policy, size, *([file, accesses] if file else [])]
    return json.loads(run(*words))


def beside_forecast(run):
    """Percent of faults beside what the simulator has forecast."""
    return 100 * (run["steering"]["misses"] / run["forecast_faults"] - 1)


def hand_steps(run):
    """By `forebay run`, or by what steers; the kernel alone does not say."""
    steered = run.get("steering", {}).get("policy_state", {})
    return run.get("hand_steps_a_page", steered.get("hand steps a fault", 0))


def show(runs):
    programs = [run for run in runs if run["part"] == "programs"]
    for name, readahead in dict.fromkeys((run["program"], run["readahead"]) for run in programs):
        of = [run for run in programs if (run["program"], run["readahead"]) == (name, readahead)]
        caches = sessions.caches(of)
        # The tables of the paper are by memory, and so are these.
        for title, figure, form in (
            ("Execution times in seconds (Figure 6)", lambda run: run["elapsed"], "{:.1f}"),
            ("Pages read from swap space (Figure 5)", lambda run: run["pages_read"], "{:.0f}"),
            ("Faults that waited for them or for a new page", lambda run: run["major"], "{:.0f}"),
            ("Hand steps a page that is brought (Table 6)", hand_steps, "{:.1f}"),
            ("Percent of faults beside the forecast", beside_forecast, "{:+.1f}"),
        ):
            counted = [run for run in of if figure != beside_forecast or "forecast_faults" in run]
            rows = []
            for percent in sorted({run["percent"] for run in counted}):
                here = [sessions.chosen(counted, percent=percent, which=cache) for cache in caches]
                mib = next((runs[0]["mib"] for runs in here if runs), 0)
                rows.append([f"{percent:g}", f"{mib:.1f}", *(sessions.cells(runs, figure, form) for runs in here)])
            if rows:
                print(f"\n{name}, at most {readahead} read ahead: {title}:\n")
                sessions.table(["% of its memory", "MiB", *caches], rows)
        steered = [run for run in of if run["which"] == stage.KERNEL or run["which"].startswith(stage.STEERED)]
        # The seconds of `forebay run` are of another disk than the kernel's.
        sessions.show_against_kernel(steered, ["percent"], {"seconds": lambda run: run["elapsed"]})
        sessions.show_against_kernel(of, ["percent"], {"pages read": lambda run: run["pages_read"]})
    show_tables([run for run in runs if run["part"] == "tables"])


def show_tables(runs):
    for name in dict.fromkeys(run["program"] for run in runs):
        rows = []
        for share in sorted({run["percent"] for run in runs if run["program"] == name}):
            row = [f"{share:g}"]
            for policy in BESIDE:
                for beside in (False, True):
                    here = sessions.chosen(runs, program=name, percent=share, which=policy, beside=beside)
                    row.append(sessions.cells(here, lambda run: run["own_faults"], "{:.0f}"))
            rows.append(row)
        print(f"\nFaults of {name}, alone and beside accesses to a file (Tables 4 and 5):\n")
        sessions.table(["% of its memory", *(f"{policy}{beside}" for policy in BESIDE for beside in ("", ", beside"))], rows)


if __name__ == "__main__":
    sessions.main(options(), measure_all, show)
