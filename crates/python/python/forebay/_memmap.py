"""Arrays larger than memory: NumPy arrays whose pages a policy chooses."""

from __future__ import annotations

import atexit
import errno
import json
import math
import os
import sys
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from . import _forebay

if TYPE_CHECKING:
    from typing_extensions import Self

_MODES = {"r": "r", "readonly": "r", "r+": "r+", "readwrite": "r+", "w+": "w+", "write": "w+"}

#: What is mapped, to be made durable when the interpreter ends.
_REGIONS: weakref.WeakSet[_forebay.Region] = weakref.WeakSet()


@atexit.register
def _flush_all() -> None:
    for region in list(_REGIONS):
        try:
            region.sync()
        except OSError as error:
            # A child of fork has none of them.
            if error.errno != errno.ENOTSUP:
                print(f"forebay: what was written last is not in storage: {error}", file=sys.stderr)


def _shape(given: int | Sequence[int] | None, length: int, offset: int, dtype: np.dtype[Any], path: str) -> tuple[int, ...]:
    """The shape asked, or as much as there is."""
    if given is not None:
        shape = (given,) if isinstance(given, (int, np.integer)) else tuple(given)
        if any(extent < 0 for extent in shape):
            raise ValueError(f"shape={given!r}: take whole numbers from 0 on")
        return tuple(int(extent) for extent in shape)
    if offset > length or (length - offset) % dtype.itemsize:
        raise ValueError(f"{path} has {length} bytes, which from offset {offset} on are no whole number of {dtype}: say another shape or dtype")
    return ((length - offset) // dtype.itemsize,)


class memmap(np.ndarray[Any, Any]):
    """An array whose bytes are those of a file, of which at most `memory` are resident: as ``numpy.memmap``, under any policy.

    >>> array = forebay.memmap("large.f8", dtype="f8", mode="r+", memory="1GiB", policy="clock-pro")
    >>> array[10_000_000] += 1
    >>> array.flush()                        # now it is durable

    Args:
        path: a file or block device.
        dtype: of its items, by default bytes; no objects.
        mode: ``"r"``: the array cannot be written; ``"r+"`` (default); ``"w+"``: the file is made, or made empty. In the last two it is made
            longer if `shape` is.
        offset: the array's first byte in the file. Any is fine.
        shape: by default (items,), to the end of the file.
        order: ``"C"`` or ``"F"``.
        memory: the most that is resident, in bytes or as ``"1GiB"``. To share it with other arrays, use `Pager`.
        policy: chooses what stays; any of ``forebay.policies()`` but those that know the future.
        page_size: the bytes of a page: a power of two from 4 KiB to 1 MiB.

    Raises:
        ValueError: what makes no sense; a file that is too short, or empty.
        OSError: the file cannot be opened, or others have it open for writing; userfaultfd is refused here.

    The file is mapped until the last view of it is gone, and made durable then and at the interpreter's end. A read that fails is ``SIGBUS``,
    which ends the process, as with ``numpy.memmap``. A child of ``fork`` does not have it. docs/python.md has all of it.
    """

    __array_priority__ = -100.0
    _region: _forebay.Region | None

    def __new__(
        cls,
        path: str | os.PathLike[str] | bytes,
        dtype: Any = np.uint8,
        mode: str = "r+",
        offset: int = 0,
        shape: int | Sequence[int] | None = None,
        order: Literal["C", "F"] = "C",
        *,
        memory: int | str = "1GiB",
        policy: str = "clock-pro",
        page_size: int | str = "4KiB",
    ) -> Self:
        pager = Pager(memory, policy, page_size=page_size)
        return _map(cls, pager._pager, path, dtype, mode, offset, shape, order)

    def __array_finalize__(self, array: Any) -> None:
        region = getattr(array, "_region", None)
        self._region = region if region is not None and np.may_share_memory(self, array) else None

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        array = super().__array_wrap__(array, context)
        if self is array or type(self) is not memmap:
            return array
        # What was computed lies in memory of its own.
        return array[()] if return_scalar else array.view(np.ndarray)

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        if type(found) is memmap and found._region is None:
            return found.view(np.ndarray)
        return found

    def flush(self) -> None:
        """Makes durable what was written to the file before, by whichever array of it. Of a copy it does nothing.

        Raises:
            OSError: storage took not all; what it did not take stays in memory, and is tried again.
        """
        if self._region is not None:
            self._region.sync()

    def statistics(self) -> dict[str, Any]:
        """What happened: ``faults`` and ``cache``, which arrays of one `Pager` share, and ``file``. docs/python.md has the names.

        Raises:
            ValueError: it is a copy, and not mapped.
        """
        if self._region is None:
            raise ValueError("this array is a copy in memory: it has no statistics")
        found: dict[str, Any] = json.loads(self._region.statistics())
        return found


class Pager:
    """A limit of memory that several mapped arrays share.

    >>> pager = forebay.Pager("1GiB", "clock-pro")
    >>> left, right = pager.memmap("left.f8", "f8", "r"), pager.memmap("right.f8", "f8", "r")

    Args:
        memory: the most that is resident of all arrays together, in bytes or as ``"1GiB"``: from 16 pages to what the machine has.
        policy: chooses what stays; any of ``forebay.policies()`` but those that know the future.
        page_size: the bytes of a page: a power of two from 4 KiB to 1 MiB.
        threads: the most threads that handle faults.
        sampling: the share of a processor that it may cost to see which pages are used.

    Raises:
        ValueError: what makes no sense.
        OSError: userfaultfd is refused here; the words say which setting allows it.
    """

    def __init__(
        self,
        memory: int | str,
        policy: str = "clock-pro",
        *,
        page_size: int | str = "4KiB",
        threads: int = 64,
        sampling: float = 0.02,
    ) -> None:
        self._pager = _forebay.Pager(memory, policy, page_size=page_size, threads=threads, sampling=sampling)
        self._called = f"<forebay.Pager of {memory}, {policy}>"

    def memmap(
        self,
        path: str | os.PathLike[str] | bytes,
        dtype: Any = np.uint8,
        mode: str = "r+",
        offset: int = 0,
        shape: int | Sequence[int] | None = None,
        order: Literal["C", "F"] = "C",
    ) -> memmap:
        """An array whose bytes are those of a file, within this pager's memory: as `forebay.memmap`."""
        return _map(memmap, self._pager, path, dtype, mode, offset, shape, order)

    def statistics(self) -> dict[str, Any]:
        """What happened: ``faults``, ``cache``, and ``files``, a list. docs/python.md has the names."""
        found: dict[str, Any] = json.loads(self._pager.statistics())
        return found

    def __repr__(self) -> str:
        return self._called


_Array = TypeVar("_Array", bound=memmap)


def _map(
    cls: type[_Array],
    pager: _forebay.Pager,
    path: str | os.PathLike[str] | bytes,
    dtype: Any,
    mode: str,
    offset: int,
    shape: int | Sequence[int] | None,
    order: Literal["C", "F"],
) -> _Array:
    if mode not in _MODES:
        copied = ': for a copy of one\'s own, np.array(forebay.memmap(…, mode="r"))' if mode in ("c", "copyonwrite") else ""
        raise ValueError(f'mode={mode!r}: take "r", "r+" or "w+"{copied}')
    mode = _MODES[mode]
    kind = np.dtype(dtype)
    if kind.hasobject or not kind.itemsize:
        raise ValueError(f"dtype={dtype!r}: its items are no bytes of a file")
    if offset < 0:
        raise ValueError(f"offset={offset}: take bytes from 0 on")
    if order != "C" and order != "F":
        raise ValueError(f'order={order!r}: take "C" or "F"')
    name = os.fsdecode(path)
    if mode == "w+" and shape is None:
        raise ValueError('mode="w+" makes the file: say shape')
    # Checked before the file is touched.
    wanted = None if shape is None else _shape(shape, 0, 0, kind, name)
    length = None
    if wanted is not None:
        length = offset + kind.itemsize * math.prod(wanted)
        if not length:
            raise ValueError(f"shape={shape}: an empty file cannot be mapped")
    region = pager.map(name, read_only=mode == "r", create=mode == "w+", length=length if mode != "r" else None)
    if length is not None and length > region.length:
        raise ValueError(f"{name} has {region.length} bytes, and offset {offset} and shape {shape} take {length}")
    found = _shape(shape, region.length, offset, kind, name)
    _REGIONS.add(region)
    array: _Array = np.ndarray.__new__(cls, found, dtype=kind, buffer=np.asarray(region), offset=offset, order=order)
    array._region = region
    return array
