"""What is asked of traces."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Union

from . import _forebay
from ._answer import Answer
from ._progress import Bars
from ._trace import Trace

#: A cache's size: pages (1000), bytes ("64MiB") or percent of the distinct pages ("10%").
Size = Union[int, str]
#: Traces, names of files, data frames and arrays of keys; one or several. Or keys, each a page.
Traces = Union[Trace, str, "os.PathLike[str]", Iterable[Any]]

SIZES: tuple[Size, ...] = ("1%", "2%", "5%", "10%", "20%", "50%")


@dataclass(frozen=True)
class Policy:
    """A policy that can be named: ``forebay.policies()`` lists them."""

    name: str
    title: str
    paper: str
    #: Whether it knows the references to come: a limit, not a cache to run.
    off_line: bool


def policies() -> list[Policy]:
    """All policies that can be named, in the order of ``forebay policies``."""
    return [Policy(*info) for info in _forebay.policies()]


def _names(off_line: bool) -> list[str]:
    return [policy.name for policy in policies() if off_line or not policy.off_line]


def _traces(traces: Traces) -> list[Trace]:
    if isinstance(traces, (Trace, str, os.PathLike)) or _is_data(traces):
        traces = [traces]
    traces = list(traces)
    if not traces:
        raise ValueError("name a trace at least")
    if not any(isinstance(trace, (Trace, str, os.PathLike)) or _is_data(trace) for trace in traces):
        return [Trace.from_keys(traces)]
    return [trace if isinstance(trace, Trace) else _read(trace) for trace in traces]


def _is_data(of: object) -> bool:
    """A data frame, or an array of keys."""
    return any(hasattr(of, method) for method in ("__arrow_c_stream__", "__array__", "__arrow_c_array__"))


def _read(trace: Any) -> Trace:
    if isinstance(trace, (str, os.PathLike)):
        return Trace.read(trace)
    # Whether it is of pandas is asked without loading that.
    of = type(trace).__module__.partition(".")[0]
    if of == "pandas":
        return Trace.from_pandas(trace)
    if of == "polars":
        return Trace.from_polars(trace)
    if hasattr(trace, "__arrow_c_stream__") or hasattr(trace, "__arrow_c_array__"):
        return Trace.from_arrow(trace)
    if hasattr(trace, "__array__"):
        return Trace.from_numpy(trace)
    raise TypeError(f"a trace, a file's name, a data frame or an array of keys is wanted, not a {type(trace).__name__}")


def _listed(values: Any) -> list[Any]:
    """One, or several; a text may have commas, as on the command line."""
    if isinstance(values, str):
        return [value.strip() for value in values.split(",")]
    return list(values) if isinstance(values, Iterable) else [values]


def _text(value: object) -> str | None:
    return None if value is None else os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _specs(policies: Any, all: list[str]) -> list[Any]:
    chosen: list[Any] = []
    for policy in _listed(policies):
        chosen.extend(all if policy == "all" else [policy])
    return chosen


def _command(name: str, traces: list[Trace], **asked: Any) -> str:
    """How the question is written, without what is as ever."""
    given = ", ".join(f"{key}={value!r}" for key, value in asked.items() if value is not None)
    named = repr(traces[0].name) if len(traces) == 1 else repr([trace.name for trace in traces])
    return f"forebay.{name}({named}, {given})"


def compare(
    traces: Traces,
    policies: str | Sequence[Any] = "all",
    sizes: Size | Sequence[Size] = SIZES,
    *,
    warmup: int | str = 0,
    device: str | os.PathLike[str] | None = None,
    think_us: float = 0.0,
    readahead: str | None = None,
    by_distance: bool = False,
    by: str | None = None,
    states: int = 0,
    behind: str | None = None,
    sample: str | float | None = None,
    managers: str | os.PathLike[str] | None = None,
    kernel: bool | None = None,
    at_most: Size | None = None,
    reach: float | None = None,
    page_size: int | str | None = None,
    threads: int = 0,
    progress: bool | None = None,
) -> Answer:
    """What replacement policies would make of a trace, at each cache size: ``forebay compare``.

    Args:
        traces: a trace, or several; texts are read by `Trace.read`.
        policies: names with their parameters if wanted (``"gclock:max=7"``), or ``"all"``.
        sizes: pages (1000), bytes (``"64MiB"``) or percent of the distinct pages (``"10%"``).
        warmup: references at the start that are not counted: a number, or percent of the trace (``"20%"``).
        device: also what misses cost on this device: a name that ``forebay devices`` lists, or a TOML file.
        think_us: what the program takes of its own for each reference, in microseconds, while the device goes on.
        readahead: read pages ahead: ``"none"``, ``"fixed:pages=8"``, ``"linux:max=128KiB"``, ``"kernel"``, ``"regular"``; None: what the cache read ahead that
            recorded the trace, where it says so. Policies that know the future are left out then.
        by_distance: also split hits and misses by temporal distance.
        by: ``"owner"`` or ``"file"``: also split them by that; in `Answer.json`.
        states: take each policy's state this many times along the trace; in `Answer.json` and the report.
        behind: replay what misses in this first-level cache: ``"lru@64MiB"``.
        sample: estimate the hits from this share of the pages (``"1%"`` or 0.01).
        managers: a TOML file of managers for ``lru-sp``.
        kernel: also what the kernel's own page cache would make of the trace, alone and steered; in `Answer.json`. None: of recordings of front ends.
        at_most: a budget of memory: this size, and none above it.
        reach: also the least memory with which this share of the references hits (0.9); the advice names it.
        page_size: the bytes of a page; by default the trace's own.
        threads: threads to run on; 0: one for each core.
        progress: a progress bar by tqdm; None: if it is installed and somebody looks.

    Returns:
        A row for each trace, policy and size, with the columns of ``forebay compare -f csv``: ``hits``, ``misses``
        (counts), ``hit_ratio`` (0 to 1), ``device_ms`` …; docs/schemas.md has them all.

    Raises:
        ValueError: what makes no sense, as an unknown policy.
        TraceError: what is wrong with a trace, and where.
        KeyboardInterrupt: at once; there is no part of an answer.
    """
    read = _traces(traces)
    # Who knows the future takes no readahead, and is not meant by "all".
    known = _names(off_line=readahead in (None, "none"))
    with Bars(progress) as bars:
        answer = _forebay.compare(
            [trace._source for trace in read],
            _specs(policies, known),
            _listed(sizes),
            warmup=warmup,
            device=_text(device),
            think_us=think_us,
            readahead=readahead,
            by_distance=by_distance,
            by=by,
            states=states,
            behind=behind,
            sample=_text(sample),
            managers=managers,
            kernel=kernel,
            at_most=at_most,
            reach=reach,
            page_size=page_size,
            threads=threads,
            progress=bars.callback(),
        )
    return Answer(answer, _command("compare", read, policies=policies, sizes=sizes, device=device, readahead=readahead))


def curve(
    traces: Traces,
    policies: str | Sequence[Any] = ("lru", "opt"),
    *,
    sizes: Size | Sequence[Size] | None = None,
    points: int | None = None,
    spacing: str = "log",
    sample: str | float | None = None,
    sample_pages: int | None = None,
    errors: bool = False,
    page_size: int | str | None = None,
    threads: int = 0,
    progress: bool | None = None,
) -> Answer:
    """Miss-ratio curves, exact or estimated from a part of the pages: ``forebay curve``.

    Args:
        sizes: these sizes; by default 40 up to the footprint, and more where a curve bends.
        points: this many sizes, and none besides.
        spacing: ``"log"`` (at equal ratios) or ``"even"``.
        sample: estimate from this share of the pages (``"1%"`` or 0.01): SHARDS for LRU, miniature simulation for others.
        sample_pages: estimate LRU's curve from at most this many pages, however large the trace.
        errors: also make the exact curves, and tell how far the estimates are off; in `Answer.json`.

    The other arguments and errors are those of `compare`.

    Returns:
        A row for each trace, policy and size, with the columns of ``forebay curve -f csv``.
    """
    read = _traces(traces)
    asked: dict[str, Any] = {} if points is None else {"points": points, "more": 0}
    with Bars(progress) as bars:
        answer = _forebay.curve(
            [trace._source for trace in read],
            _specs(policies, _names(off_line=True)),
            sizes=[] if sizes is None else _listed(sizes),
            spacing=spacing,
            sample=_text(sample),
            sample_pages=sample_pages,
            errors=errors,
            page_size=page_size,
            threads=threads,
            progress=bars.callback(),
            **asked,
        )
    return Answer(answer, _command("curve", read, policies=policies, sizes=sizes, points=points, sample=sample))


def _level(level: object) -> str:
    if isinstance(level, str):
        return level
    if isinstance(level, type):
        raise ValueError(f"levels: {level.__name__} is written in Python, which compare and curve take alone")
    raise TypeError(f'levels: {level!r} is no text: write POLICY:SIZE, as "lru:64MiB"')


def levels(
    traces: Traces,
    levels: Sequence[str | Sequence[str]],
    *,
    mode: str = "inclusive",
    write: str | Sequence[str] = "back",
    device: str | os.PathLike[str] | None = None,
    analyze: bool = False,
    page_size: int | str | None = None,
    threads: int = 0,
    progress: bool | None = None,
) -> Answer:
    """A trace through a hierarchy of caches: ``forebay levels``.

    Args:
        levels: from the first level down, each POLICY:SIZE (``"lru:64MiB"``), at the first one times its caches
            (``"lru:8MiB*12"``); or alternatives, each combination of which is replayed.
        mode: who keeps a page that passes: ``"inclusive"``, ``"exclusive"`` or ``"hints"``.
        write: what becomes of writes, level by level, the last one holding for all below: ``"through"``, ``"back"``,
            ``"back:REFERENCES"``.
        analyze: also analyze the references that each level gets; in `Answer.json`.

    The other arguments and errors are those of `compare`.

    Returns:
        A row for each trace, hierarchy and level, with the columns of ``forebay levels -f csv``.
    """
    read = _traces(traces)
    named = [",".join(map(_level, [level] if isinstance(level, (str, type)) else level)) for level in ([levels] if isinstance(levels, str) else levels)]
    with Bars(progress) as bars:
        answer = _forebay.levels(
            [trace._source for trace in read],
            named,
            mode=mode,
            write=_listed(write),
            device=_text(device),
            analyze=analyze,
            page_size=page_size,
            threads=threads,
            progress=bars.callback(),
        )
    return Answer(answer, _command("levels", read, levels=named, mode=mode, device=device))


def analyze(
    traces: Traces,
    policies: str | Sequence[Any] = ("lru", "ubm", "opt"),
    sizes: Size | Sequence[Size] = "10%",
    *,
    only: str | Sequence[str] | None = None,
    grid: tuple[int, int] = (512, 256),
    managers: str | os.PathLike[str] | None = None,
    page_size: int | str | None = None,
    threads: int = 0,
    progress: bool | None = None,
) -> Answer:
    """What a trace is like, and what policies hit of it by distance, request and owner: ``forebay analyze``.

    Args:
        only: these sections alone: footprint, working-set, space-time, temporal-distance, frequency, classes,
            hits-by-distance, request-length, owners.
        grid: columns (times) and rows (positions) of the space-time graph.

    The other arguments and errors are those of `compare`.

    Returns:
        A row for each number, with what it is of: the columns of ``forebay analyze -f csv``. `Answer.json` has the graph, too.
    """
    read = _traces(traces)
    with Bars(progress) as bars:
        answer = _forebay.analyze(
            [trace._source for trace in read],
            _specs(policies, _names(off_line=True)),
            _listed(sizes),
            only=None if only is None else _listed(only),
            grid=grid,
            managers=managers,
            page_size=page_size,
            threads=threads,
            progress=bars.callback(),
        )
    return Answer(answer, _command("analyze", read, policies=policies, sizes=sizes, only=only))
