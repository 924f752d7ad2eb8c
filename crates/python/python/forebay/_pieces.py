"""Pieces of a sweep, as a process runs them: here, or on a worker of Dask."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from . import _forebay
from ._trace import Trace

#: The share of a process's memory that is for traces; the rest is for the runs and their results.
_SHARE = 0.5
#: The column with a run's JSON, as the command writes it of a comparison that has this run alone.
KNOWN = "known"


@dataclass(frozen=True)
class Piece:
    """One policy at some sizes over one trace, with all else that is asked."""

    #: Which trace it is, whatever it is called.
    trace: str
    name: str
    policy: Any
    sizes: tuple[int | str, ...]
    asked: Mapping[str, Any]
    #: Whether the sweep that it is of looks at the places of pages, and whether at requests: what its trace is held with.
    needs: tuple[bool, bool]
    storage_options: Mapping[str, Any] | None
    #: The bytes that traces may take in a process; by default a share of its memory.
    memory: int | None
    #: Whether its rows also have, in the column `KNOWN`, all that is known of the run.
    known: bool = False


class Shelf:
    """The numbered traces that a process holds, those used last. One is read at a time, each once for as long as it stays."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: OrderedDict[str, _forebay.Source] = OrderedDict()
        self._users: Counter[str] = Counter()
        self._reading = False
        #: How many traces were read.
        self.reads = 0

    def _bytes(self) -> int:
        return sum(source.bytes for source in self._held.values())

    def _make_room(self, need: int, room: int) -> bool:
        """Drops what nobody uses, the longest unused first, until there is room."""
        for key in [key for key in self._held if not self._users[key]]:
            if self._bytes() + need <= room:
                break
            del self._held[key]
        return self._bytes() + need <= room

    @contextmanager
    def held(self, key: str, name: str, read: Callable[[], _forebay.Source], room: int) -> Iterator[_forebay.Source]:
        """A trace, read unless it is there. It waits while others use the room that it needs."""
        source = self._take(key, name, read, room)
        try:
            yield source
        finally:
            with self._changed:
                self._users[key] -= 1
                self._changed.notify_all()

    def _take(self, key: str, name: str, read: Callable[[], _forebay.Source], room: int) -> _forebay.Source:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: key in self._held or not self._reading)
                if key in self._held:
                    _check(name, self._held[key].bytes, room)
                    self._held.move_to_end(key)
                    self._users[key] += 1
                    return self._held[key]
                self._reading = True
            try:
                source = read()
                need = source.bytes
            finally:
                with self._changed:
                    self._reading = False
                    self._changed.notify_all()
            with self._changed:
                self.reads += 1
                _check(name, need, room)
                if self._make_room(need, room):
                    self._held[key] = source
                    self._users[key] += 1
                    return source
                # Others use too much. It is given back until they are done, and read again.
                del source
                self._changed.wait_for(lambda: key in self._held or self._make_room(need, room))


def _check(name: str, need: int, room: int) -> None:
    if need > room:
        raise _forebay.Error(
            f"{name} takes {need:,} bytes of memory, and a process has {room:,} for traces: start workers with more memory "
            '(memory_limit), say memory=, or estimate from a sample (forebay.curve(…, sample="1%"))'
        )


#: This process's.
SHELF = Shelf()


def _room(piece: Piece) -> int:
    if piece.memory is not None:
        return piece.memory
    limit = None
    try:
        from distributed import get_worker

        limit = get_worker().memory_manager.memory_limit
    except (ImportError, ValueError):
        # No worker: a process of its own.
        pass
    return int((limit or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) * _SHARE)


def as_trace(given: Any, name: str, storage_options: Mapping[str, Any] | None = None) -> Trace:
    """A trace of what stands for one: a path or URL, a trace, columns or keys; or a pair, its name and one of these."""
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
        name, given = given
    if isinstance(given, Trace):
        return given
    if isinstance(given, (str, os.PathLike)):
        return Trace.read(given, storage_options=storage_options)
    library = type(given).__module__.partition(".")[0]
    if library == "pandas":
        return Trace.from_pandas(given, name=name)
    if library == "polars":
        return Trace.from_polars(given, name=name)
    if library == "numpy":
        return Trace.from_numpy(given, name=name)
    if hasattr(given, "__arrow_c_stream__") or isinstance(given, pa.Array):
        return Trace.from_arrow(given, name=name)
    return Trace.from_keys(given, name=name)


def run(piece: Piece, given: Any, index: int | None = None, stop: threading.Event | None = None) -> pa.Table:
    """A row for each size of a piece, in their order. `given` stands for the trace, or for several, `index` saying which one."""

    def go_on(*_: object) -> None:
        if stop is not None and stop.is_set():
            raise InterruptedError("the sweep was stopped")

    def read() -> _forebay.Source:
        trace = as_trace(given if index is None else given[index], piece.name, piece.storage_options)
        places, requests = piece.needs
        return trace._source.hold(places=places, requests=requests, page_size=piece.asked["page_size"], progress=go_on)

    def compare(source: _forebay.Source, sizes: list[int | str]) -> pa.Table:
        answer = _forebay.compare([source], [piece.policy], sizes, **piece.asked, kernel=False, threads=1, progress=go_on)
        table = pa.table(answer.table())
        if not piece.known:
            return table
        [all] = json.loads(answer.json())
        return table.append_column(KNOWN, pa.array([json.dumps({**all, "runs": [run]}) for run in all["runs"]]))

    try:
        with SHELF.held(f"{piece.trace} {piece.asked['page_size']} {piece.needs}", piece.name, read, _room(piece)) as source:
            pages = source.in_pages(list(piece.sizes))
            # With costs, several sizes at once also make the runs of next to no cache and of a cache of all, for advice that nobody gets.
            alone = piece.asked["device"] is not None or piece.asked["readahead"] != "none"
            first = {page: size for page, size in zip(reversed(pages), reversed(piece.sizes))}
            groups = [[size] for size in first.values()] if alone else [list(first.values())]
            table = pa.concat_tables([compare(source, group) for group in groups])
    except (ValueError, _forebay.Error, MemoryError, OSError) as error:
        if isinstance(error, InterruptedError) or piece.name in str(error):
            raise
        kind = ValueError if isinstance(error, ValueError) else type(error) if isinstance(error, _forebay.Error) else _forebay.Error
        raise kind(f"{piece.name}: {error or type(error).__name__}") from error
    rows = {page: row for row, page in enumerate(table.column("pages").to_pylist())}
    return table.take([rows[page] for page in pages])
