"""What the tests share."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from collections import OrderedDict

import pytest

import forebay


def run(*words: str) -> str:
    """What the command answers."""
    command = shutil.which("forebay")
    assert command, "the command `forebay` is not on the path: tests/python_package.sh puts it there"
    done = subprocess.run([command, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(*words: str) -> list[dict[str, str]]:
    """What the command answers in CSV."""
    return list(csv.DictReader(io.StringIO(run(*words, "--format", "csv"))))


def objects(*words: str) -> list[dict]:
    """What the command answers in JSON."""
    return json.loads(run(*words, "--format", "json"))


def same(answer: forebay.Answer, expected: list[dict[str, str]], but: tuple[str, ...] = ("seconds", "trace")) -> None:
    """Whether a table has the rows of a CSV, but for some columns."""
    table = answer.to_arrow()
    assert table.column_names == list(expected[0])
    assert table.num_rows == len(expected)
    for name in table.column_names:
        if name in but:
            continue
        for ours, theirs in zip(table.column(name).to_pylist(), (row[name] for row in expected)):
            if theirs == "":
                assert ours in (None, ""), name
            else:
                assert type(ours)(theirs) == ours, name


@pytest.fixture(scope="session")
def sample() -> forebay.Trace:
    return forebay.Trace.sample()


def lru_in_python() -> type:
    """A class that workers get as it is: they do not have this module."""

    class LRU:
        """The page used the longest ago goes."""

        def __init__(self, capacity):
            self.pages = OrderedDict()

        def hit(self, page):
            self.pages.move_to_end(page)

        def miss(self, page):
            self.pages[page] = None

        def evict(self, page):
            return self.pages.popitem(last=False)[0]

        def remove(self, page):
            del self.pages[page]

    return LRU


def start(workers: int):
    """A cluster of processes on this machine's own interface."""
    import dask
    import distributed

    # A worker that dies is replaced at once.
    dask.config.set({"distributed.worker.memory.terminate": False, "distributed.comm.timeouts.connect": "20s"})
    # Its web page takes any port: a notebook's cluster has the usual one.
    cluster = distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1", memory_limit="1GiB"
    )
    client = distributed.Client(cluster, timeout="30s")
    client.wait_for_workers(workers, timeout=60)
    return cluster, client


@pytest.fixture(scope="session")
def client():
    cluster, client = start(3)
    yield client
    client.close()
    cluster.close(timeout=30)
