"""``forebay compare --dask``: the command asks through this module, and shows what it answers.

The question is a line of JSON on the standard input, which stays open for as long as somebody waits. The answer is lines of JSON on the standard
output: how far it is, and then what is known of each trace.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import warnings
from types import FrameType
from typing import Any

import pyarrow as pa

from . import _forebay
from ._cluster import Cluster
from ._pieces import KNOWN
from ._sweep import Sweep, grid

_FAILED, _USAGE, _STOPPED = 1, 2, 130


def _say(message: object) -> None:
    # What is `client` in Python is an option here.
    words = str(message).replace("client: ", "--dask: ", 1) if str(message).startswith("client: ") else str(message)
    print(f"forebay: {words}", file=sys.stderr, flush=True)


def _answer(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def _stop(_: int, __: FrameType | None) -> None:
    # A second one would stop the cleaning up.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _stop_when_nobody_waits() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGINT)


class _Work:
    """The runs of several sweeps, and how much of them is done."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._before = 0
        self._references = 0

    def report(self, table: pa.Table, done: int, all: int) -> None:
        self._references += sum(table.column("references").to_pylist())
        _answer(done=[self._references, (self._before + done) / self._runs])
        if done == all:
            self._before += done


def _known(sweep: Sweep) -> list[list[dict[str, Any]]]:
    """What is known of each run, trace by trace."""
    known, names = (sweep.to_arrow().column(name).to_pylist() for name in (KNOWN, "trace"))
    return [[{**json.loads(known[row]), "trace": names[row]} for row in rows] for rows in sweep._by_trace]


def _ask(question: dict[str, Any]) -> None:
    if question["version"] != _forebay.__version__:
        raise _forebay.Error(
            f"--dask: the command is version {question['version']}, and the Python package that it found is {_forebay.__version__}: install the same"
        )
    traces, asked = question["traces"], question["asked"]
    if "-" in traces:
        raise ValueError("--dask: workers cannot read the standard input: name a file")
    if asked["device"] is not None and os.path.isfile(asked["device"]):
        asked["device"] = os.path.abspath(asked["device"])
    policies, sizes = asked.pop("policies"), asked.pop("sizes")
    cluster = Cluster(question["scheduler"])
    try:
        if not cluster.client.nthreads():
            _say(f"the scheduler at {question['scheduler']} has no workers yet: waiting for them")
        ends: list[list[list[dict[str, Any]]]] = []
        work = _Work(len(set(traces)) * (len(policies) * len(sizes) + (2 if question["ends"] else 0)))
        all = _known(grid(traces, policies, sizes, asked, client=cluster.client, known=True, report=work.report))
        if question["ends"]:
            # Next to no cache, for which nothing is read ahead, and a cache of everything.
            for size, changed in ((1, {"readahead": "none"}), ("100%", {})):
                alone = {**asked, "by_distance": False, **changed}
                ends.append(_known(grid(traces, ["lru"], [size], alone, client=cluster.client, known=True, report=work.report)))
        for number, of in enumerate(all):
            runs = [one["runs"][0] for one in of]
            _answer(trace={**of[0], "runs": runs, "ends": [end[number][0]["runs"][0] for end in ends] or None})
    finally:
        cluster.close()


def main() -> int:
    """Answers the question; returns the exit code."""
    signal.signal(signal.SIGINT, _stop)
    warnings.showwarning = lambda message, *_, **__: _say(message)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    question = json.loads(sys.stdin.readline())
    threading.Thread(target=_stop_when_nobody_waits, daemon=True).start()
    try:
        _ask(question)
    except KeyboardInterrupt:
        return _STOPPED
    except ValueError as error:
        _say(error)
        return _USAGE
    except (_forebay.Error, ImportError, OSError) as error:
        _say(error)
        return _FAILED
    return 0
