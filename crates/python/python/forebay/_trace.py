"""Traces: what a program, a file system or a volume referenced."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from . import _columns, _forebay
from ._progress import Bars

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import polars as pl

class _Folder:
    """A folder of temporary files, which goes when nobody has it any more."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="forebay-")
        self.remove = weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


def shown(path: str) -> str:
    """A path as text that can be written anywhere: file names need not be."""
    return os.fsencode(path).decode("utf-8", "replace")


def _linked(path: str) -> tuple[str, _Folder]:
    """A name of the same file that is text."""
    folder = _Folder()
    name = os.path.join(folder.name, os.path.basename(path).encode("ascii", "replace").decode())
    os.symlink(os.path.abspath(path), name)
    return name, folder


def _list(texts: str | Sequence[str] | None) -> list[str]:
    if texts is None:
        return []
    return [texts] if isinstance(texts, str) else list(texts)


class Trace:
    """References to pages, in order: a file of any known format, columns in memory, or made up.

    A trace is made by one of its class methods (`read`, `from_numpy`, `from_pandas`, `from_polars`, `from_arrow`,
    `from_keys`, `synthetic`, `record`, `sample`). It is read anew for each question, as the command does; columns in memory are
    read where they lie.
    """

    __slots__ = ("_folders", "_length", "_source", "__weakref__")

    def __init__(self, source: _forebay.Source, folders: tuple[_Folder, ...] = ()) -> None:
        if not isinstance(source, _forebay.Source):
            raise TypeError("a Trace is made by Trace.read, from_keys, from_numpy, from_pandas, from_arrow or synthetic")
        self._source = source
        #: Where what came from URLs is kept until nobody has it any more.
        self._folders = folders
        self._length: int | None = None

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        columns: Mapping[str, str] | None = None,
        page_size: int | str | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Trace:
        """A trace from a file or URL, in any format that ``forebay formats`` lists, compressed or not.

        Args:
            path: a file; a URL that fsspec knows (``s3://``, ``gs://``, ``https://``), which is downloaded to a temporary
                file once; or all that the command takes: a synthetic trace, ``sample``.
            format: its format, where content and name do not tell.
            columns: which column of a CSV or Parquet file has what: ``{"offset": "lba", "time": "ts"}``.
            page_size: the bytes of a page (8192 or ``"8KiB"``); by default the trace's own.
            storage_options: for fsspec, as keys or an anonymous user.

        Raises:
            ValueError: there is no such format or page size.
            TraceError: when it is first read, what is wrong with it and where.
        """
        name = os.fsdecode(path)
        meaning = ",".join(f"{meaning}={column}" for meaning, column in columns.items()) if columns else None
        local = name
        folders: tuple[_Folder, ...] = ()
        if "://" in name:
            local, folder = _download(name, storage_options or {})
            folders = (folder,)
        elif shown(name) != name:
            local, folder = _linked(name)
            folders = (folder,)
        source = _forebay.Source.named(local, name=shown(name), format=format, columns=meaning, page_size=page_size)
        return cls(source, folders)

    @classmethod
    def synthetic(cls, spec: str) -> Trace:
        """A made-up trace: ``zipf:pages=100k,references=1M``, ``loop:…``, ``scan:…``; docs/trace-formats.md has them all."""
        if ":" not in spec:
            spec += ":"
        return cls(_forebay.Source.synthetic(spec))

    @classmethod
    def record(
        cls,
        program: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        *,
        output: str | os.PathLike[str] | None = None,
        memory: bool = False,
        pid: int | Sequence[int] = (),
        blocks: str | os.PathLike[str] | None = None,
        mapped: bool = False,
        duration: float | None = None,
        limit: int | None = None,
        page_size: int | str | None = None,
        force: bool = False,
    ) -> Trace:
        """Runs a program and records what it references: ``Trace.record(["make", "-j2"])``, as ``forebay record`` does.

        The program's input and output are this process's. Files are recorded by strace, without being root. Ctrl-C is for the
        program: the recording ends when it does, and then raises KeyboardInterrupt here; a file named by `output` is whole.

        Args:
            program: the program and its arguments; none with `pid`, and with `blocks` if it is not to end with one.
            output: the file to write, whose name says its format; by default a temporary one that goes with the trace.
            memory: the program's references to memory instead, by valgrind.
            pid: the files of processes that run already, until they end or for `duration`.
            blocks: the requests to a block device, as root.
            mapped: whether a mapping of a file counts as a read of all that is mapped.
            duration: seconds after which the recording ends, and the program with it.
            limit: requests after which the recording ends, and the program with it.
            page_size: the bytes of a page to keep in the trace; by default it is inferred from the requests.
            force: whether `output` is replaced if it exists.

        Raises:
            ValueError: the arguments do not fit each other; there is no such process.
            FileNotFoundError: there is no such program.
            PermissionError: the program is not executable.
            Error: nothing could be recorded, and why.

        Warns:
            UserWarning: the program ended with another exit code than 0.
        """
        words = [program] if isinstance(program, (str, os.PathLike)) else list(program)
        pids = [pid] if isinstance(pid, int) else list(pid)
        if sum(map(bool, (words and blocks is None, pids, blocks is not None))) != 1:
            raise ValueError("record wants a program, or pid, or blocks with or without a program")
        if memory and (pids or blocks is not None):
            raise ValueError("memory is recorded of a program: leave out pid and blocks")
        folders: tuple[_Folder, ...] = ()
        if output is not None:
            _check_free(output, force)
        if output is None:
            folders = (_Folder(),)
            name = os.path.basename(os.fspath(words[0])) if words else "recording"
            output = os.path.join(folders[0].name, f"{name}.parquet")
        code, _, needed = _forebay.record(
            output,
            program=[os.fspath(word) for word in words],
            memory=memory,
            pid=pids,
            blocks=blocks,
            mapped=mapped,
            duration=duration,
            limit=limit,
            page_size=page_size,
            force=force,
        )
        if code:
            warnings.warn(f"{words[0]} ended with exit code {code}: the trace is what it did until then", stacklevel=2)
        path = os.fspath(output)
        name = shown(os.path.basename(path))
        if shown(path) != path:
            path, folder = _linked(path)
            folders = (*folders, folder)
        return cls(_forebay.Source.named(path, name=name, page_size=needed), folders)

    @classmethod
    def sample(cls) -> Trace:
        """The embedded sample: cscope, gcc and SQLite at work at once, 166,266 references to 8,935 pages of 8 KiB."""
        return cls(_forebay.Source.named("sample"))

    @classmethod
    def from_arrow(
        cls,
        table: Any,
        *,
        columns: Mapping[str, str] | None = None,
        unit: str | None = None,
        page_size: int | str | None = None,
        name: str = "arrow",
    ) -> Trace:
        """A trace from an Arrow table, a column of keys, or whatever has ``__arrow_c_stream__``.

        Args:
            table: a table with the columns of Forebay's Parquet files: ``offset``, and if there are such ``time`` (nanoseconds; seconds
                if floating; or timestamps), ``owner``, ``object``, ``length`` (1 if missing), ``operation`` (read, write,
                readahead). Or one column: keys, each a page. Whole numbers are read where they lie.
            columns: which column has what where the names differ: ``{"offset": "lba"}``.
            unit: what offsets and lengths count: ``"bytes"``, ``"blocks:512"`` or ``"pages"``; by default what the
                table's metadata says, or bytes.
            page_size: the bytes of a page; by default the trace's own.
            name: what it is called in tables.

        Raises:
            ValueError: which column is missing or wrong.
        """
        if isinstance(table, (pa.Array, pa.ChunkedArray)):
            return cls._from_keys(_columns.keys(table, name), page_size, name)
        if not isinstance(table, pa.Table):
            table = pa.table(table)
        found, unit = _columns.of_table(table, columns, unit, name)
        return cls(_forebay.Source.columns(name, found, unit=unit, page_size=page_size))

    @classmethod
    def from_pandas(
        cls,
        frame: pd.DataFrame | pd.Series[Any],
        *,
        columns: Mapping[str, str] | None = None,
        unit: str | None = None,
        page_size: int | str | None = None,
        name: str = "pandas",
    ) -> Trace:
        """A trace from a DataFrame with the columns of `from_arrow`, or from a Series of keys of any hashable kind."""
        import pandas as pd

        if isinstance(frame, pd.Series):
            return cls.from_numpy(frame.to_numpy(), page_size=page_size, name=name)
        wanted = frame.columns.intersection(list(_columns.check(columns, [str(there) for there in frame.columns], name).values()))
        table = pa.Table.from_pandas(frame[list(wanted)], preserve_index=False).replace_schema_metadata(None)
        return cls.from_arrow(table, columns=columns, unit=unit, page_size=page_size, name=name)

    @classmethod
    def from_polars(
        cls,
        frame: pl.DataFrame | pl.Series,
        *,
        columns: Mapping[str, str] | None = None,
        unit: str | None = None,
        page_size: int | str | None = None,
        name: str = "polars",
    ) -> Trace:
        """A trace from a DataFrame with the columns of `from_arrow`, or from a Series of keys."""
        if not hasattr(frame, "to_arrow"):
            raise TypeError(f"{name}: a DataFrame or Series is wanted, not a {type(frame).__name__}; collect() makes one of a LazyFrame")
        return cls.from_arrow(frame.to_arrow(), columns=columns, unit=unit, page_size=page_size, name=name)

    @classmethod
    def from_numpy(
        cls,
        array: np.ndarray[Any, Any],
        *,
        columns: Mapping[str, str] | None = None,
        unit: str | None = None,
        page_size: int | str | None = None,
        name: str = "numpy",
    ) -> Trace:
        """A trace from an array of keys, shape (references,), or a structured array whose fields are the columns of `from_arrow`.

        Keys are whole numbers, which are read where they lie, or of any hashable kind; each is a page.
        """
        import numpy as np

        if np.ma.is_masked(array):
            raise ValueError(f"{name} has masked values: drop them, as array.compressed() does, or fill them")
        array = np.asarray(array)
        if array.ndim != 1:
            raise ValueError(f"{name} has the shape {array.shape}: a trace has one dimension, as array.ravel() has")
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        if array.dtype.names:
            found = {field: pa.array(np.ascontiguousarray(array[field])) for field in array.dtype.names}
            return cls.from_arrow(pa.table(found), columns=columns, unit=unit, page_size=page_size, name=name)
        if array.dtype.kind == "O":
            return cls.from_keys(array.tolist(), page_size=page_size, name=name)
        if array.dtype.kind == "f" and (missing := int(np.isnan(array).sum())):
            raise ValueError(f"{name} has {missing} missing values: drop or fill them")
        return cls._from_keys(_columns.keys(pa.array(array), name), page_size, name)

    @classmethod
    def from_keys(cls, keys: Iterable[Hashable], *, page_size: int | str | None = None, name: str = "keys") -> Trace:
        """A trace from keys of any hashable kind, each a page; equal keys are one, as in a dict."""
        return cls._from_keys(_columns.numbered(keys), page_size, name)

    @classmethod
    def _from_keys(cls, keys: Any, page_size: int | str | None, name: str) -> Trace:
        return cls(_forebay.Source.columns(name, pa.table({"offset": keys}), unit="pages", page_size=page_size))

    def only(
        self,
        *,
        owners: str | Sequence[str] | None = None,
        files: str | Sequence[str] | None = None,
        start: float | None = None,
        end: float | None = None,
        first: int | None = None,
    ) -> Trace:
        """The part of it with these owners, files and times.

        Args:
            owners, files: patterns of names, ``*`` and ``?`` standing for any text and character; one that fits is enough.
            start, end: seconds after the trace's first request; the end is not in it.
            first: the most requests of that part; what comes behind them is not read.
        """
        if first is not None and first < 1:
            raise ValueError(f"first={first}: take a request at least")
        during = None
        if start is not None or end is not None:
            since, until = start or 0.0, float("inf") if end is None else end
            if not 0.0 <= since < until:
                raise ValueError(f"start={start}, end={end}: seconds from 0 on, the start before the end")
            nanoseconds = (1 << 64) - 1
            during = (round(since * 1e9), nanoseconds if until == float("inf") else min(round(until * 1e9), nanoseconds))
        return Trace(self._source.part(owners=_list(owners), files=_list(files), during=during, first=first), self._folders)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process gets the requests, since files may not be there.
        return _unpickled, (self.name, self.to_arrow(progress=False))

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return self._source.name

    def info(self, *, progress: bool | None = None) -> dict[str, Any]:
        """What it holds, under the names of ``forebay info --format json``: requests, references, pages, owners, files, span."""
        with Bars(progress) as bars:
            found: dict[str, Any] = json.loads(self._source.info(bars.callback()))
            return found

    def to_arrow(self, *, progress: bool | None = None) -> pa.Table:
        """Its requests as a table of the columns of `from_arrow`, names as dictionaries."""
        with Bars(progress) as bars:
            return pa.table(self._source.table(bars.callback()))

    def write(self, path: str | os.PathLike[str], *, force: bool = False, progress: bool | None = None) -> int:
        """Writes it as ``forebay convert`` does, in the format that the name says; returns how many requests it has.

        Raises:
            TraceError: the file is there and `force` is false; the name says no format; it cannot be written.
            KeyboardInterrupt: at once; there is no part of a file.
        """
        _check_free(path, force)
        with Bars(progress) as bars:
            return self._source.write(os.fspath(path), force=force, progress=bars.callback())

    def __len__(self) -> int:
        """How many requests it has; a file is read for it once."""
        if self._length is None:
            self._length = self._source.requests()
        return self._length

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<forebay.Trace {self.name!r}>"


def _check_free(path: str | os.PathLike[str], force: bool) -> None:
    if not force and os.path.exists(path):
        raise _forebay.TraceError(f"{shown(os.fspath(path))}: exists already; force=True replaces it")


def _unpickled(name: str, table: pa.Table) -> Trace:
    return Trace.from_arrow(table, name=name)


def _download(url: str, storage_options: Mapping[str, Any]) -> tuple[str, _Folder]:
    """What is at the URL, in a file of the same name in a folder that goes with the trace."""
    try:
        import fsspec
    except ImportError as missing:
        raise ImportError(f"{url}: fsspec reads URLs: pip install fsspec, with s3fs, gcsfs or aiohttp") from missing
    folder = _Folder()
    try:
        system, remote = fsspec.core.url_to_fs(url, **storage_options)
        local = os.path.join(folder.name, os.path.basename(remote.rstrip("/")) or "trace")
        system.get_file(remote, local)
    except Exception as error:
        folder.remove()
        if isinstance(error, ImportError):
            raise
        words = str(error) or type(error).__name__
        raise _forebay.TraceError(f"{url}: downloading failed: {words}") from error
    return local, folder


def mix(
    traces: Sequence[Trace | str | os.PathLike[str]],
    *,
    times: str = "recorded",
    page_size: int | str | None = None,
    progress: bool | None = None,
) -> Trace:
    """Several traces as one, as if all had happened at once on one machine: as ``forebay mix``.

    Requests come in the order of their times. Owners and objects become SOURCE/NAME.

    Args:
        traces: two or more; each is read once now.
        times: ``"recorded"``, ``"from-start"`` (counted from each trace's first request) or ``"scaled"`` (stretched to the
            longest; a trace without times is spread by its references).
        page_size: the bytes of a page; by default the traces' own.
    """
    if len(traces) < 2:
        raise ValueError("mix takes two traces or more")
    read = [trace if isinstance(trace, Trace) else Trace.read(trace) for trace in traces]
    with Bars(progress) as bars:
        sources = [trace._source for trace in read]
        mixed = _forebay.Source.mixed(sources, times=times, page_size=page_size, progress=bars.callback())
    # What was downloaded stays while the mix does.
    return Trace(mixed, tuple(folder for trace in read for folder in trace._folders))
