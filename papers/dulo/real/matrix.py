#!/usr/bin/python3
"""DULO's experiment on virtual memory (section 4.4, Figure 6): a sparse matrix times a vector, by execution time and lengths of sequences.

    papers/dulo/real/matrix.py --forebay target/release/forebay      # as root; some 4 minutes a round

SciMark2's matrix under `forebay run` with Linux's lists, LRU and DULO on the disk's model, and under the kernel's own paging by faults alone. Keeps
every run as JSON in runs/; `--show FILE` prints its tables.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "real"))

import large  # noqa: E402 - found by the line above
import paging  # noqa: E402
import sessions  # noqa: E402


def options():
    return paging.options(__doc__, delay="desktop-7200", policies="linux:access=process,dulo:base=linux:access=process,lru,dulo,kernel").parse_args()


def measure_all(given):
    sessions.begin(given)
    session = sessions.Session("dulo-matrix", given, HERE)
    program = large.Matrix()
    paging.measure_program(session, given, program, paging.percents(given, program), {})
    return session.kept["runs"]


def show(runs):
    caches = sessions.caches(runs)
    percents = sorted({run["percent"] for run in runs})
    for title, figure, form in (
        ("Execution times in seconds (those of `forebay run` are of another disk)", lambda run: run["elapsed"], "{:.1f}"),
        ("Pages read from swap space", lambda run: run["pages_read"], "{:.0f}"),
    ):
        print(f"\n{title}:\n")
        rows = []
        for percent in percents:
            here = [sessions.chosen(runs, percent=percent, which=cache) for cache in caches]
            rows.append([f"{percent:g}", f"{here[0][0]['mib']:.1f}" if here[0] else "–", *(sessions.cells(runs, figure, form) for runs in here)])
        sessions.table(["% of its memory", "MiB", *caches], rows)
    # The seconds of `forebay run` are of another disk than the kernel's.
    sessions.show_against_kernel(runs, ["percent"], {"pages read": lambda run: run["pages_read"]})
    print(f"\nSequences read: requests, and percent of the sequences that have no more than {', '.join(map(str, paging.LENGTHS))} blocks:\n")
    rows = []
    for percent in percents:
        for cache in caches:
            of = [run for run in sessions.chosen(runs, percent=percent, which=cache) if "sequences" in run]
            if of:
                counts = [sum(counts) for counts in zip(*(run["sequences"] for run in of))]
                requests = sessions.cells(of, lambda run: run["reads"], "{:.0f}")
                rows.append([f"{percent:g}", cache, requests, sum(counts) // len(of), *(f"{share:.0f}" for share in paging.shares(counts))])
    sessions.table(["%", "cache", "requests", "sequences", *map(str, paging.LENGTHS)], rows)


if __name__ == "__main__":
    sessions.main(options(), measure_all, show)
