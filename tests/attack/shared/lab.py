"""What an attack is given: a folder, the program, how long it may take; and where it says what came out."""

import functools
import json
import os
import subprocess

from shared.bystander import fill
from shared.servers import Failed, Forebay, Nbdkit, QemuNbd, missing, sparse
from shared.wire import MIB

# Bars of the issue. RSS: the cache, a quarter of it, and 32 MiB; the budget of payloads and replies besides.
BUDGET = 256 * MIB
LONGEST_P99 = 50  # milliseconds, of bystanders


def most_memory(cache, budget=BUDGET):
    """The bar for the resident MiB of a server with a cache of so many bytes."""
    return (cache * 1.25 + 32 * MIB + budget) / MIB


class Lab:
    def __init__(self, program, folder, full):
        self.program, self.folder, self.full = program, folder, full
        self.missing_options = set()

    def row(self, figure, ours, unit="", peers=None, at_most=None, at_least=None):
        """A line of the table, `ours` a number, or None for what did not come to an end; `peers` are figures to print beside it. Without
        a bar nothing is asked of it."""
        met = None
        if at_most is not None or at_least is not None:
            met = ours is not None and (at_most is None or ours <= at_most) and (at_least is None or ours >= at_least)
        bar = {"at_most": at_most, "at_least": at_least}
        self.emit({"figure": figure, "ours": ours, "unit": unit, "peers": peers or {}, **bar, "met": met})

    def holds(self, figure, held, why=""):
        """A line whose bar is `yes`; with what was seen if it does not hold."""
        answer = {"figure": figure, "ours": "yes" if held else "no", "unit": "", "peers": {}, "at_least": "yes", "met": bool(held)}
        self.emit(answer if held or not why else answer | {"why": why})

    def note(self, text):
        self.emit({"note": text})

    def skip(self, reason):
        self.emit({"skipped": reason})

    @staticmethod
    def emit(line):
        print(json.dumps(line), flush=True)

    @functools.cached_property
    def help(self):
        return subprocess.run([self.program, "serve", "--help"], capture_output=True, text=True, check=True).stdout

    def knows(self, option):
        return f"{option} " in self.help

    def options(self, **wanted):
        """Those of the options, as `device_timeout="3s"`, that this program has; of the others it says so."""
        words = []
        for key, value in wanted.items():
            option = "--" + key.replace("_", "-")
            if self.knows(option):
                words += [option, value]
            elif option not in self.missing_options:
                self.missing_options.add(option)
                self.note(f"the program has no {option} yet: without it")
        return words

    def volume(self, name="volume", size=64 * MIB, filled=0):
        """The path of a sparse file, the beginning of it with different blocks, of version 1."""
        path = sparse(self.folder / f"{name}.img", size)
        fill(path, filled)
        return path

    def forebay(self, *options, **others):
        return Forebay(self.program, self.folder, *options, **others)

    def nbdkit(self, *words, **others):
        return Nbdkit(self.folder, *words, **others)

    def qemu_nbd(self, path, *options, **others):
        return QemuNbd(self.folder, path, *options, **others)

    def direct_qemu_nbd(self, path):
        """As it is fastest without the kernel's page cache, here."""
        try:
            return self.qemu_nbd(path, "--cache", "none", "--aio", "io_uring")
        except Failed:
            return self.qemu_nbd(path, "--cache", "none", "--aio", "native")

    def has(self, *programs):
        """Whether they are installed; if not, that is a skip."""
        if absent := missing(*programs):
            self.skip(f"not installed: {', '.join(absent)} (tests/install-tools.sh)")
        return not absent

    def has_fuse(self):
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            self.skip("there is no /dev/fuse that may be used, and so no slow or hung device")
            return False
        return self.has("fusermount3", "cc")

    def bystander(self, who, figures, at_most=LONGEST_P99):
        """What a bystander met with; it must have been served, and well."""
        beside = {"p50": figures["p50"], "longest": figures["longest"], "p99 over time": figures["p99 over time"]}
        self.row(f"{who}: p99", figures["p99"], "ms", beside, at_most=at_most)
        if figures["wrong"]:
            self.row(f"{who}: blocks with wrong bytes", figures["wrong"], at_most=0)
        if figures["error"]:
            self.holds(f"{who} is served", False, figures["error"])
