"""Arrays larger than memory: NumPy arrays whose pages a policy chooses."""

from __future__ import annotations

import atexit
import errno
import json
import math
import operator
import os
import sys
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from . import _forebay

if TYPE_CHECKING:
    from typing_extensions import Self

_MODES = {
    "r": "r",
    "readonly": "r",
    "r+": "r+",
    "readwrite": "r+",
    "w+": "w+",
    "write": "w+",
    "c": "c",
    "copyonwrite": "c",
}

#: The pager's defaults.
_THREADS, _SAMPLING = 64, 0.02

#: What a pager has mapped, by device and inode.
_Files = dict[tuple[int, int], "weakref.ref[_forebay.Region]"]

#: What is mapped and kept, to be made durable when the interpreter ends.
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
        shape = tuple(map(operator.index, given if isinstance(given, Iterable) else [given]))
        if any(extent < 0 for extent in shape):
            raise ValueError(f"shape={given!r}: take whole numbers from 0 on")
        return shape
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
        mode: ``"r"``: the array cannot be written; ``"r+"`` (default); ``"w+"``: the file is made, or made empty. In these two it is made
            longer if `shape` is. ``"c"``: the array can be written, and the file stays as it is: changed pages go to a file without a name in
            the folder for temporary files (``TMPDIR``), and are gone with the array.
        offset: the array's first byte in the file. Any is fine.
        shape: by default (items,), to the end of the file.
        order: ``"C"`` or ``"F"``.
        memory: the most that is resident, in bytes or as ``"1GiB"``. To share it with other arrays, use `Pager`.
        policy: chooses what stays; any of ``forebay.policies()`` but those that know the future.
        page_size: the bytes of a page: a power of two from 4 KiB to 2 MiB.

    Raises:
        ValueError: what makes no sense; a file that is too short, or empty.
        TypeError: a shape is no whole number.
        OSError: the file cannot be opened, or others have it open for writing; userfaultfd is refused here.

    The file is mapped until the last view of it is gone, and made durable then and at the interpreter's end. A read that fails is ``SIGBUS``,
    which ends the process, as with ``numpy.memmap``. A child of ``fork`` does not have it. An array takes eight file descriptors, three where its
    `Pager` is shared. A file that is written is one array's, unless others of it are made by the same `Pager`. docs/python.md has all of it.
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
        swap = _mode(mode) == "c"
        pager = _forebay.Pager(memory, policy, page_size=page_size, threads=_THREADS, sampling=_SAMPLING, swap=swap)
        return _map(cls, pager, {}, path, dtype, mode, offset, shape, order)

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
        """Makes durable what was written to the file before, by whichever array of it. Of a copy, and with ``mode="c"``, it does nothing.

        Raises:
            OSError: storage took not all; what it did not take stays in memory, and is tried again.
        """
        region = self._region
        if region is not None and region in _REGIONS:
            region.sync()

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
        page_size: the bytes of a page: a power of two from 4 KiB to 2 MiB.
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
        threads: int = _THREADS,
        sampling: float = _SAMPLING,
    ) -> None:
        self._files: _Files = {}
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
        """An array whose bytes are those of a file, within this pager's memory: as `forebay.memmap`.

        Several may be of one file, and see each other's writes. Where one of them can be written, so can the first that is made; none of the
        others makes the file longer or empty.
        """
        return _map(memmap, self._pager, self._files, path, dtype, mode, offset, shape, order)

    def statistics(self) -> dict[str, Any]:
        """What happened: ``faults``, ``cache``, and ``files``, a list. docs/python.md has the names."""
        found: dict[str, Any] = json.loads(self._pager.statistics())
        return found

    def __repr__(self) -> str:
        return self._called


_Array = TypeVar("_Array", bound=memmap)


def _mode(mode: str) -> str:
    if mode not in _MODES:
        raise ValueError(f'mode={mode!r}: take "r", "r+", "w+" or "c"')
    return _MODES[mode]


def _identity(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


def _region(pager: _forebay.Pager, files: _Files, name: str, mode: str, length: int | None) -> _forebay.Region:
    """The file's region: the one that this pager has of it already, or a new one."""
    if mode == "c":
        return pager.map_private(name, tempfile.gettempdir())
    identity = _identity(name)
    there = files[identity]() if identity in files else None
    if there is None or mode == "w+":
        # A file that is mapped is not made empty: that it is open is said.
        there = pager.map(name, read_only=mode == "r", create=mode == "w+", length=length if mode != "r" else None)
        identity = _identity(name)
        if identity is not None:
            files[identity] = weakref.ref(there)
        _REGIONS.add(there)
    elif mode == "r+" and there.read_only:
        raise OSError(errno.EBUSY, 'it is mapped by this pager with mode="r": map it with mode="r+" first', name)
    return there


def _map(
    cls: type[_Array],
    pager: _forebay.Pager,
    files: _Files,
    path: str | os.PathLike[str] | bytes,
    dtype: Any,
    mode: str,
    offset: int,
    shape: int | Sequence[int] | None,
    order: Literal["C", "F"],
) -> _Array:
    mode = _mode(mode)
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
    region = _region(pager, files, name, mode, length)
    if length is not None and length > region.length:
        raise ValueError(f"{name} has {region.length} bytes, and offset {offset} and shape {shape} take {length}")
    found = _shape(shape, region.length, offset, kind, name)
    array: _Array = np.ndarray.__new__(cls, found, dtype=kind, buffer=np.asarray(region), offset=offset, order=order)
    array._region = region
    if mode == "r":
        array.flags.writeable = False
    return array
