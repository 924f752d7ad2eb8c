"""Files, devices and object stores behind a cache: file objects that Python's libraries read."""

from __future__ import annotations

import atexit
import io
import json
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _forebay

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

#: Which modes there are: whether it can be written, and whether it is made.
_MODES = {"r": (False, False), "r+": (True, False), "w+": (True, True), "w": (True, True)}

_POOLS: weakref.WeakSet[Pool] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for pool in list(_POOLS):
        try:
            pool.close()
        except OSError as error:
            print(f"forebay: what was written last is not in storage: {error}", file=sys.stderr)


class File(io.BufferedIOBase):
    """A file of a `Pool`: binary, with a position, read and written through the cache. `Pool.open` makes it.

    A read returns all bytes that are asked, or those up to the end; a write takes all. What was written is in storage after `flush` or `close`. Threads may
    share it: each call is done as a whole.
    """

    def __init__(self, opened: _forebay.Opened, name: str, mode: str, writable: bool) -> None:
        self._opened = opened
        self._writable = writable
        self._position = 0
        # Of the position; a reader elsewhere in the file does not wait for it.
        self._lock = threading.Lock()
        #: The path or URL.
        self.name = name
        #: As it was opened: ``"rb"``, ``"rb+"``.
        self.mode = mode

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def readable(self) -> bool:
        """Whether it can be read: always."""
        self._check()
        return True

    def writable(self) -> bool:
        """Whether it can be written."""
        self._check()
        return self._writable

    def seekable(self) -> bool:
        """Whether it has a position that can be set: always."""
        self._check()
        return True

    def _check_writable(self) -> None:
        self._check()
        if not self._writable:
            raise io.UnsupportedOperation(f'{self.name}: is open for reading: open it with mode="r+"')

    def read(self, size: int | None = -1, /) -> bytes:
        """The next `size` bytes, or all to the end."""
        self._check()
        with self._lock:
            most = (1 << 63) - 1 if size is None or size < 0 else size
            found = self._opened.read_bytes(self._position, most)
            self._position += len(found)
            return found

    def read1(self, size: int = -1, /) -> bytes:
        """As `read`; without a size 64 KiB at most."""
        return self.read(64 << 10 if size < 0 else size)

    def peek(self, size: int = 0, /) -> bytes:
        """The next bytes without advancing, by which `readline` finds the end of a line."""
        self._check()
        with self._lock:
            return self._opened.read_bytes(self._position, max(size, 4096))

    def readinto(self, buffer: Buffer, /) -> int:
        """Fills a buffer; returns how many bytes there were."""
        self._check()
        array = np.frombuffer(memoryview(buffer).cast("B"), np.uint8) if len(memoryview(buffer).cast("B")) else np.empty(0, np.uint8)
        if not array.flags.writeable and array.size:
            raise TypeError("a buffer that can be written is wanted")
        with self._lock:
            count = self._opened.read(self._position, array)
            self._position += count
            return count

    def readinto1(self, buffer: Buffer, /) -> int:
        """As `readinto`."""
        return self.readinto(buffer)

    def write(self, data: Buffer, /) -> int:
        """Writes all of it; the file becomes longer where it ends before. Returns how many bytes they were.

        Raises:
            io.UnsupportedOperation: the file is open for reading.
            OSError: storage is full, or fails, and half of the memory is dirty; else `flush` says it.
        """
        self._check_writable()
        bytes = memoryview(data).cast("B")
        if not len(bytes):
            return 0
        with self._lock:
            self._opened.write(self._position, np.frombuffer(bytes, np.uint8))
            self._position += len(bytes)
            return len(bytes)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Sets the position: from the start, from here (1) or from the end (2). Returns it."""
        self._check()
        with self._lock:
            if whence not in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
                raise ValueError(f"whence={whence}: take 0, 1 or 2")
            start = (0, self._position, self._opened.length())[whence]
            if start + offset < 0:
                raise ValueError(f"seek to byte {start + offset}: take one from 0 on")
            self._position = start + offset
            return self._position

    def tell(self) -> int:
        """The position."""
        self._check()
        return self._position

    def truncate(self, size: int | None = None, /) -> int:
        """Makes it as long as `size`, or as the position; bytes that are new are zero. Returns the length.

        Raises:
            io.UnsupportedOperation: the file is open for reading.
            OSError: its length is fixed, as a device's.
        """
        self._check_writable()
        with self._lock:
            length = self._position if size is None else size
            if length < 0:
                raise ValueError(f"truncate to {length} bytes: take 0 or more")
            self._opened.set_length(length)
            return length

    def flush(self) -> None:
        """Makes durable what was written to it before. It is in storage then, not in the system's memory alone.

        Raises:
            OSError: storage took not all; what it did not take stays in memory, and is tried again.
        """
        self._check()
        if self._writable:
            self._opened.flush()

    def close(self) -> None:
        """Closes it; what was written is durable then.

        Raises:
            OSError: as `flush`. It is closed all the same, and the pool tries again when it is opened again, or closed itself.
        """
        if not self.closed:
            try:
                opened = getattr(self, "_opened", None)
                if opened is not None:
                    opened.close()
            finally:
                # What `super` flushes is flushed.
                self._writable = False
                super().close()

    def statistics(self) -> dict[str, Any]:
        """What happened on it since it was attached: hits, misses, readahead, its device's requests. docs/python.md has the names."""
        self._check()
        found: dict[str, Any] = json.loads(self._opened.statistics())
        return found

    def __enter__(self) -> Self:
        self._check()
        return self

    def __repr__(self) -> str:
        return f"<forebay.File {self.name!r}, mode {self.mode!r}>"


class Pool:
    """Memory in front of files, devices and object stores, under any policy.

    >>> with forebay.Pool("1GiB", "clock-pro") as pool, pool.open("data.parquet") as file:
    ...     pandas.read_parquet(file)

    Args:
        memory: of its pages, in bytes or as ``"1GiB"``. It is taken as it is used; managing them takes some percent more.
        policy: chooses what stays; any of ``forebay.policies()`` but those that know the future.
        page_size: the bytes of a page: a power of two from 4 KiB to 2 MiB.

    Raises:
        ValueError: what makes no sense.
        OSError: there is no memory for it.

    Threads may share it; the interpreter's lock is free while it works. A child of ``fork`` cannot use it.
    """

    def __init__(self, memory: int | str, policy: str = "clock-pro", *, page_size: int | str = "4KiB") -> None:
        self._pool = _forebay.Pool(memory, policy, page_size=page_size)
        self._called = f"<forebay.Pool of {memory}, {policy}>"
        self._files: weakref.WeakSet[File] = weakref.WeakSet()
        _POOLS.add(self)

    def open(self, path: str | os.PathLike[str] | bytes, mode: str = "r") -> File:
        """Opens a file, a block device, or an object store's volume.

        Args:
            path: a file or block device, or the URL of a volume on object storage, as ``forebay serve`` takes: ``s3://bucket/prefix``.
            mode: ``"r"``; ``"r+"``: it can be written, too; ``"w+"`` or ``"w"``: a file that is made, or made empty. A ``b`` is fine.

        Returns:
            A binary file object. Two of one file see each other's writes at once.

        Raises:
            ValueError: there is no such mode; the pool is closed.
            OSError: it cannot be opened, with its errno. Another process has it open for writing, or it is open in this pool for reading
                and is now to be written: ``EBUSY``.
        """
        name = os.fsdecode(path)
        plain = mode.replace("b", "", 1)
        if plain not in _MODES:
            text = "; for text, io.TextIOWrapper(pool.open(…))" if "t" in mode else ""
            raise ValueError(f'mode={mode!r}: take "r", "r+", "w" or "w+"{text}')
        writable, create = _MODES[plain]
        opened = self._pool.open(name, writable=writable, create=create)
        file = File(opened, name, "rb+" if writable else "rb", writable)
        self._files.add(file)
        return file

    def forget(self) -> None:
        """Lets the pages of closed files go, and their files, so that others may write them."""
        self._pool.forget()

    def statistics(self) -> dict[str, Any]:
        """What happened: ``cache``, and ``files``, a list of those attached. docs/python.md has the names."""
        found: dict[str, Any] = json.loads(self._pool.statistics())
        return found

    def close(self) -> None:
        """Closes its files, makes all durable, and gives the memory back. Also done at the interpreter's end.

        Raises:
            OSError: what could not be written is lost.
        """
        failed: OSError | None = None
        for file in list(self._files):
            try:
                file.close()
            except OSError as error:
                failed = error
        try:
            self._pool.close()
        except OSError as error:
            failed = error
        if failed is not None:
            raise failed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return self._called
