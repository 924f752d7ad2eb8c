"""The part of the package that is in Rust. What it says is for `forebay` alone, and may change with it."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, final

import os

__version__: str

class Error(Exception):
    """What could not be done, in the command's words."""

class TraceError(Error):
    """A trace that cannot be read or written: which file, where in it, what to do."""

class PolicyError(Error):
    """A policy written in Python broke the contract."""

_Progress = Callable[[int, str, int, int | None], None] | None

@final
class Table:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

@final
class Source:
    @property
    def name(self) -> str: ...
    @staticmethod
    def named(
        path: str,
        *,
        name: str | None = None,
        format: str | None = None,
        columns: str | None = None,
        page_size: int | str | None = None,
    ) -> Source: ...
    @staticmethod
    def synthetic(spec: str) -> Source: ...
    @staticmethod
    def columns(name: str, table: object, *, unit: str | None = None, page_size: int | str | None = None) -> Source: ...
    @staticmethod
    def mixed(
        sources: Sequence[Source], *, times: str, page_size: int | str | None = None, progress: _Progress = None
    ) -> Source: ...
    def part(
        self, *, owners: Sequence[str] = ..., files: Sequence[str] = ..., during: tuple[int, int] | None = None
    ) -> Source: ...
    def hold(self, *, page_size: int | str | None = None, progress: _Progress = None) -> Source: ...
    @property
    def bytes(self) -> int: ...
    def in_pages(self, sizes: Sequence[int | str]) -> list[int]: ...
    def info(self, progress: _Progress = None) -> str: ...
    def requests(self, progress: _Progress = None) -> int: ...
    def table(self, progress: _Progress = None) -> Table: ...
    def write(self, path: str, *, force: bool = False, progress: _Progress = None) -> int: ...

@final
class Answer:
    def columns(self) -> list[tuple[str, str, str]]: ...
    def table(self) -> Table: ...
    def advice(self) -> list[tuple[str, str]]: ...
    def traces(self) -> list[tuple[str, str]]: ...
    def json(self) -> str: ...
    def charts(self) -> str: ...
    def html(self, command: str, date: str) -> str: ...

@final
class Cache:
    def __init__(self, policy: str, capacity: int) -> None: ...
    def access(self, key: Hashable) -> bool: ...
    def contains(self, key: Hashable) -> bool: ...
    def __contains__(self, key: object) -> bool: ...
    def remove(self, key: Hashable) -> bool: ...
    def resize(self, capacity: int) -> None: ...
    def state(self) -> dict[str, float]: ...
    def __len__(self) -> int: ...
    @property
    def policy(self) -> str: ...
    @property
    def capacity(self) -> int: ...
    @property
    def ghosts(self) -> int: ...
    @property
    def hits(self) -> int: ...
    @property
    def misses(self) -> int: ...

@final
class Cached:
    def __init__(
        self, function: Callable[..., Any], policy: str, maxsize: int | None, typed: bool, shape: type
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def cache_info(self) -> Any: ...
    def cache_clear(self) -> None: ...
    def cache_parameters(self) -> dict[str, Any]: ...

@final
class Steps:
    def __init__(self, policy: Callable[[int], Any], capacity: int) -> None: ...
    def reference(self, page: int, pinned: set[int]) -> tuple[bool | None, list[int], list[int]]: ...
    def evict(self, pinned: set[int]) -> tuple[bool, list[int], list[int]]: ...
    def remove(self, page: int) -> tuple[bool, list[int], list[int]]: ...
    def resize(self, capacity: int, pinned: set[int]) -> tuple[bool, list[int], list[int]]: ...
    def resident(self, below: int) -> list[int]: ...

def policies() -> list[tuple[str, str, str, bool]]: ...
def colors() -> list[tuple[str, str]]: ...
def compare(
    sources: Sequence[Source],
    policies: Sequence[Any],
    sizes: Sequence[int | str],
    *,
    warmup: int | str,
    device: str | None = None,
    think_us: float = 0.0,
    readahead: str = "none",
    by_distance: bool = False,
    by: str | None = None,
    states: int = 0,
    behind: str | None = None,
    sample: str | None = None,
    managers: str | os.PathLike[str] | None = None,
    page_size: int | str | None = None,
    threads: int = 0,
    progress: _Progress = None,
) -> Answer: ...
def curve(
    sources: Sequence[Source],
    policies: Sequence[Any],
    *,
    sizes: Sequence[int | str] = ...,
    points: int = 40,
    more: int = 40,
    spacing: str = "log",
    sample: str | None = None,
    sample_pages: int | None = None,
    errors: bool = False,
    page_size: int | str | None = None,
    threads: int = 0,
    progress: _Progress = None,
) -> Answer: ...
def levels(
    sources: Sequence[Source],
    levels: Sequence[str],
    *,
    mode: str = "inclusive",
    write: Sequence[str] = ...,
    device: str | None = None,
    analyze: bool = False,
    page_size: int | str | None = None,
    threads: int = 0,
    progress: _Progress = None,
) -> Answer: ...
def analyze(
    sources: Sequence[Source],
    policies: Sequence[Any],
    sizes: Sequence[int | str],
    *,
    only: Sequence[str] | None = None,
    grid: tuple[int, int] = (512, 256),
    managers: str | os.PathLike[str] | None = None,
    page_size: int | str | None = None,
    threads: int = 0,
    progress: _Progress = None,
) -> Answer: ...
def record(
    out: str | os.PathLike[str],
    *,
    program: Sequence[str],
    memory: bool,
    pid: Sequence[int],
    blocks: str | os.PathLike[str] | None,
    mapped: bool,
    duration: float | None,
    limit: int | None,
    page_size: int | str | None,
    force: bool,
) -> tuple[int, int, int | None]: ...
