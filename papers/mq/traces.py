#!/usr/bin/env python3
"""Writes three traces on which nothing of MQ was tuned into a folder: traces.py FOLDER. A page number a line."""
import bisect
import itertools
import os
import random
import sys
from collections import OrderedDict


def behind_lru(pages, frames):
    """What misses in an LRU cache."""
    cache = OrderedDict()
    for page in pages:
        if page in cache:
            cache.move_to_end(page)
            continue
        yield page
        cache[page] = None
        if len(cache) > frames:
            cache.popitem(last=False)


def moving():
    """Skewed references whose favourites move every 150,000, with a scan beside them half of the time."""
    r = random.Random(11)
    sums = list(itertools.accumulate(1 / (i + 1) ** 0.9 for i in range(30000)))
    scanned = 10**7
    for i in range(900000):
        if i % 3 == 2 and i // 60000 % 2:
            yield scanned
            scanned += 1
        else:
            yield (bisect.bisect(sums, r.random() * sums[-1]) * 2654435761 + i // 150000 * 7919) % 60000


def loops():
    """Loops over 3,000, 9,000 and 30,000 pages beside random reads of 40,000."""
    r = random.Random(12)
    lengths, at = [3000, 9000, 30000], [0, 0, 0]
    for _ in range(600000):
        kind = int(r.random() * 4)
        if kind == 3:
            yield r.randrange(40000)
        else:
            yield 10**6 * (kind + 1) + at[kind]
            at[kind] = (at[kind] + 1) % lengths[kind]


def sessions():
    """40 sessions at a time, each of 720 references to 60 pages; a few of these pages are used again much later."""
    r = random.Random(13)
    live, ended, new = [], [], 0
    for _ in range(700000):
        if len(live) < 40:
            live.append([new, 720])
            new += 60
        if r.random() < 0.15 and len(ended) > 300:
            yield ended[-300] + r.randrange(6)
            continue
        k = r.randrange(len(live))
        yield live[k][0] + r.randrange(60)
        live[k][1] -= 1
        if live[k][1] == 0:
            ended.append(live.pop(k)[0])


folder = sys.argv[1] if len(sys.argv) > 1 else "."
os.makedirs(folder, exist_ok=True)
for name, pages in [("moving", behind_lru(moving(), 2000)), ("loops", loops()), ("sessions", sessions())]:
    with open(os.path.join(folder, f"mq-{name}.lirs"), "w") as f:
        f.writelines(f"{page}\n" for page in pages)
