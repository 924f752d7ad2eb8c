"""A decorator that caches a function's results under any policy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, cast, overload

from . import _forebay

P = ParamSpec("P")
R = TypeVar("R")


class CacheInfo(NamedTuple):
    """What `cache_info` of a cached function returns, as that of `functools.lru_cache`."""

    hits: int
    misses: int
    #: None: everything is kept.
    maxsize: int | None
    currsize: int


class CachedFunction(Generic[P, R]):
    """For type checkers: what `cached` makes of a function."""

    __wrapped__: Callable[P, R]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        raise NotImplementedError

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]:
        raise NotImplementedError

    def cache_info(self) -> CacheInfo:
        """Hits, misses, the most results that are kept, and how many are."""
        raise NotImplementedError

    def cache_clear(self) -> None:
        """Forgets all results, and the counts."""
        raise NotImplementedError

    def cache_parameters(self) -> dict[str, Any]:
        """Policy, maxsize and typed, as they were asked for."""
        raise NotImplementedError


@overload
def cached(function: Callable[P, R], /) -> CachedFunction[P, R]: ...
@overload
def cached(
    *, policy: str = ..., maxsize: int | None = ..., typed: bool = ...
) -> Callable[[Callable[P, R]], CachedFunction[P, R]]: ...
def cached(
    function: Callable[P, R] | None = None, /, *, policy: str = "clock-pro", maxsize: int | None = 128, typed: bool = False
) -> CachedFunction[P, R] | Callable[[Callable[P, R]], CachedFunction[P, R]]:
    """Caches a function's results, as `functools.lru_cache` does, but under any policy that runs.

    >>> @forebay.cached(policy="clock-pro", maxsize=10_000)
    ... def page(number): ...

    Args:
        policy: which results are kept: a name with its parameters if wanted.
        maxsize: the most results that are kept; None: all, whatever the policy; 0: none.
        typed: keep arguments of different types apart: ``f(3)`` and ``f(3.0)``.

    The result has ``cache_info()``, ``cache_clear()``, ``cache_parameters()`` and ``__wrapped__``. It may be called by many threads
    and by itself; a function may then be called twice for the same arguments, and the first result stays. Exceptions are
    not cached. Arguments are kept while the policy remembers them, some for longer than their results.

    Raises:
        ValueError: there is no such policy, or it knows the future.
        TypeError: when it is called, an argument is not hashable.
    """

    def decorate(function: Callable[P, R]) -> CachedFunction[P, R]:
        if not callable(function):
            raise TypeError(f"cached is for functions, and {function!r} is none: write @cached(maxsize=…)")
        made = _forebay.Cached(function, policy, maxsize, typed, CacheInfo)
        functools.update_wrapper(cast(Any, made), function)
        return cast("CachedFunction[P, R]", made)

    return decorate if function is None else decorate(function)
