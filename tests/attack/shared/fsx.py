"""Writes a file in all the ways there are, and reads it back in all of them, as the file system exerciser fsx does: by calls and mappings, longer and shorter,
with holes, direct, synced, dropped from the page cache, opened anew. Every byte is compared with what it is to be.

As a program: FILE SEED. It goes on until its input ends, prints how many operations it has done, and ends with 1 as soon as a byte is wrong.
"""

import contextlib
import ctypes
import mmap
import os
import random
import select
import sys

LONGEST = 2 << 20
MOST = 96 << 10
BLOCK = 4096
KEEP_SIZE, PUNCH_HOLE = 1, 2
SYSTEM = ctypes.CDLL(None, use_errno=True)
OPERATIONS = ["write", "write", "append", "direct_write", "map_write", "read", "read", "direct_read", "map_read", "truncate", "punch", "sync", "drop", "reopen"]


class Wrong(Exception):
    pass


class File:
    def __init__(self, path, seed):
        self.path, self.chosen = path, random.Random(seed)
        self.bytes = bytearray()
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)

    def step(self):
        name = self.chosen.choice(OPERATIONS)
        try:
            getattr(self, name)()
        except OSError as error:
            raise Wrong(f"{name}: {error}") from error

    def range(self):
        """An offset in the file, and a length that ends in it."""
        offset = self.chosen.randrange(max(len(self.bytes), 1))
        return offset, min(self.chosen.randrange(1, MOST), len(self.bytes) - offset)

    def blocks(self):
        """The same of whole blocks."""
        offset, length = self.range()
        return offset // BLOCK * BLOCK, length // BLOCK * BLOCK

    def compare(self, how, offset, found):
        expected = self.bytes[offset : offset + len(found)]
        if found != expected:
            at = next(at for at, (one, other) in enumerate(zip(found, expected)) if one != other)
            raise Wrong(f"{self.path}: {how} at {offset}: byte {offset + at} is {found[at]} and was to be {expected[at]}")

    def put(self, offset, data):
        if offset > len(self.bytes):
            self.bytes += bytes(offset - len(self.bytes))
        self.bytes[offset : offset + len(data)] = data

    def write(self):
        offset = self.chosen.randrange(LONGEST - MOST)
        data = self.chosen.randbytes(self.chosen.randrange(1, MOST))
        written = os.pwrite(self.file, data, offset)
        self.put(offset, data[:written])

    def append(self):
        if len(self.bytes) + MOST < LONGEST:
            data = self.chosen.randbytes(self.chosen.randrange(1, MOST))
            self.put(len(self.bytes), data[: os.pwrite(self.file, data, len(self.bytes))])

    @contextlib.contextmanager
    def direct(self):
        file = os.open(self.path, os.O_RDWR | os.O_DIRECT)
        try:
            yield file
        finally:
            os.close(file)

    def direct_write(self):
        offset, length = self.blocks()
        if length:
            with self.direct() as file, mmap.mmap(-1, length) as memory:
                memory[:] = self.chosen.randbytes(length)
                self.put(offset, memory[: os.pwritev(file, [memory], offset)])

    def direct_read(self):
        offset, length = self.blocks()
        if length:
            with self.direct() as file, mmap.mmap(-1, length) as memory:
                self.compare("a direct read", offset, memory[: os.preadv(file, [memory], offset)])

    def read(self):
        offset, length = self.range()
        found = os.pread(self.file, length, offset)
        if len(found) != length:
            raise Wrong(f"{self.path}: {len(found)} bytes at {offset} for {length}")
        self.compare("a read", offset, found)

    def map_write(self):
        offset, length = self.range()
        if length:
            data = self.chosen.randbytes(length)
            with mmap.mmap(self.file, len(self.bytes)) as memory:
                memory[offset : offset + length] = data
            self.put(offset, data)

    def map_read(self):
        offset, length = self.range()
        if length:
            with mmap.mmap(self.file, len(self.bytes), prot=mmap.PROT_READ) as memory:
                self.compare("a read of a mapping", offset, memory[offset : offset + length])

    def truncate(self):
        length = self.chosen.randrange(LONGEST)
        os.ftruncate(self.file, length)
        self.bytes[length:] = bytes(max(length - len(self.bytes), 0))

    def punch(self):
        offset, length = self.range()
        if length:
            if SYSTEM.fallocate(self.file, KEEP_SIZE | PUNCH_HOLE, ctypes.c_long(offset), ctypes.c_long(length)):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            self.put(offset, bytes(length))

    def sync(self):
        os.fdatasync(self.file)

    def drop(self):
        os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_DONTNEED)

    def reopen(self):
        os.close(self.file)
        self.file = os.open(self.path, os.O_RDWR)
        self.compare("all of it", 0, os.pread(self.file, LONGEST, 0))


def main(path, seed):
    file, done = File(path, int(seed)), 0
    try:
        while not select.select([sys.stdin], [], [], 0)[0]:
            file.step()
            done += 1
        file.reopen()
    except Wrong as wrong:
        sys.exit(f"after {done} operations: {wrong}")
    print(done)


if __name__ == "__main__":
    main(*sys.argv[1:])
