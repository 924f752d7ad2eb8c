#!/usr/bin/python3
"""What a user would ask of memory: is the pager faster than the kernel's mmap and UMap for a loop beside an index, a sort, a database in memory?

    papers/real/memory.py --forebay target/release/forebay      # as root; some 10 minutes a round

Scan: an array larger than the memory, read in a loop beside a hot index, mapped from a file on a slow volume. Programs: a loop over a third more
than the memory, and sort, SQLite and Redis with four times it. Umapsort: UMap's own example, by both. Keeps every run as JSON in runs/; `--show FILE` prints tables.
"""

import contextlib
import os
import pathlib
import re
import subprocess
import time

import large
import paging
import sessions
import stage
from stage import KIB, MIB
from volumes.checks import Failed, run

HERE = pathlib.Path(__file__).resolve().parent
UMAP = stage.ROOT.parent / "shared/peers/umap.tar.zst"
UMAP_SYSTEM = "umap"
# Behind a policy: nothing is read ahead.
ALONE = " without readahead"
# Behind a policy: a fault is handled by the thread that has it.
IN_PLACE = ", in place"
PROGRAMS = {program.name: program for program in (large.Loop, large.Sort, large.Sqlite, large.Redis)}
# The scan: megabytes of memory, index and array, and how often the array is read.
MEMORY, INDEX, ARRAY, LOOPS = 16, 4, 24, 3
SCAN_DISK = "network-block"
# Umapsort's data is twice this many megabytes.
SORTED = 32


def options():
    parser = paging.options(__doc__, delay="sata-ssd", policies="clock,lru,clock-pro,kernel")
    parser.add_argument("--parts", default=",".join(("scan", *PROGRAMS, "umapsort")), help="which")
    parser.add_argument("--umap", type=pathlib.Path, default=UMAP, help="UMap 2.1.0 as an archive, which is built in target/")
    parser.add_argument("--scan-caches", default=f"{stage.KERNEL},{UMAP_SYSTEM},clock-pro,lirs,mru,clock-pro{ALONE},lirs{ALONE},mru{ALONE}", help="who maps the array")
    return parser.parse_args()


class Umap:
    """UMap, built once from its archive."""

    def __init__(self, archive):
        if not archive.exists():
            raise Failed(f"UMap is not measured: there is no {archive}; --umap names its archive")
        sessions.need("cmake", "g++", "make", "tar", "zstd")
        self.place = stage.ROOT / "target/umap"
        self.source, self.library = self.place / "umap", self.place / "build/src/umap"
        if not (self.library / "libumap.so").exists():
            self.place.mkdir(parents=True, exist_ok=True)
            run("tar", "--zstd", "-xf", archive, "-C", self.place)
            run("cmake", "-S", self.source, "-B", self.place / "build", "-DCMAKE_BUILD_TYPE=Release")
            run("make", "-C", self.place / "build", "umap")
        self.include = [f"-I{self.source}/src"]
        self.link = [f"-L{self.library}", "-lumap", "-lpthread", "-lrt", f"-Wl,-rpath,{self.library}"]


class Ours:
    def __init__(self, forebay):
        library = forebay.parent
        if not (library / "libforebay_pager_c.so").exists():
            raise Failed(f"there is no libforebay_pager_c.so beside {forebay}: cargo build --release -p forebay-pager-c")
        self.include = [f"-I{stage.ROOT / 'include'}"]
        self.link = [f"-L{library}", "-lforebay_pager_c", f"-Wl,-rpath,{library}"]


def peer(given):
    """UMap, or nothing, and then why."""
    try:
        return Umap(given.umap)
    except Failed as why:
        print(why, flush=True)
        return None


def measure_all(given):
    sessions.begin(given)
    sessions.need("g++")
    session = sessions.Session("memory", given, HERE)
    for part in given.parts.split(","):
        if part == "scan":
            measure_scan(session, given)
        elif part == "umapsort":
            measure_umapsort(session, given)
        else:
            program = PROGRAMS[part]()
            # What a user gives is the limit: what managing it takes is in it.
            paging.measure_program(session, given, program, paging.percents(given, program), {"part": "programs"}, whole=True)
    return session.kept["runs"]


def measure_scan(session, given):
    umap, ours = peer(given), Ours(given.forebay)
    with stage.folder() as work:
        build = lambda name, *words: run("g++", "-O2", HERE / "scan.cpp", "-o", work / name, *words)  # noqa: E731
        build("scan-kernel")
        build("scan-ours", "-DFOREBAY", *ours.include, *ours.link)
        if umap:
            build("scan-umap", "-DUMAP", *umap.include, *umap.link)

        def fill(directory):
            with (directory / "array").open("wb") as file:
                # Different bytes in each page, so that the sums say whether all was read.
                for page in range((INDEX + ARRAY) * MIB // stage.PAGE):
                    file.write((page * 2654435761 % (1 << 64)).to_bytes(8, "little") * (stage.PAGE // 8))

        place = stage.Stage(given.forebay, work, 256 * MIB, SCAN_DISK, fill)
        session.note(delay_check_scan=place.check_delay())
        for turn in range(given.rounds):
            for which in given.scan_caches.split(","):
                if which != UMAP_SYSTEM or umap:
                    session.run({"part": "scan", "which": which, "round": turn}, one_scan, place, which)


def one_scan(place, which):
    program = {stage.KERNEL: "scan-kernel", UMAP_SYSTEM: "scan-umap"}.get(which, "scan-ours")
    memory, policy = MEMORY * MIB, which.replace(ALONE, " random")
    said = place.work / "said"
    settings = f"UMAP_PAGESIZE={stage.PAGE} UMAP_BUFSIZE={memory // stage.PAGE}"
    with place.cold() as (directory, server), contextlib.ExitStack() as stack:
        words = f"{place.work}/{program} {directory}/array {INDEX * MIB // stage.PAGE} {LOOPS} {memory} {policy} >{said}"
        group = stack.enter_context(stage.Group(memory)) if which == stage.KERNEL else paging.Anywhere()
        before = stage.device(server)
        begin = time.perf_counter()
        figures = stage.run_all({"scan": ["sh", "-c", f"{settings} exec {words}"]}, place.work, group)
        elapsed = time.perf_counter() - begin
        told = said.read_text()
        device = stage.since(before, stage.device(server))
    loops = [[float(figure) for figure in line.split()[1:]] for line in told.splitlines() if line.startswith("loop")]
    faults = next((line.split()[1:] for line in told.splitlines() if line.startswith("pager")), [])
    result = {"cache": which, "elapsed": elapsed, "programs": figures, "pager": dict(zip(faults[1::2], map(int, faults[::2]))), "loop_seconds": [loop[0] for loop in loops]}
    return result | {"look_us": [loop[1] for loop in loops], "sum": told.split()[-1], "device": device}


def measure_umapsort(session, given):
    umap, ours = peer(given), Ours(given.forebay)
    if not umap:
        return
    example = umap.source / "examples/umapsort"
    with stage.folder() as work:
        build = ["g++", "-O3", "-w", "-fopenmp", *umap.include, f"-I{example}", example / "main.cpp"]
        run(*build, *umap.link, "-o", work / "sort-umap")
        run(*build, *ours.include, HERE / "umap_by_forebay.cpp", *ours.link, "-o", work / "sort-ours")
        for turn in range(given.rounds):
            for page in (4 * KIB, 16 * KIB):
                policies = [cache for cache in given.caches.split(",") if cache != stage.KERNEL]
                for which in (UMAP_SYSTEM, *policies, *(policy + IN_PLACE for policy in policies)):
                    session.run({"part": "umapsort", "page": page, "which": which, "round": turn}, one_sort, work, which, page)


def one_sort(work, which, page):
    program = work / ("sort-umap" if which == UMAP_SYSTEM else "sort-ours")
    sizes = {"UMAP_PAGESIZE": str(page), "UMAP_BUFSIZE": str(SORTED * MIB // page), "FOREBAY_POLICY": which.removesuffix(IN_PLACE)}
    sizes |= {"FOREBAY_IN_PLACE": "1"} if which.endswith(IN_PLACE) else {}
    begin = time.perf_counter()
    words = [program, "-f", work / "sorted", "-p", str(2 * SORTED * MIB // page), "-N", "1", "-t", "2"]
    try:
        done = subprocess.run(list(map(str, words)), env=os.environ | sizes, capture_output=True, text=True, timeout=paging.MOST_SECONDS)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"umapsort did not end within {paging.MOST_SECONDS} s") from late
    if done.returncode or "error" in done.stderr:
        raise Failed(f"umapsort failed with exit code {done.returncode}: {done.stderr[-500:]}")
    seconds = {name.lower(): float(figure) for name, figure in re.findall(r"(INIT|Sort|Validate|TERM) took ([\d.]+)", done.stderr)}
    return {"cache": which, "elapsed": time.perf_counter() - begin, "seconds": seconds}


def show(runs):
    scans = [run for run in runs if run["part"] == "scan"]
    if scans:
        if len({run["sum"] for run in scans}) > 1:
            raise Failed("the sums of the scans differ: they have not read the same")
        print("\nA scan in a loop beside an index: seconds of a loop after the first, microseconds of a look into the index, device reads:\n")
        rows = []
        for which in sessions.caches(scans):
            here = sessions.chosen(scans, which=which)
            loops = lambda run, name: sum(run[name][1:]) / len(run[name][1:])  # noqa: E731
            row = [which, sessions.cells(here, lambda run: loops(run, "loop_seconds"), "{:.2f}")]
            row += [sessions.cells(here, lambda run: loops(run, "look_us"))]
            row += [sessions.cells(here, lambda run: run["device"]["reads"], "{:.0f}")]
            rows.append([*row, sessions.cells(here, lambda run: run["device"]["read_bytes"] / MIB, "{:.0f}")])
        sessions.table(["cache", "seconds a loop", "µs a look", "device reads", "MiB"], rows)
    for name in dict.fromkeys(run["program"] for run in runs if run["part"] == "programs"):
        of = [run for run in runs if run.get("program") == name]
        print(f"\n{name}, {of[0]['mib']:.0f} MiB, {of[0]['percent']:.0f} % of its memory; the kernel's seconds are of another disk:\n")
        rows = []
        for which in sessions.caches(of):
            here = sessions.chosen(of, which=which)
            row = [which, sessions.cells(here, lambda run: run["elapsed"])]
            row += [sessions.cells(here, lambda run: run[what], "{:.0f}") for what in ("major", "pages_read", "pages_written")]  # noqa: B023
            mean = lambda run: stage.PAGE / KIB * run["pages_read"] / run["reads"] if run.get("reads") else 0  # noqa: E731
            rows.append([*row, sessions.cells(here, mean, "{:.0f}")])
        sessions.table(["cache", "seconds", "major faults", "pages read", "pages written", "KiB a read"], rows)
    show_umapsort([run for run in runs if run["part"] == "umapsort"])


def show_umapsort(runs):
    if not runs:
        return
    print(f"\numapsort, {2 * SORTED} MiB in {SORTED}, seconds:\n")
    rows = []
    for page in sorted({run["page"] for run in runs}):
        theirs = sessions.chosen(runs, page=page, which=UMAP_SYSTEM)
        for which in sessions.caches(runs):
            here = sessions.chosen(runs, page=page, which=which)
            if here and theirs:
                ratio = sessions.median(here, lambda run: run["elapsed"]) / sessions.median(theirs, lambda run: run["elapsed"])
                row = [f"{page // KIB} KiB", which, sessions.cells(here, lambda run: run["elapsed"], "{:.2f}")]
                rows.append([*row, sessions.cells(here, lambda run: run["seconds"]["sort"], "{:.2f}"), f"{ratio:.2f}"])
    sessions.table(["page", "system", "in all", "sort", "by UMap's"], rows)


if __name__ == "__main__":
    sessions.main(options(), measure_all, show)
