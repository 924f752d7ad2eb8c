"""A flood of hints to fetch more than the cache holds, from a client who leaves: others keep their pages, and the device rests soon."""

import random
import time

from shared.bystander import Bystander
from shared.wire import CACHE, GIB, KIB, LONGEST, MIB

QUICK, FULL = 120, 900

SIZE = 256 * MIB
HOT = 200 * MIB
HINTS = 60
# The share of a cache that hints may take.
SHARE = 0.25


def flood(server):
    with server.client("large") as client:
        for number in range(HINTS):
            client.send(CACHE, 0, LONGEST, cookie=number)
        time.sleep(2)


def reads_stop(server, seconds):
    """The seconds until the device of the flooded volume has been left alone for a second; None if that is longer."""
    begin = time.monotonic()
    before = server.volume("large")["device"]["read_bytes"]
    while time.monotonic() - begin < seconds:
        time.sleep(1)
        after = server.volume("large")["device"]["read_bytes"]
        if after == before:
            return time.monotonic() - begin - 1
        before = after
    return None


def missing_share(server):
    """The share of the hot pages that are in the cache no more, by a sample: what it reads again is too little to evict others."""
    before = server.volume("hot")["misses"]
    pages = random.Random(2).sample(range(HOT // (4 * KIB)), 2000)
    with server.client("hot") as client:
        for page in pages:
            client.read(page * 4 * KIB, 4 * KIB)
    return (server.volume("hot")["misses"] - before) / len(pages)


def attack(lab):
    volumes = [f"large={lab.volume('large', 4 * GIB)},readahead=0", f"hot={lab.volume('hot', SIZE, filled=HOT)},readahead=0"]
    with lab.forebay("--cache", f"{SIZE}", volumes=volumes) as server:
        with server.client("hot") as client:
            for _ in range(3):
                for offset in range(0, HOT, MIB):
                    client.read(offset, MIB)
        lab.row("pages of a bystander missing before", missing_share(server) * HOT / SIZE * 100, "%")
        with Bystander(server.socket, "hot", length=HOT, version=1) as bystander:
            time.sleep(0.5)
            flood(server)
            stopped = reads_stop(server, 300 if lab.full else 15)
            figures = bystander.figures()
        lab.row(f"{HINTS} hints of 4 GiB: the device is read on after the client left for", stopped, "s", at_most=5)
        lab.row("pages of a bystander evicted, of the cache", missing_share(server) * HOT / SIZE * 100, "%", at_most=SHARE * 100)
        lab.bystander("a bystander who reads 4 KiB", figures)
        lab.row("the server stops in", server.stop(), "s")
