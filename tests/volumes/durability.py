"""What has been flushed survives `kill -9` of the server; what has not is old or new, page by page, never a mixture.

The first part is the case that nbdkit's cache filter loses (1.32.5: some 400 of the 512 blocks are wrong), which shows that the test can
fail: /usr/bin/python3 tests/volumes_with_real_clients.py "nbdkit --filter=cache cache=writeback cache-max-size=8M" --only durability
"""

import random
import struct
import threading
import time

import nbd

from volumes.checks import check, wait_until
from volumes.server import KIB, make_volume

NEEDS = ()
PAGE = 4 * KIB
BLOCK = 64 * KIB
BLOCKS = 512
PAGES_IN_BLOCK = BLOCK // PAGE
RECORD = struct.Struct("<QQ")
WRITERS = 4
# Each offers other victims, and a dirty one must not go before its writeback.
POLICIES = ["lru", "mq", "arc", "clock-pro", "ubm", "dulo"]


def content(pages, version):
    """Different bytes for each page and version, that tell which they are."""
    return b"".join(RECORD.pack(page, version) * (PAGE // RECORD.size) for page in pages)


def pages_of(block):
    return range(block * PAGES_IN_BLOCK, (block + 1) * PAGES_IN_BLOCK)


def version_of(page, data):
    """The version of a page's data; None for what nobody wrote or a mixture."""
    number, version = RECORD.unpack(data[: RECORD.size])
    whole = data == data[: RECORD.size] * (PAGE // RECORD.size)
    return version if whole and (number == page or data == bytes(PAGE)) else None


def check_flushed_blocks(start, folder, page, policy):
    """512 blocks of 64 KiB, different bytes in each, through 8 MiB of cache."""
    volume = make_volume(folder, "volume", BLOCKS * BLOCK, page=page, policy=policy)
    what = f"{policy}, pages of {page}"
    with start(volume, cache="8MiB") as server:
        client = server.client("volume")
        for block in random.Random(8).sample(range(BLOCKS), BLOCKS):
            client.pwrite(content(pages_of(block), 1), block * BLOCK)
        client.flush()
        wrong = [block for block in range(BLOCKS) if client.pread(BLOCK, block * BLOCK) != content(pages_of(block), 1)]
        check(f"{BLOCKS} blocks written, flushed and read back ({what})", not wrong, f"{len(wrong)} are wrong")
        server.kill()
    with volume.path.open("rb") as file:
        wrong = [block for block in range(BLOCKS) if file.read(BLOCK) != content(pages_of(block), 1)]
    check(f"{BLOCKS} blocks in the file after kill -9 ({what})", not wrong, f"{len(wrong)} are wrong")


class Stream:
    """Writers, each of blocks of its own on a connection of its own, and one connection that flushes for all."""

    def __init__(self, server, versions):
        """Begins; the file has these versions of its pages."""
        self.server = server
        self.sent, self.acknowledged, self.flushed = versions[:], versions[:], versions[:]
        self.writes = self.flushes = 0
        self.threads = [threading.Thread(target=self.guarded, args=[self.write, number]) for number in range(WRITERS)]
        self.threads.append(threading.Thread(target=self.guarded, args=[self.flush]))
        for thread in self.threads:
            thread.start()

    def guarded(self, work, *arguments):
        try:
            client = self.server.client("volume")
            while True:
                work(client, *arguments)
        except nbd.Error:
            pass  # the server has been killed

    def write(self, client, number):
        pages = pages_of(random.randrange(BLOCKS // WRITERS) * WRITERS + number)
        if random.random() < 0.5:
            # A part of the block, so that a large page is written in pieces.
            first, last = sorted(random.sample(range(PAGES_IN_BLOCK + 1), 2))
            pages = pages[first:last]
        version = max(self.sent[page] for page in pages) + 1
        of_these = slice(pages.start, pages.stop)
        self.sent[of_these] = [version] * len(pages)
        client.pwrite(content(pages, version), pages.start * PAGE)
        self.acknowledged[of_these] = [version] * len(pages)
        self.writes += 1

    def flush(self, client):
        covered = self.acknowledged[:]
        client.flush()
        self.flushed = covered
        self.flushes += 1
        time.sleep(0.01)

    def join(self):
        for thread in self.threads:
            thread.join()


def check_kills(start, folder, page, mode):
    volume = make_volume(folder, "volume", BLOCKS * BLOCK, page=page, mode=mode)
    versions = [0] * (BLOCKS * PAGES_IN_BLOCK)
    for flushes in [3, 10, 30]:
        with start(volume, cache="8MiB") as server:
            stream = Stream(server, versions)
            wait_until(lambda: stream.flushes >= flushes, 30)
            # Somewhere between two flushes.
            time.sleep(random.random() * 0.05)
            server.kill()
            stream.join()
        what = f"killed after {flushes} flushes, pages of {page}, {mode}"
        durable = stream.acknowledged if mode == "write-through" else stream.flushed
        did = f"{stream.writes} writes, {stream.flushes} flushes"
        check(f"{what}: it was at work", stream.flushes >= flushes and stream.writes >= 10, did)
        with volume.path.open("rb") as file:
            found = [version_of(page, file.read(PAGE)) for page in range(len(versions))]
        mixed = found.count(None)
        lost = sum(version is not None and version < least for version, least in zip(found, durable))
        unsent = sum(version is not None and version > most for version, most in zip(found, stream.sent))
        told = f"of {len(found)} pages {mixed} are mixed, {lost} lost, {unsent} of versions never sent; {did}"
        check(f"{what}: nothing flushed is lost, no page is mixed", mixed == lost == unsent == 0, told)
        versions = found


def test(start, folder):
    for page in ["4KiB", "64KiB"]:
        for policy in POLICIES:
            check_flushed_blocks(start, folder, page, policy)
        check_kills(start, folder, page, "write-back")
    check_kills(start, folder, "4KiB", "write-through")
