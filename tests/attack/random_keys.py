"""Traces of random keys: a comparison of each must end.

The numbering of blocks once had a column of slots that could be full while the table was not, and then looked for a free one for ever.
"""

import bisect
import functools
import itertools
import random
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

QUICK, FULL = 120, 1800

REFERENCES = 3000
RANGES = {"10^6": 10**6, "10^9": 10**9, "2^40": 1 << 40}
MOST_SECONDS = 5


def uniform(seed, most):
    chosen = random.Random(seed)
    return [chosen.randrange(most) for _ in range(REFERENCES)]


def zipf(seed, most):
    """Keys of popularity 1/rank, scattered over the range."""
    chosen = random.Random(seed)
    weights = list(itertools.accumulate(1 / rank for rank in range(1, 4 * REFERENCES)))
    keys = [chosen.randrange(most) for _ in weights]
    return [keys[bisect.bisect(weights, chosen.random() * weights[-1])] for _ in range(REFERENCES)]


def strided(seed, most):
    """Multiples of a number, as hostile ones and records of one size are."""
    stride = random.Random(seed).randrange(1, most // REFERENCES)
    return [number * stride for number in range(REFERENCES)]


KINDS = {"uniform": uniform, "zipf": zipf, "strided": strided}


def compares(lab, kind, most, seed):
    """Whether a comparison ends in time, and the seconds that it took; it must end well."""
    trace = lab.folder / f"{kind}-{most}-{seed}.lirs"
    trace.write_text("".join(f"{key}\n" for key in KINDS[kind](seed, most)))
    begin = time.monotonic()
    try:
        subprocess.run([lab.program, "compare", trace, "--sizes", "10%"], capture_output=True, check=True, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return False, MOST_SECONDS
    finally:
        trace.unlink()
    return True, time.monotonic() - begin


def attack(lab):
    traces = 1000 if lab.full else 60
    plans = [("uniform", range_) for range_ in RANGES] + [("zipf", "2^40"), ("strided", "2^40")]
    with ThreadPoolExecutor(2) as together:
        for kind, range_ in plans:
            results = list(together.map(functools.partial(compares, lab, kind, RANGES[range_]), range(traces)))
            hung = [seed for seed, (ended, _) in enumerate(results) if not ended]
            what = f"{traces} traces of {REFERENCES} {kind} keys below {range_}"
            lab.row(f"{what}: without end", len(hung), at_most=0)
            lab.row(f"{what}: the longest", max(seconds for _, seconds in results), "s")
            if hung:
                lab.note(f"seeds without end: {', '.join(map(str, hung[:20]))}")
