"""A session of runs: its options, the runs in turns, raw figures kept after each, tables."""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import stage
from measure import ROOT, machine, program, spread, table
from volumes import mounted
from volumes.checks import Failed, Skipped


MANAGED = "lru-sp with managers"
# Managers that `forebay managers` finds in what LRU, measured right before, has recorded.
SUGGESTED = "lru-sp as suggested"
# Debian's packages, where they are called other than their program.
PACKAGES = {
    "ar": "binutils",
    "awk": "mawk",
    "blastn": "ncbi-blast+",
    "chown": "coreutils",
    "cp": "coreutils",
    "db_bench": "rocksdb-tools",
    "diff": "diffutils",
    "e2fsck": "e2fsprogs",
    "fallocate": "util-linux",
    "fusermount3": "fuse3",
    "gap": "gap-core",
    "glimpseindex": "glimpse",
    "ld": "binutils",
    "losetup": "mount",
    "gnuplot": "gnuplot-nox",
    "makeblastdb": "ncbi-blast+",
    "mkswap": "util-linux",
    "mkfs.ext4": "e2fsprogs",
    "nbdfuse": "libnbd-bin",
    "redis-cli": "redis-tools",
    "rg": "ripgrep",
    "setpriv": "util-linux",
    "sort": "coreutils",
    "swapoff": "mount",
    "swapon": "mount",
    "sync": "coreutils",
    "umount": "mount",
    "xargs": "findutils",
}


def need(*programs):
    """Says what is missing, and how it is installed."""
    missing = [program for program in programs if not shutil.which(program)]
    packages = " ".join(sorted({PACKAGES.get(program, program) for program in missing}))
    if missing:
        raise Failed(f"not installed: {', '.join(missing)}; on Debian: apt-get install {packages}")


def parser(doc, *, delay, policies, sizes):
    options = argparse.ArgumentParser(description=doc.split("\n", 1)[0])
    options.add_argument("--forebay", type=program, help="the program; by default it is built with `cargo build --release`")
    options.add_argument("--caches", default=policies, help=f"policies of the mount, and `{stage.KERNEL}` for the kernel's page cache")
    options.add_argument("--sizes", default=sizes, help="MiB of the cache")
    options.add_argument("--delay", default=delay, help="the disk: a preset of `forebay devices`, or a TOML file")
    options.add_argument("--rounds", type=int, default=1, help="how often each is measured, in turns")
    options.add_argument("--quick", action="store_true", help="one size and two caches, to see that it works")
    options.add_argument("--out", type=pathlib.Path, help="the file for the raw figures")
    options.add_argument("--show", type=pathlib.Path, nargs="+", metavar="FILE", help="only print the tables of kept figures")
    return options


def begin(given):
    """Ends in order on SIGTERM, and sees to the program and the sizes."""
    stage.serving.end_in_order()
    if given.forebay is None:
        subprocess.run(["cargo", "build", "--release", "--locked", "-p", "forebay"], cwd=ROOT, check=True)
        given.forebay = ROOT / "target/release/forebay"
    if given.quick:
        given.caches, given.sizes = "lru," + given.caches.split(",")[-1], given.sizes.split(",")[0]


class Session:
    """The runs of one experiment, kept as they come: a session that is stopped has those before."""

    def __init__(self, name, given, folder):
        self.file = given.out or folder / "runs" / f"{time.strftime('%Y-%m-%d')}-{name}.json"
        options = {key: str(value) if isinstance(value, pathlib.Path) else value for key, value in vars(given).items()}
        for where in ("forebay", "out", "show"):
            options.pop(where)
        self.kept = {"options": options, "machine": machine() | {"forebay": stage.serving.version(given.forebay, "--version")}, "runs": []}

    def note(self, **figures):
        self.kept |= figures
        self.write()

    def run(self, labels, measure, *what, **options):
        """One run, with its labels: `measure` of what follows. A program that fails is kept as such, and the session goes on."""
        started = time.monotonic()
        try:
            result = measure(*what, **options)
        except Failed as error:
            result = {"failed": str(error)}
        self.kept["runs"].append(labels | result | {"machine_load": os.getloadavg()[0]})
        self.write()
        said = result.get("failed") or f"{result['elapsed']:.1f} s"
        print(*labels.values(), result.get("cache", ""), said, f"({time.monotonic() - started:.0f} s in all)", file=sys.stderr, flush=True)

    def write(self):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(self.kept, indent=1) + "\n")


def kept_runs(file):
    """The runs of a file, each with what its session was asked to read ahead, if it says so."""
    kept = json.loads(file.read_text())
    return [{"readahead": kept["options"].get("readahead")} | run for run in kept["runs"]]


def main(given, measure_all, show):
    """Measures, or shows what was, and says in one sentence what is missing."""
    if given.show:
        return show([run for file in given.show for run in kept_runs(file) if "failed" not in run])
    try:
        mounted.need_devices()
        need(*stage.NEEDS)
        show([run for run in measure_all(given) if "failed" not in run])
    except (Failed, Skipped) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("stopped: the runs before are kept")


def median(runs, figure):
    return statistics.median(figure(run) for run in runs)


def chosen(runs, **labels):
    return [run for run in runs if all(run.get(name) == value for name, value in labels.items()) and "failed" not in run]


def caches(runs):
    """The caches of runs as they were measured, but that of the kernel alone first: it is what users have for nothing."""
    found = list(dict.fromkeys(run["which"] for run in runs))
    return sorted(found, key=lambda cache: cache != stage.KERNEL)


def show_against_kernel(runs, labels, figures):
    """Says of each cache in how many cells it has less than the kernel alone. What differs between cells: `labels`. `figures`: a function of a run for each name."""
    rows = []
    for cache in caches(runs)[1:]:
        pairs = []
        for values in dict.fromkeys(tuple(run.get(label) for label in labels) for run in runs):
            here = dict(zip(labels, values))
            pair = [chosen(runs, which=which, **here) for which in (cache, stage.KERNEL)]
            if all(pair):
                pairs.append(pair)
        row = [cache, str(len(pairs))]
        for figure in figures.values():
            ratios = [median(ours, figure) / median(theirs, figure) for ours, theirs in pairs if median(theirs, figure)]
            less, more = (sum(holds(ratio) for ratio in ratios) for holds in (lambda ratio: ratio < 1, lambda ratio: ratio > 1))
            row += [str(less), str(more), difference(statistics.mean(ratios), 1) if ratios else "–"]
        if pairs:
            rows.append(row)
    if rows:
        print("\nAgainst the kernel alone: in how many cells a cache has less, in how many more, and the mean difference:\n")
        table(["cache", "cells", *(f"{name}{what}" for name in figures for what in (": less", ": more", ", mean"))], rows)


def cells(runs, figure, form="{:.1f}"):
    return spread([figure(run) for run in runs], form) if runs else "–"


def mib(size, runs):
    """A size for a table: `beside` where the memory of the program that steers does not count."""
    return f"{size:g}" + (", beside" if any(run["cache"].startswith(stage.STEERED_BESIDE) for run in runs) else "")


def difference(ours, theirs):
    return f"{100 * (ours / theirs - 1):+.0f} %".replace("-", "−")


__all__ = ["MANAGED", "SUGGESTED", "Session", "begin", "caches", "cells", "chosen", "difference", "main", "median", "mib", "need", "parser", "show_against_kernel", "table"]
