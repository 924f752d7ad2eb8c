"""A TRIM of 4 GiB on one volume of a large, full cache: how long others wait for their misses meanwhile."""

import time

from shared.bystander import Bystander
from shared.wire import GIB, KIB, LONGEST, MIB, TRIM, WRITE_ZEROES, read_all

QUICK, FULL = 120, 600

TRIMS = 10


def timed(server, bystander, kind):
    """The longest TRIM or other request for 4 GiB, and what the bystander met with."""
    bystander.figures()
    longest = 0
    with server.client("trimmed", timeout=60) as client:
        for _ in range(TRIMS):
            begin = time.monotonic()
            client.call(kind, 0, LONGEST)
            longest = max(longest, time.monotonic() - begin)
            time.sleep(0.05)
    return longest, bystander.figures()


def attack(lab):
    cache = 4 * GIB if lab.full else GIB
    # Pages that were known once are numbered, too.
    touched = 4 * cache
    sizes = {"full": touched, "trimmed": 8 * GIB, "calm": 8 * GIB}
    volumes = [f"{name}={lab.volume(name, size)},readahead=0" for name, size in sizes.items()]
    with lab.forebay("--cache", str(cache), volumes=volumes) as server:
        with server.client("full") as client:
            read_all(client, range(0, touched, MIB), MIB)
        with Bystander(server.socket, "calm", length=8 * GIB) as bystander:
            bystander.figures()
            time.sleep(2)
            lab.bystander("a bystander's misses before", bystander.figures(), at_most=None)
            for kind, what in [(TRIM, "TRIM"), (WRITE_ZEROES, "WRITE_ZEROES")]:
                longest, figures = timed(server, bystander, kind)
                lab.row(f"{what} of 4 GiB, nothing of it cached, takes", longest * 1000, "ms")
                lab.bystander(f"a bystander's misses beside {TRIMS} of them", figures)
            with server.client("trimmed") as client:
                read_all(client, range(0, cache // 4, 256 * KIB), 256 * KIB)
            longest, figures = timed(server, bystander, TRIM)
            lab.row(f"TRIM of 4 GiB, {cache // 4 // MIB} MiB of it cached at first, takes", longest * 1000, "ms")
            lab.bystander("a bystander's misses beside it", figures)
