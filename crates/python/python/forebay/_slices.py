"""Curves of one trace that is too large for a machine: its pages are cut by hash, and each slice is a sample of its own."""

from __future__ import annotations

import concurrent.futures
import math
import operator
import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from . import _forebay
from ._answer import Rows
from ._cluster import Cluster
from ._pieces import as_trace
from ._study import Size, _listed, _names, _specs, _text
from ._trace import Trace

#: Estimates from slices of fewer pages are far off.
_FEW = 1000
#: So many groups of files for each thread: the last ones then end at about the same time.
_GROUPS = 2


class SlicedCurve(Rows):
    """Miss-ratio curves estimated from slices of a trace: a row for each policy and size."""

    _always = frozenset(["standard_error"])

    def __init__(self, table: pa.Table, pages: int, slices: int, sample: float) -> None:
        self._table = table
        #: The trace's distinct pages, as estimated.
        self.pages = pages
        #: How many slices there were.
        self.slices = slices
        #: The share of the pages that they had together, 0 to 1.
        self.sample = sample

    def to_arrow(self) -> pa.Table:
        """The table: the columns of `curve`, and ``standard_error``, of ``miss_ratio``; it is null of one slice."""
        return self._table

    def __repr__(self) -> str:
        return f"<forebay.SlicedCurve of {len(self)} rows, from {self.slices} slices of {self.sample:.3%} of {self.pages:,} pages>"


class _Here:
    """Tasks on threads of this process, with the part of a client's interface that is used."""

    def __init__(self, threads: int) -> None:
        self._stop = threading.Event()
        self._pool = concurrent.futures.ThreadPoolExecutor(threads, "forebay-slices")

    def submit(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        known = {"stop": self._stop} if function in (_cut, _estimate) else {}
        return self._pool.submit(lambda: function(*map(_value, arguments), **options, **known))

    def gather(self, futures: list[Any]) -> list[Any]:
        return [future.result() for future in futures]

    def cancel(self, futures: list[Any]) -> None:
        self._stop.set()
        self._pool.shutdown(cancel_futures=True)


def _value(given: Any) -> Any:
    return given.result() if isinstance(given, concurrent.futures.Future) else given


def _look(stop: threading.Event | None) -> Callable[..., None]:
    def go_on(*_: object) -> None:
        if stop is not None and stop.is_set():
            raise InterruptedError("the curve was stopped")

    return go_on


def _cut(
    parts: Sequence[Any],
    sample: str,
    count: int,
    page_size: int | str | None,
    storage_options: Mapping[str, Any] | None,
    stop: threading.Event | None = None,
) -> list[Any]:
    """Reads some files of a trace, one after the other. What they have, and then each slice's references."""
    found: list[tuple[str, int, int]] = []
    tables: list[list[pa.Table]] = [[] for _ in range(count)]
    for part in parts:
        trace = as_trace(part, "part", storage_options)
        cut = _forebay.slices(trace._source, sample=sample, count=count, page_size=page_size, progress=_look(stop))
        found.append((trace.name, cut[0], cut[1]))
        for slice_, table in zip(tables, cut[2]):
            slice_.append(pa.table(table))
    return [found, *(pa.concat_tables(slice_) for slice_ in tables)]


def _join(number: int, asked: str, *tables: pa.Table) -> Trace:
    if not any(table.num_rows for table in tables):
        raise ValueError(f"{asked}: a slice has no page: take a larger sample, or fewer slices")
    return Trace.from_arrow(pa.concat_tables(tables), name=f"slice {number}")


def _pages(slice_: Trace) -> int:
    pages: int = slice_.info(progress=False)["pages"]
    return pages


def _estimate(
    slice_: Trace, policies: list[Any], sizes: list[int], rate: float, whole: int, stop: threading.Event | None = None
) -> pa.Table:
    with warnings.catch_warnings():
        # That a slice is small is said of all of them, once.
        warnings.simplefilter("ignore")
        answer = _forebay.curve([slice_._source], policies, sizes=sizes, taken=(rate, whole), threads=1, progress=_look(stop))
    return pa.table(answer.table())


@contextmanager
def _tasks(client: Any, threads: int) -> Any:
    """Whom tasks are given to, and how many threads there are. All that were given are dropped at the end."""
    cluster = None if client is None else Cluster(client)
    given: list[Any] = []
    try:
        where: Any = cluster.client if cluster is not None else _Here(threads)

        def submit(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
            given.append(where.submit(function, *arguments, **options, **({"pure": False} if cluster is not None else {})))
            return given[-1]

        def send(trace: Trace) -> Any:
            return trace if cluster is None else where.scatter(trace, broadcast=True, hash=False)

        try:
            yield submit, send, where.gather, cluster.threads() if cluster is not None else threads
        finally:
            where.cancel(given)
    except Exception as error:
        kind = type(error).__name__
        if kind == "KilledWorker":
            message = "each worker that ran a part of it died: give workers more memory, or take a smaller sample"
        elif kind in ("CancelledError", "FutureCancelledError"):
            message = "the workers that a Trace was sent to are lost: give paths, which workers read again"
        else:
            raise
        raise _forebay.Error(f"{message}: {error}") from error
    finally:
        if cluster is not None:
            cluster.close()


def sliced_curve(
    parts: Any,
    policies: str | Sequence[Any] = "lru",
    sizes: Size | Sequence[Size] | None = None,
    *,
    sample: str | float = "1%",
    slices: int = 8,
    client: Any = None,
    name: str | None = None,
    page_size: int | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    threads: int = 0,
) -> SlicedCurve:
    """Miss-ratio curves of one trace too large for a machine, on the workers of a Dask cluster or here.

    >>> curve = forebay.sliced_curve(sorted(glob("/shared/trace-*.parquet")), ["lru", "arc"], sample="0.1%", slices=100, client=client)

    Each file is read once, by one worker, which keeps the sampled pages and cuts them into slices by the hash of their place. A slice is a sample of
    its own, which one worker replays: SHARDS for LRU, miniature simulation for others. The curve is the mean of the slices' curves, and its error bar
    the standard error of that mean. It depends on `sample` and `slices`, not on where it is made.

    Args:
        parts: the trace's files in the order of their times: paths or URLs, which the workers read, `Trace` objects, which are sent. Or one of these.
        policies: names with their parameters if wanted, ``"all"``, or classes.
        sizes: pages, bytes (``"64GiB"``) or percent of the distinct pages, as estimated; by default 40 up to all.
        sample: the share of the pages that all slices have together, ``"1%"`` or 0.01.
        slices: how many: as many machines can replay, and the more the better the error bar is known. A slice is to have a thousand pages or more.
        client: a ``distributed.Client``, or a scheduler's address; None: threads of this process.
        name: what the trace is called in the table; by default as its first part.
        page_size: the bytes of a page; by default the parts' own, which are to be the same.
        storage_options: for fsspec, of all URLs.
        threads: threads to run on without a client; 0: one for each core.

    Returns:
        A row for each policy and size: the columns of `curve`, and ``standard_error``.

    Raises:
        ValueError: what makes no sense; a slice without a page, or a cache of less than a page in a slice.
        TraceError: what is wrong with which part, and where.
        Error: workers die of it.
        ImportError: ``distributed`` is missing: ``pip install forebay[dask]``.

    Warns:
        UserWarning: slices have few pages.
    """
    single = isinstance(parts, (Trace, str, os.PathLike))
    given: list[Any] = [part if isinstance(part, Trace) else os.fspath(part) for part in ([parts] if single else parts)]
    if not given:
        raise ValueError("name a part of the trace at least")
    specs = _specs(policies, _names(off_line=True))
    asked: list[Size] = [] if sizes is None else _listed(sizes)
    count = operator.index(slices)
    if not 1 <= count <= 10_000:
        raise ValueError(f"slices={count}: take 1 to 10,000")
    share = str(_text(sample))
    # What makes no sense of any trace is said before one is read.
    _forebay.curve([], specs, sizes=asked, sample=share, threads=threads)
    total = float(share.rstrip("%")) / (100 if share.endswith("%") else 1)
    rate = total / count
    here = threads or len(os.sched_getaffinity(0))

    with _tasks(client, here) as (submit, send, gather, parallel):
        length = -(-len(given) // (_GROUPS * parallel))
        given = [send(part) if isinstance(part, Trace) else part for part in given]
        groups = [given[start : start + length] for start in range(0, len(given), length)]
        cuts = [submit(_cut, group, share, count, page_size, storage_options) for group in groups]
        found = [part for head in gather([submit(operator.getitem, cut, 0) for cut in cuts]) for part in head]
        of = [[submit(operator.getitem, cut, 1 + slice_) for cut in cuts] for slice_ in range(count)]
        joined = [submit(_join, number, f"sample={share}, slices={count}", *tables) for number, tables in enumerate(of)]
        whole, [(first, _, bytes_), *others] = sum(references for _, references, _ in found), found
        for other, _, theirs in others:
            if theirs != bytes_:
                raise ValueError(f"{first} has pages of {bytes_} bytes, and {other} of {theirs}: say page_size")
        counted = gather([submit(_pages, slice_) for slice_ in joined])
        if min(counted) < _FEW:
            warnings.warn(
                f"{name or first}: a slice has {min(counted):,} pages only, and estimates may be far off: take a larger sample, or fewer slices", stacklevel=2
            )
        pages = round(sum(counted) / total)
        at = _forebay.in_pages(asked, bytes_, pages)
        if not asked:
            at = [size for size in at if size * rate >= 0.5]
        tables = gather([submit(_estimate, slice_, specs, at, rate, whole) for slice_ in joined])
    return SlicedCurve(_mean(tables, name or first, whole), pages, count, total)


def _mean(tables: list[pa.Table], name: str, whole: int) -> pa.Table:
    """The mean of the slices' curves, with its standard error."""
    table = tables[0]
    ratios = np.array([table.column("miss_ratio").to_numpy() for table in tables])
    mean = ratios.mean(axis=0).round(6)
    errors = [None] * len(mean) if len(tables) == 1 else (ratios.std(axis=0, ddof=1) / math.sqrt(len(tables))).round(6)

    def put(column: str, values: Any) -> None:
        nonlocal table
        number = table.schema.get_field_index(column)
        field = table.schema.field(column)
        table = table.set_column(number, field, pa.array(values, field.type))

    put("trace", [name] * len(mean))
    put("miss_ratio", mean)
    put("misses", [round(ratio * whole) for ratio in mean.tolist()])
    words = {"unit": "ratio", "meaning": "the standard error of miss_ratio, as the slices show it; null of one slice"}
    return table.append_column(pa.field("standard_error", pa.float64(), metadata=words), pa.array(errors, pa.float64())).combine_chunks()
