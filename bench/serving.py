"""`forebay serve` started for a measurement, and what it and the system say of it: figures of the caches, processor time.

Servers, volumes, loop devices and PostgreSQL are those of tests/volumes/, which need libnbd's module (Debian: python3-libnbd) and so
/usr/bin/python3.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import urllib.request

from measure import ROOT

sys.path.insert(0, str(ROOT / "tests"))
try:
    from volumes import checks, server
except ModuleNotFoundError as error:
    sys.exit(f"there is no module {error.name}: run this with /usr/bin/python3, and install python3-libnbd (Debian)")

KIB, MIB = 1 << 10, 1 << 20


class Forebay(server.Forebay):
    """`forebay serve` with further options, and a port where it tells its figures."""

    def __init__(self, file, *options):
        super().__init__([file])
        self.metrics = f"127.0.0.1:{server.free_port()}"
        self.options = ["--metrics", self.metrics, "--log", "warn", *options]

    def command(self, *asked):
        return [*super().command(*asked), *self.options]

    def figures(self):
        with urllib.request.urlopen(f"http://{self.metrics}/statistics") as answer:
            return json.load(answer)

    def cache(self):
        """Hits, misses and the rest of its only cache."""
        (cache,) = self.figures()["caches"]
        return cache


def ratio(before, after):
    """The hit ratio of a cache between two of its reports."""
    hits, misses = after["hits"] - before["hits"], after["misses"] - before["misses"]
    return hits / (hits + misses) if hits + misses else 0.0


@contextlib.contextmanager
def folder():
    """A temporary folder on a disk, in which other users may pass through; paths of sockets must be short."""
    with tempfile.TemporaryDirectory(prefix="forebay-", dir="/var/tmp") as path:
        path = pathlib.Path(path)
        path.chmod(0o755)
        yield path


def need(*programs):
    try:
        checks.need(*programs)
    except checks.Skipped as reason:
        sys.exit(str(reason))


def end_in_order():
    """SIGTERM becomes an exception, so that contexts unmount and stop what they have begun."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def compare(forebay, trace, policies, pages, *options):
    """What the simulator makes of a trace: hits and misses by policy, in a cache of so many pages."""
    command = [forebay, "compare", trace, "--policies", ",".join(policies), "--sizes", pages, "--format", "json", *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"`{' '.join(map(str, command))}` failed with exit code {done.returncode}: {done.stderr}")
    (compared,) = json.loads(done.stdout)
    return compared["runs"]


def version(*command):
    """The first line that a program says of its version."""
    return subprocess.run(command, capture_output=True, text=True).stdout.strip().splitlines()[0]
