"""Progress bars, where tqdm is installed and somebody looks."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

#: Shorter work shows no bar.
_BEFORE_A_BAR = 0.5


def _somebody_looks() -> bool:
    if "ipykernel" in sys.modules:
        return True
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False


class Bars:
    """Called with the number of the thing that is being done, its name, the references done, and all that it has.

    ``show`` is True, False, or None: a bar if tqdm is installed and somebody looks.
    """

    def __init__(self, show: bool | None, unit: str = "refs") -> None:
        self._unit = unit
        self._tqdm: Any = None
        self._bar: Any = None
        self._number = 0
        self._start = time.monotonic()
        if show or (show is None and _somebody_looks()):
            try:
                from tqdm.auto import tqdm
            except ImportError:
                if show:
                    raise
            else:
                self._tqdm = tqdm

    def callback(self) -> Bars | None:
        """What the work is to call; None if nothing is shown."""
        return self if self._tqdm is not None else None

    def __call__(self, number: int, what: str, done: int, all: int | None) -> None:
        if self._bar is not None and number != self._number:
            self._close()
        self._number = number
        if self._bar is None:
            if time.monotonic() - self._start < _BEFORE_A_BAR:
                return
            self._bar = self._tqdm(total=all, desc=what, unit=f" {self._unit}", unit_scale=True, leave=False)
        if all is not None:
            self._bar.total = all
        self._bar.n = done
        self._bar.refresh()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()
