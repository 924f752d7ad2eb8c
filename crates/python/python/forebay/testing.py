"""Tests for policies written in Python: the contract that the built-in ones keep."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from . import _forebay

__all__ = ["check"]

_PAGES = 24


class _Broken(Exception):
    pass


def _steps(seed: int) -> tuple[int, list[tuple[Any, ...]]]:
    """A capacity, and random steps: references with refusals, removals, evictions and resizes between."""
    chance = random.Random(seed)
    capacity = chance.choice([1, 2, 3, 5, 8, 12])
    steps: list[tuple[Any, ...]] = []
    kinds = ["reference"] * 12 + ["near"] * 6 + ["pin", "pin", "pin all", "unpin", "unpin", "remove", "resize", "evict"]
    for _ in range(chance.randrange(20, 250)):
        kind = chance.choice(kinds)
        if kind == "near":
            steps.append(("reference", chance.randrange(6)))
        elif kind in ("reference", "pin", "remove"):
            steps.append((kind, chance.randrange(_PAGES)))
        elif kind == "resize":
            steps.append((kind, chance.randrange(1, 12)))
        else:
            steps.append((kind,))
    return capacity, steps


def _run(policy: Callable[[int], Any], capacity: int, steps: list[tuple[Any, ...]]) -> list[Any]:
    """Takes the steps, and checks after each what must hold. Returns what became of each."""
    done: list[Any] = []
    cache = _forebay.Steps(policy, capacity)
    resident: set[int] = set()
    pinned: set[int] = set()
    for number, (kind, *argument) in enumerate(steps):
        try:
            evicted: list[int] = []
            if kind == "reference":
                [page] = argument
                hit, evicted, offered = cache.reference(page, pinned)
                if hit is None:
                    _refused(resident, pinned, offered)
                else:
                    if hit != (page in resident):
                        raise _Broken(f"page {page} was {'a hit' if hit else 'a miss'}")
                    resident = (resident - set(evicted)) | {page}
                done.append((hit, evicted))
            elif kind == "pin":
                pinned.add(argument[0])
            elif kind == "pin all":
                pinned.update(range(_PAGES))
            elif kind == "unpin":
                pinned.clear()
            elif kind == "remove":
                cache.remove(argument[0])
                resident.discard(argument[0])
            elif kind == "evict":
                room, evicted, offered = cache.evict(pinned)
                if not room:
                    _refused(resident, pinned, offered)
                resident -= set(evicted)
                done.append(evicted)
            else:
                room, evicted, offered = cache.resize(argument[0], pinned)
                resident -= set(evicted)
                capacity = argument[0] if room else len(resident)
                done.append(evicted)
            if len(resident) > capacity:
                raise _Broken(f"{len(resident)} pages are resident, and {capacity} fit")
            there = cache.resident(_PAGES)
            if set(there) != resident:
                raise _Broken(f"{there} are resident, where {sorted(resident)} should be")
        except Exception as error:
            raise _at(error, number, steps) from error
    return done


def _refused(resident: set[int], pinned: set[int], offered: list[int]) -> None:
    """Where nothing could be evicted, every resident page was offered, and is pinned."""
    if set(offered) != resident:
        raise _Broken(f"only {sorted(set(offered))} of the resident pages {sorted(resident)} were offered before giving up")
    if not resident <= pinned:
        raise _Broken(f"{sorted(resident - pinned)} could have been evicted")


class _At(Exception):
    """A failure at a step."""

    def __init__(self, error: Exception, number: int) -> None:
        super().__init__(f"{type(error).__name__}: {error}" if not isinstance(error, _Broken) else str(error))
        self.error = error
        self.number = number


def _at(error: Exception, number: int, steps: list[tuple[Any, ...]]) -> _At:
    return _At(error, number)


def _failure(policy: Callable[[int], Any], capacity: int, steps: list[tuple[Any, ...]]) -> _At | None:
    try:
        first = _run(policy, capacity, steps)
        second = _run(policy, capacity, steps)
    except _At as failure:
        return failure
    if first != second:
        # The first step at which the two runs differ, counted among those that have results.
        return _At(_Broken("the same steps gave other victims the second time: seed what is random in __init__"), len(steps) - 1)
    return None


def _shorter(policy: Callable[[int], Any], capacity: int, steps: list[tuple[Any, ...]], failure: _At) -> tuple[list[Any], _At]:
    """Leaves out what the failure does not need."""
    steps = steps[: failure.number + 1]
    index = len(steps) - 1
    while index >= 0:
        without = steps[:index] + steps[index + 1 :]
        other = _failure(policy, capacity, without) if without else None
        if other is not None:
            steps, failure = without[: other.number + 1], other
            index = min(index, len(steps))
        index -= 1
    return steps, failure


def check(policy: Callable[[int], Any], *, runs: int = 200, seed: int = 0) -> None:
    """Checks that a policy written in Python keeps the contract, as the built-in ones are checked.

    It is taken through random references with evictions, removals, resizes and refused victims between, as a real cache
    has them. What must hold:

    - ``evict(page)`` returns a resident page: one that ``miss`` was told of, and ``evict`` or ``remove`` not since. It is
      never the page that room is made for.
    - While pages are resident there is a victim; each is offered before giving up.
    - ``miss`` may be told of a page again that was evicted, refused or removed.
    - The same steps give the same victims: what is random is seeded in ``__init__``.

    Args:
        policy: the class, called with a capacity.
        runs: how many random runs.
        seed: of the runs.

    Raises:
        AssertionError: what broke the contract, with the fewest steps that show it.
        TypeError: it is no policy.
    """
    _forebay.Steps(policy, 1)
    for number in range(runs):
        capacity, steps = _steps(seed + number)
        failure = _failure(policy, capacity, steps)
        if failure is None:
            continue
        steps, failure = _shorter(policy, capacity, steps, failure)
        for smaller in range(1, capacity):
            other = _failure(policy, smaller, steps)
            if other is not None:
                capacity = smaller
                steps, failure = _shorter(policy, capacity, steps, other)
                break
        name = getattr(policy, "__name__", repr(policy))
        taken = "\n".join(f"    {' '.join(map(str, step))}" for step in steps)
        raise AssertionError(f"{name}({capacity}) breaks the contract: {failure}\n  after these steps:\n{taken}") from failure.error
