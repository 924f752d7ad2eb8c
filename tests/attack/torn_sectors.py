"""Writes and zeroes of whole sectors against readers of them: no sector of 512 bytes is half old and half new, nor after kill -9."""

import contextlib
import random
import threading
import time

from shared.wire import FLUSH, FUA, KIB, MIB, READ, WRITE, WRITE_ZEROES

QUICK, FULL = 120, 900

SECTOR = 512
# So small that requests meet.
SIZE = 64 * KIB
DEPTH = 32


def torn(data):
    """The sectors that are not of one byte."""
    return sum(data[at : at + SECTOR] != data[at : at + 1] * SECTOR for at in range(0, len(data), SECTOR))


def requests(seed):
    """Writes, each of one byte, and zeroes: of an odd number of sectors, so that their middle is inside one."""
    chosen = random.Random(seed)
    while True:
        sectors = chosen.choice([1, 3, 5, 7, 9, 15])
        offset = chosen.randrange(SIZE // SECTOR - sectors) * SECTOR
        length = sectors * SECTOR
        # A write that waits for the device leaves readers the time to see its parts.
        flags = FUA if chosen.random() < 0.2 else 0
        if chosen.random() < 0.5:
            yield WRITE_ZEROES, offset, length, flags, b""
        else:
            yield WRITE, offset, length, flags, bytes([chosen.randrange(1, 256)]) * length
        if chosen.random() < 0.01:
            yield FLUSH, 0, 0, 0, b""


def write(server, seed, over, sent):
    with contextlib.suppress(OSError), server.client() as client:
        for number, (kind, offset, length, flags, data) in enumerate(requests(seed)):
            client.send(kind, offset, length, flags=flags, data=data)
            sent[0] += 1
            if number >= DEPTH:
                client.reply()
            if over.is_set():
                return


def read(server, over, seen):
    """Counts sectors and torn ones."""
    length = 4 * KIB
    chosen = random.Random(9)
    with contextlib.suppress(OSError), server.client() as client:
        offsets = [chosen.randrange(SIZE // length) * length for _ in range(DEPTH)]
        for number in range(DEPTH):
            client.send(READ, offsets[number], length)
        while not over.is_set():
            seen[1] += torn(client.reply(length)[1])
            seen[0] += length // SECTOR
            client.send(READ, chosen.randrange(SIZE // length) * length, length)


def raced(server, seconds, before_end=lambda: None):
    """Writes and reads at once: requests sent, sectors seen, and torn ones among them."""
    over, sent, seen = threading.Event(), [0], [0, 0]
    threads = [threading.Thread(target=write, args=[server, seed, over, sent]) for seed in range(2)]
    threads += [threading.Thread(target=read, args=[server, over, seen]) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    before_end()
    over.set()
    for thread in threads:
        thread.join()
    return sent[0], *seen


def attack(lab):
    seconds = 30 if lab.full else 2
    peers = {}
    starts = {"nbdkit": lambda path: lab.nbdkit("file", path), "qemu-nbd": lab.qemu_nbd}
    for name, start in starts.items():
        if lab.has(name):
            with start(lab.volume("theirs", SIZE)) as server:
                peers[name] = raced(server, seconds)[2]
    for page in ["4KiB", "64KiB"]:
        volume = lab.volume("volume", SIZE)
        options = ["--cache", f"{MIB}", "--page", page, "--dirty-age", "10ms"]
        kills, found = 10 if lab.full else 3, 0
        with lab.forebay(*options, volumes=[f"volume={volume}"]) as server:
            sent, sectors, number = raced(server, seconds)
        what = f"pages of {page}, {sent:,} writes and zeroes beside {sectors:,} sectors read"
        lab.row(f"{what}: torn", number, at_most=0, peers=peers)
        for _ in range(kills):
            with lab.forebay(*options, volumes=[f"volume={volume}"]) as server:
                raced(server, 0.5, before_end=server.kill)
            found += torn(volume.read_bytes())
        lab.row(f"pages of {page}: torn sectors in the file after {kills} times kill -9", found, at_most=0)
