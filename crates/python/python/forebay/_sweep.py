"""Grids over many traces, here or on the workers of a Dask cluster."""

from __future__ import annotations

import concurrent.futures
import hashlib
import importlib
import json
import os
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from . import _forebay
from ._answer import Rows
from ._cluster import Cluster
from ._keep import Kept
from ._pieces import Piece, as_trace, run
from ._progress import Bars
from ._study import SIZES, Size, _listed, _names, _specs, _text
from ._trace import Trace, shown

#: So many pieces for each thread at least: the last ones then end at about the same time.
_PIECES = 4


class Sweep(Rows):
    """The rows of a sweep: those of `compare` for each trace, in the order asked."""

    def __init__(self, table: pa.Table, by_trace: list[range], replayed: int, kept: int) -> None:
        self._table = table
        self._by_trace = by_trace
        #: How many runs (one policy at one size over one trace) were made for it.
        self.replayed = replayed
        #: How many were there already, in ``keep``.
        self.kept = kept

    def to_arrow(self) -> pa.Table:
        """The table. Each field's metadata has its ``unit`` and ``meaning``; a null is what is not known or was not asked for."""
        return self._table

    def __repr__(self) -> str:
        return f"<forebay.Sweep of {len(self)} rows; {self.replayed} runs made, {self.kept} kept before>"


@dataclass(frozen=True)
class Given:
    """A trace of those asked."""

    name: str
    #: The same for what is the same trace, whatever its name.
    key: str
    #: What a piece gets: a path or URL, a trace, or a future of several, `index` saying which.
    what: Any
    index: int | None = None


def _digest(*words: object) -> str:
    return hashlib.sha256(json.dumps(words, sort_keys=True, default=str).encode()).hexdigest()


def _named(path: str, storage_options: Mapping[str, Any] | None, kept: bool) -> Given:
    """A path or URL. Where results are kept, its key also says which version of it there is."""
    if "://" not in path:
        if not os.path.exists(path):
            return Given(shown(path), _digest("name", path), path)
        found = os.stat(path)
        # Workers may be in other folders.
        return Given(shown(path), _digest("file", os.path.realpath(path), found.st_size, found.st_mtime_ns), os.path.abspath(path))
    version: dict[str, Any] = {}
    if kept:
        try:
            fsspec = importlib.import_module("fsspec")
        except ImportError as missing:
            raise ImportError(f"{path}: fsspec reads URLs: pip install fsspec, with s3fs, gcsfs or aiohttp") from missing
        try:
            system, remote = fsspec.core.url_to_fs(path, **(storage_options or {}))
            said = system.info(remote)
        except Exception as error:
            raise _forebay.TraceError(f"{path}: asking for its size failed: {error or type(error).__name__}") from error
        version = {name: said[name] for name in ("size", "ETag", "etag", "LastModified", "mtime", "md5Hash") if name in said}
    return Given(path, _digest("url", path, version), path)


def _digest_of(trace: Trace) -> str:
    sink = hashlib.sha256()
    table = trace.to_arrow(progress=False)
    sink.update(table.schema.serialize())
    for batch in table.to_batches():
        sink.update(batch.serialize())
    return sink.hexdigest()


def describe(partition: Any, name: str) -> list[tuple[str, str | None]]:
    """Of each trace of a part of a Dask collection: its name, and what it holds; nothing if it is a path."""
    found: list[tuple[str, str | None]] = []
    for index, given in enumerate(partition):
        if isinstance(given, (str, os.PathLike)):
            found.append((os.fspath(given), None))
        else:
            trace = as_trace(given, f"{name}[{index}]")
            found.append((trace.name, _digest_of(trace)))
    return found


def _is_collection(given: Any) -> bool:
    return hasattr(given, "__dask_graph__")


def _given(traces: Any, cluster: Cluster | None, storage_options: Mapping[str, Any] | None, kept: bool) -> list[Given]:
    if isinstance(traces, (Trace, str, os.PathLike)) or _is_collection(traces):
        traces = [traces]
    traces = list(traces)
    # Nothing is kept or sent of a trace that stays here: the object itself says which it is, unless others may be equal.
    by_content = kept or cluster is not None or any(map(_is_collection, traces))
    found: list[Given] = []
    for number, given in enumerate(traces):
        if isinstance(given, Trace):
            key = _digest("trace", _digest_of(given)) if by_content else f"object {id(given)}"
            found.append(Given(given.name, key, given))
        elif isinstance(given, (str, os.PathLike)):
            found.append(_named(os.fspath(given), storage_options, kept))
        elif _is_collection(given):
            for part, (parts, described) in enumerate(_partitions(given, cluster, f"traces[{number}]")):
                for index, (name, digest) in enumerate(described):
                    if digest is None:
                        found.append(_named(name, storage_options, kept))
                    else:
                        found.append(Given(name, _digest("trace", digest), parts, index))
        else:
            raise ValueError(f"{given!r} is no trace: take a path, a URL, a forebay.Trace, or a Dask bag or delayed of traces")
    if not found:
        raise ValueError("name a trace at least")
    return found


def _partitions(collection: Any, cluster: Cluster | None, name: str) -> list[tuple[Any, list[tuple[str, str | None]]]]:
    """The parts of a Dask bag or delayed, each with what is in it."""
    dask = importlib.import_module("dask")
    alone = isinstance(collection, importlib.import_module("dask.delayed").Delayed)
    delayed = [dask.delayed(lambda one: [one])(collection)] if alone else collection.to_delayed()
    if cluster is not None:
        return cluster.partitions(delayed, describe, name)
    parts = [list(part) for part in dask.compute(*delayed, scheduler="threads")]
    return [(part, describe(part, f"{name}.{number}")) for number, part in enumerate(parts)]


def _here(pieces: list[tuple[Piece, Given]], threads: int) -> Generator[tuple[Piece, pa.Table], None, None]:
    stop = threading.Event()
    pool = concurrent.futures.ThreadPoolExecutor(threads, "forebay-sweep")
    try:
        futures = {pool.submit(run, piece, given.what, given.index, stop): piece for piece, given in pieces}
        for future in concurrent.futures.as_completed(futures):
            yield futures.pop(future), future.result()
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def sweep(
    traces: Any,
    policies: str | Sequence[Any] = "all",
    sizes: Size | Sequence[Size] = SIZES,
    *,
    client: Any = None,
    keep: str | os.PathLike[str] | None = None,
    warmup: int | str = 0,
    device: str | os.PathLike[str] | None = None,
    think_us: float = 0.0,
    readahead: str | None = None,
    by_distance: bool = False,
    behind: str | None = None,
    page_size: int | str | None = None,
    memory: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    threads: int = 0,
    progress: bool | None = None,
) -> Sweep:
    """Policies at sizes over many traces, on the workers of a Dask cluster or here: `compare`, in pieces.

    >>> answer = forebay.sweep(["s3://bucket/a.parquet", "s3://bucket/b.parquet"], "all", client=client, keep="results")

    A worker reads and numbers a trace once, and holds those used last. A piece is one policy at some sizes over one trace.
    The pieces of a lost worker run again on others.

    Args:
        traces: a path or URL, a `Trace`, a Dask bag or delayed of these (or of tables and arrays), or a list of any of them.
            The workers read paths and URLs; a `Trace` is sent to them. What is there twice is computed once.
        client: a ``distributed.Client``, or a scheduler's address (``"tcp://scheduler:8786"``); None: threads of this process.
        keep: a folder of Parquet files. Each finished piece is kept there; a later call makes only the runs that are missing. What
            was kept of a trace that has changed since, or by another version of Forebay, is not taken.
        memory: bytes that traces may take in a worker; by default half of its memory limit.
        storage_options: for fsspec, as keys or an anonymous user, of all URLs.
        threads: threads to run on without a client; 0: one for each core.
        progress: a progress bar by tqdm; None: if it is installed and somebody looks.

    The other arguments are those of `compare`.

    Returns:
        The rows of ``compare``, trace by trace in the order given.

    Raises:
        ValueError, TraceError, Error: as `compare`; the words name the trace. What was finished before is kept.
        ImportError: ``distributed`` is missing: ``pip install forebay[dask]``.
    """
    asked: dict[str, Any] = {
        "warmup": warmup,
        "device": _text(device),
        "think_us": think_us,
        "readahead": readahead or "none",
        "by_distance": by_distance,
        "behind": behind,
        "page_size": page_size,
    }
    specs = _specs(policies, _names(off_line=readahead is None))
    with Bars(progress, "runs") as bars:
        show = bars.callback()

        def report(table: pa.Table, done: int, all: int) -> None:
            if show is not None:
                show(0, "sweep", done, all)

        return grid(
            traces, specs, _listed(sizes), asked, client=client, keep=keep, memory=memory, storage_options=storage_options, threads=threads, report=report
        )


def grid(
    traces: Any,
    specs: list[Any],
    sizes: list[Size],
    asked: dict[str, Any],
    *,
    client: Any = None,
    keep: str | os.PathLike[str] | None = None,
    memory: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    threads: int = 0,
    known: bool = False,
    report: Callable[[pa.Table, int, int], None],
) -> Sweep:
    """What `sweep` asks. `report` gets the rows of each piece that ends, and how many runs are done of how many.

    With `known` the rows have a column more, with all that is known of their run.
    """
    # A policy's name is said once; a class in Python is itself.
    specs = list(dict.fromkeys(spec.strip() if isinstance(spec, str) else spec for spec in specs))
    asked_sizes = list(dict.fromkeys(sizes))
    # What makes no sense of any trace is said before one is read.
    _forebay.compare([], specs, asked_sizes, **asked, threads=threads)
    needs = _forebay.needs(specs, **{name: asked[name] for name in ("device", "readahead", "behind")})
    kept = None
    if keep is not None:
        written = next((spec for spec in specs if not isinstance(spec, str)), None)
        if written is not None:
            raise ValueError(f"keep: {written!r} is written in Python, and may change under its name: leave out keep, or the policy")
        kept = Kept(keep)
    cluster = None if client is None else Cluster(client)
    try:
        given = _given(traces, cluster, storage_options, kept is not None)
        options = dict(asked)
        if asked["device"] is not None and os.path.isfile(asked["device"]):
            with open(asked["device"], "rb") as file:
                options["device"] = hashlib.sha256(file.read()).hexdigest()
        # What each run is kept under.
        cells: dict[tuple[str, int, Size], str] = {}
        for trace in given:
            for number, spec in enumerate(specs):
                for size in asked_sizes:
                    cells[trace.key, number, size] = _digest(_forebay.__version__, trace.key, str(spec), str(size), options)
        tables, rows = kept.rows(set(cells.values())) if kept is not None else ([], {})
        before = len(set(cells.values()) & rows.keys())

        unique = {trace.key: trace for trace in reversed(given)}
        missing: dict[tuple[str, int], list[Size]] = {}
        for trace in given:
            for number in range(len(specs)):
                left = [size for size in asked_sizes if cells[trace.key, number, size] not in rows]
                if left:
                    missing[trace.key, number] = left
        parallel = cluster.threads() if cluster else threads or len(os.sched_getaffinity(0))
        parts = -(-_PIECES * parallel // max(len(missing), 1))
        pieces: list[tuple[Piece, Given]] = []
        numbers: dict[int, int] = {}
        for (key, number), left in missing.items():
            length = -(-len(left) // min(parts, len(left)))
            for start in range(0, len(left), length):
                trace = unique[key]
                of = tuple(left[start : start + length])
                piece = Piece(key, trace.name, specs[number], of, asked, needs, storage_options, memory, known)
                numbers[id(piece)] = number
                pieces.append((piece, trace))

        results = cluster.run(pieces) if cluster else _here(pieces, parallel)
        with closing(results):
            done, all = 0, sum(len(piece.sizes) for piece, _ in pieces)
            for piece, table in results:
                ended = [cells[piece.trace, numbers[id(piece)], size] for size in piece.sizes]
                if kept is not None:
                    kept.add(ended, table)
                rows.update({cell: (len(tables), row) for row, cell in enumerate(ended)})
                tables.append(table)
                done += len(ended)
                report(table, done, all)
    finally:
        if cluster is not None:
            cluster.close()
    table, by_trace = _table(given, len(specs), asked_sizes, cells, tables, rows, asked["behind"] is not None)
    return Sweep(table, by_trace, done, before)


def _table(
    given: list[Given],
    specs: int,
    sizes: list[Size],
    cells: Mapping[tuple[str, int, Size], str],
    tables: list[pa.Table],
    rows: Mapping[str, tuple[int, int]],
    behind: bool,
) -> tuple[pa.Table, list[range]]:
    """The rows in compare's order: by trace, by policy, by size, each size once. And which rows are each trace's."""
    starts, all = [], 0
    for table in tables:
        starts.append(all)
        all += table.num_rows
    whole = pa.concat_tables(tables)
    pages, labels, called = (whole.column(name).to_pylist() for name in ("pages", "policy", "trace"))
    order: list[int] = []
    names: list[str] = []
    by_trace: list[range] = []
    for trace in given:
        start = len(order)
        seen: set[tuple[str, int]] = set()
        for number in range(specs):
            at = [rows[cells[trace.key, number, size]] for size in sizes]
            for row in sorted((starts[table] + row for table, row in at), key=lambda row: pages[row]):
                if (labels[row], pages[row]) not in seen:
                    seen.add((labels[row], pages[row]))
                    order.append(row)
                    # A run may be of a trace that has another name, too. What misses in a first level says so.
                    names.append(trace.name + "".join(called[row].rpartition(" behind ")[1:]) if behind else trace.name)
        by_trace.append(range(start, len(order)))
    table = whole.take(order)
    column = table.schema.get_field_index("trace")
    return table.set_column(column, table.schema.field(column), pa.array(names, pa.string())).combine_chunks(), by_trace
