"""Caches over volumes 1,000 times as large: their memory must follow the cache, not the pages that were ever touched."""

import json
import random
import subprocess

from shared.lab import most_memory
from shared.servers import MOST_MEMORY, Failed, Memory
from shared.wire import GIB, KIB, MIB, read_all

QUICK, FULL = 150, 3600

# Policies and sizes of caches in MiB.
PLANS = {"clock-pro": [16], "lru": [8], "lru-k": [8], "lirs": [8]}
FULL_SIZES = [8, 16, 64, 4096]
# What is read of a volume is at most so much: more than the longest history of the largest cache.
MOST_READ = 56 * GIB


def policies(lab):
    """All on-line policies."""
    command = [lab.program, "policies", "--format", "json"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [policy["name"] for policy in json.loads(said) if not policy["off_line"]]


def touch(server, size):
    """Reads the volume in a random order, and a part of that again in order, by long requests: pages count, not requests."""
    length = 256 * KIB
    with server.client() as client:
        count = min(size, MOST_READ) // length
        order = [number * length for number in random.Random(1).sample(range(size // length), count)]
        read_all(client, order, length)
        read_all(client, sorted(order)[: len(order) // 8], length)


def attack(lab):
    plans = PLANS if not lab.full else {policy: FULL_SIZES if policy in PLANS else [8] for policy in policies(lab)}
    for policy, sizes in plans.items():
        for size in sizes:
            what = f"{policy}, cache of {size} MiB over {size * 1000:,} MiB: peak RSS"
            volume = lab.volume("volume", size * MIB * 1000)
            options = ["--cache", f"{size}MiB", "--policy", policy]
            bar = most_memory(size * MIB, budget=0)
            try:
                with lab.forebay(*options, volumes=[f"volume={volume},readahead=0"]) as server:
                    with Memory(server, most=max(MOST_MEMORY, 2 * bar * MIB)) as memory:
                        touch(server, size * MIB * 1000)
                        lab.row(what, memory.peak(), "MiB", at_most=bar)
            except Failed as failed:
                lab.holds(what, False, str(failed))
