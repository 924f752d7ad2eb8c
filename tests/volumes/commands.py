"""Every command of the protocol and every error, through libnbd."""

import os
import random

import nbd

from volumes.checks import check, check_refused
from volumes.server import KIB, MIB, make_volume

NEEDS = ()
SIZE = 16 * MIB
noise = random.Random(4).randbytes(MIB)


def in_file(volume, offset, length):
    with volume.path.open("rb") as file:
        file.seek(offset)
        return file.read(length)


def allocation(client, offset, length):
    """(offset, length, is a hole, is zero) of each extent."""
    extents = []

    def told(context, start, entries, _error):
        if context == nbd.CONTEXT_BASE_ALLOCATION:
            for size, flags in zip(entries[::2], entries[1::2]):
                extents.append((start, size, bool(flags & nbd.STATE_HOLE), bool(flags & nbd.STATE_ZERO)))
                start += size

    while sum(size for _, size, *_ in extents) < length:
        done = sum(size for _, size, *_ in extents)
        client.block_status(length - done, offset + done, told)
        if sum(size for _, size, *_ in extents) == done:
            break
    return extents


def holes(client, offset, length):
    """The state of the whole range: True for a hole, False for data, None for both."""
    found = {hole for _, _, hole, _ in allocation(client, offset, length)}
    return found.pop() if len(found) == 1 else None


def check_reading_and_writing(client, volume):
    for offset, length in [(0, 4 * KIB), (4095, 2), (1, 511), (3 * KIB, 130 * KIB), (SIZE - 1, 1), (5 * MIB, MIB)]:
        client.pwrite(noise[:length], offset)
        check(f"{length} bytes at {offset} are read as written", client.pread(length, offset) == noise[:length])
    client.flush()
    check("flush: the file has what was written", in_file(volume, 5 * MIB, MIB) == noise)
    check("flush: a byte at the end of the file", in_file(volume, SIZE - 1, 1) == noise[:1])
    check("flush: two bytes across pages", in_file(volume, 4095, 2) == in_file(volume, 3 * KIB + 1023, 2) == noise[1023:1025])
    client.pwrite(noise[: 8 * KIB], 7 * MIB + 100, nbd.CMD_FLAG_FUA)
    check("FUA: the file has it without a flush", in_file(volume, 7 * MIB + 100, 8 * KIB) == noise[: 8 * KIB])
    check("never written: zeroes", client.pread(MIB, 10 * MIB) == bytes(MIB))


def check_zero_and_trim(client, volume):
    def fill():
        client.pwrite(noise[: 256 * KIB], 8 * MIB)
        client.flush()

    for what, flags in [("zero", 0), ("zero with no-hole", nbd.CMD_FLAG_NO_HOLE), ("zero with FUA", nbd.CMD_FLAG_FUA)]:
        fill()
        # A start and an end inside pages: their other bytes stay.
        client.zero(100 * KIB, 8 * MIB + 1000, flags)
        expected = noise[:1000] + bytes(100 * KIB) + noise[1000 + 100 * KIB : 256 * KIB]
        check(f"{what}: zeroes there, the neighbours as they were", client.pread(256 * KIB, 8 * MIB) == expected)
        if not flags & nbd.CMD_FLAG_FUA:
            client.flush()
        check(f"{what}: in the file", in_file(volume, 8 * MIB, 256 * KIB) == expected)

    before = os.stat(volume.path).st_blocks
    client.zero(MIB, 12 * MIB, nbd.CMD_FLAG_NO_HOLE)
    client.flush()
    grown = (os.stat(volume.path).st_blocks - before) * 512
    check("zero with no-hole gives a hole its space", grown >= MIB, f"the file grew by {grown} bytes")
    client.zero(MIB, 12 * MIB)
    client.flush()
    check("zero without it may take the space, and reads as zeroes", client.pread(MIB, 12 * MIB) == bytes(MIB))

    # A write to the middle of what was zeroed and not flushed.
    fill()
    client.zero(256 * KIB, 8 * MIB)
    client.pwrite(noise[:5000], 8 * MIB + 50000)
    expected = bytes(50000) + noise[:5000] + bytes(256 * KIB - 55000)
    check("a write into zeroes", client.pread(256 * KIB, 8 * MIB) == expected)
    client.flush()
    check("a write into zeroes: in the file", in_file(volume, 8 * MIB, 256 * KIB) == expected)

    fill()
    client.trim(128 * KIB, 8 * MIB + 1000)
    client.flush()
    after = client.pread(256 * KIB, 8 * MIB)
    end = 1000 + 128 * KIB
    check("trim leaves its neighbours", after[:1000] == noise[:1000] and after[end:] == noise[end : 256 * KIB])
    trimmed = after[1000:end]
    mixed = sum(1 for byte, old in zip(trimmed, noise[1000:]) if byte not in (0, old))
    check("trimmed bytes are the old ones or zeroes", mixed == 0, f"{mixed} are neither")
    check("trimmed bytes are the same in the file", in_file(volume, 8 * MIB, 256 * KIB) == after)
    client.trim(4 * KIB, 8 * MIB, nbd.CMD_FLAG_FUA)
    client.pwrite(noise[: 4 * KIB], 8 * MIB, nbd.CMD_FLAG_FUA)
    check("a write after a trim", client.pread(4 * KIB, 8 * MIB) == in_file(volume, 8 * MIB, 4 * KIB) == noise[: 4 * KIB])


def check_cache_and_status(client):
    client.cache(MIB, 5 * MIB)
    check("cache, then read", client.pread(MIB, 5 * MIB) == noise)
    client.cache(SIZE, 0)
    check("cache of more than the cache", client.pread(MIB, 5 * MIB) == noise)

    check("block status: a hole", holes(client, 13 * MIB + 512 * KIB, 512 * KIB) is True)
    client.pwrite(noise[: 64 * KIB], 13 * MIB + 768 * KIB)
    check("block status: dirty pages are data", holes(client, 13 * MIB + 768 * KIB, 64 * KIB) is False)
    extents = allocation(client, 13 * MIB + 512 * KIB, 512 * KIB)
    check("block status: extents join", all(a[0] + a[1] == b[0] for a, b in zip(extents, extents[1:])), extents)
    check("block status: what is a hole reads as zeroes", all(zero for *_, hole, zero in extents if hole), extents)
    client.flush()
    check("block status: flushed pages are data", holes(client, 13 * MIB + 768 * KIB, 64 * KIB) is False)
    zero = allocation(client, 13 * MIB + 512 * KIB, 64 * KIB)
    told = []
    client.block_status(MIB, 13 * MIB, lambda context, start, entries, error: told.append(entries), nbd.CMD_FLAG_REQ_ONE)
    check("block status of one extent", [len(entries) for entries in told] == [2] and told[0][0] <= MIB, told)
    check("block status: zeroes beside dirty pages stay a hole", all(hole for *_, hole, _ in zero), zero)


def check_structured(server):
    def plain(handle):
        handle.set_request_structured_replies(False)

    chunks = []

    def chunk(data, offset, _status, _error):
        chunks.append((offset, len(data)))

    client = server.client("volume")
    check("structured replies are agreed on", client.get_structured_replies_negotiated())
    got = client.pread_structured(2 * MIB, 4 * MIB, chunk)
    check("structured read: chunks cover it", sum(size for _, size in chunks) == 2 * MIB, chunks)
    check("structured read: content", got == bytes(MIB) + noise)
    chunks.clear()
    client.pread_structured(2 * MIB, 4 * MIB, chunk, nbd.CMD_FLAG_DF)
    check("structured read, not fragmented: one chunk", chunks == [(4 * MIB, 2 * MIB)], chunks)
    client.shutdown()

    client = server.client("volume", plain)
    check("without structured replies", not client.get_structured_replies_negotiated())
    client.pwrite(noise[:70000], 11 * MIB)
    check("simple replies: read as written", client.pread(70000, 11 * MIB) == noise[:70000])
    client.zero(70000, 11 * MIB)
    client.flush()
    check("simple replies: zeroes", client.pread(70000, 11 * MIB) == bytes(70000))
    refused("simple replies: a read beyond the end", lambda: client.pread(1, SIZE), "EINVAL")
    check("simple replies: alive after it", client.pread(10, 5 * MIB) == noise[:10])
    client.shutdown()


def refused(what, attempt, *errors):
    check_refused(what, attempt, *errors, by=nbd.Error)


def check_beyond_the_end(client):
    # The protocol: EINVAL for reads and trims, ENOSPC for writes.
    # The last ones are beyond what a signed offset holds, and what an unsigned one does.
    ranges = [(SIZE, 1), (SIZE - 1, 2), (1 << 40, 4096), ((1 << 63) - 4096, 8192), ((1 << 64) - 4096, 8192)]
    for offset, length in ranges:
        place = f"of {length} bytes at {offset:#x}, beyond the end,"
        refused(f"a read {place}", lambda: client.pread(length, offset), "EINVAL")
        refused(f"a write {place}", lambda: client.pwrite(noise[:length], offset), "ENOSPC", "EINVAL")
        refused(f"zeroing {place}", lambda: client.zero(length, offset), "ENOSPC", "EINVAL")
        refused(f"a trim {place}", lambda: client.trim(length, offset), "EINVAL")
        refused(f"a hint {place}", lambda: client.cache(length, offset), "EINVAL")
        refused(f"status {place}", lambda: client.block_status(length, offset, lambda *_: None), "EINVAL")
    check("alive after all that was refused", client.pread(MIB, 5 * MIB) == noise)


def check_more_than_the_cache(client, volume):
    """One request for all of the volume."""
    whole = random.Random(12).randbytes(SIZE)
    client.pwrite(whole, 0)
    check("one write of more than the cache, read back at once", client.pread(SIZE, 0) == whole)
    client.flush()
    check("and in the file", in_file(volume, 0, SIZE) == whole)
    client.zero(SIZE, 0, nbd.CMD_FLAG_FUA)
    check("zeroes everywhere", client.pread(SIZE, 0) == in_file(volume, 0, SIZE) == bytes(SIZE))


def check_read_only(start, folder):
    volume = make_volume(folder, "fixed", SIZE, read_only=True)
    with volume.path.open("r+b") as file:
        file.write(noise)
    with start(volume) as server:
        client = server.client("fixed")
        check("read-only: told so", client.is_read_only())
        check("read-only: reads", client.pread(MIB, 0) == noise)
        refused("read-only: a write", lambda: client.pwrite(bytes(KIB), 0), "EPERM")
        refused("read-only: zeroing", lambda: client.zero(KIB, 0), "EPERM")
        refused("read-only: a trim", lambda: client.trim(KIB, 0), "EPERM")
        check("read-only: still as it was", client.pread(MIB, 0) == noise)
        client.shutdown()
        check("read-only: the server ends with 0", server.stop() == 0, server.told())
    check("read-only: the file is as it was", in_file(volume, 0, MIB) == noise)


def check_write_through(start, folder):
    volume = make_volume(folder, "through", SIZE, mode="write-through")
    with start(volume) as server:
        client = server.client("through")
        client.pwrite(noise, 1000)
        check("write-through: the file has it without a flush", in_file(volume, 1000, MIB) == noise)
        client.zero(MIB // 2, 1000)
        check("write-through: zeroes too", in_file(volume, 1000, MIB) == bytes(MIB // 2) + noise[MIB // 2 :])
        server.kill()
    check("write-through: the file has it after kill -9", in_file(volume, 1000 + MIB // 2, MIB // 2) == noise[MIB // 2 :])


def test(start, folder):
    for page in ["4KiB", "64KiB"]:
        volume = make_volume(folder, "volume", SIZE, page=page)
        print(f"  with pages of {page}:")
        with start(volume, cache="8MiB") as server:
            client = server.client("volume")
            check("size", client.get_size() == SIZE)
            check_reading_and_writing(client, volume)
            check_zero_and_trim(client, volume)
            check_cache_and_status(client)
            check_structured(server)
            check_beyond_the_end(client)
            client.shutdown()
            refused("an unknown name", lambda: server.client("nobody"), "ENOENT", "EINVAL")
            client = server.client("volume")
            check("alive after an unknown name", client.pread(MIB, 5 * MIB) == noise)
            check_more_than_the_cache(client, volume)
            client.shutdown()
            check("the server ends with 0", server.stop() == 0, server.told())
    check_read_only(start, folder)
    check_write_through(start, folder)
