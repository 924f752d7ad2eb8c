"""SIGTERM while clients write: the server drains, flushes and ends with 0, and what it acknowledged is in the file.

nbdkit 1.32.5 fails this: it waits for its clients to leave.
"""

import os
import random
import threading

import nbd

from volumes.checks import check, check_refused, wait_until
from volumes.server import KIB, MIB, Volume, make_volume

NEEDS = ()
BLOCK = 64 * KIB
BLOCKS = 512
WRITERS = 3


def test(start, folder):
    volume = make_volume(folder, "volume", BLOCKS * BLOCK)
    acknowledged, doubtful = {}, {}

    def write(number):
        try:
            client = server.client("volume")
            while True:
                block = random.randrange(BLOCKS // WRITERS) * WRITERS + number
                doubtful[block] = os.urandom(BLOCK)
                client.pwrite(doubtful[block], block * BLOCK)
                acknowledged[block] = doubtful.pop(block)
        except nbd.Error:
            pass  # the server has ended

    # All of it fits, so that the end has dirty pages to flush.
    with start(volume, cache="64MiB") as server:
        writers = [threading.Thread(target=write, args=[number]) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        idle = server.client("volume")
        wait_until(lambda: len(acknowledged) >= 200, 30)
        code = server.stop()
        check("SIGTERM ends the server with 0 while clients write", code == 0, f"{code}: {server.told()}")
        check_refused("a command on a connection that idled", lambda: idle.pread(1, 0), by=nbd.Error)
        for writer in writers:
            writer.join()
    content = volume.path.read_bytes()
    check("the clients were at work", len(acknowledged) >= 100, f"{len(acknowledged)} blocks")
    found = {block: content[block * BLOCK : (block + 1) * BLOCK] for block in acknowledged}
    wrong = [block for block, data in acknowledged.items() if found[block] != data and block not in doubtful]
    check("every acknowledged write is in the file", not wrong, f"{len(wrong)} of {len(acknowledged)} are not")
    with start(Volume(volume.path)) as server:
        client = server.client("volume")
        wrong = [block for block in found if client.pread(BLOCK, block * BLOCK) != found[block]]
        check("and is served after a new start", not wrong, f"{len(wrong)} blocks are wrong")
        check("the default volume size is the file's", client.get_size() == BLOCKS * BLOCK)
        client.shutdown()
        check("SIGTERM ends an idle server with 0", server.stop() == 0, server.told())
    check("no byte of the file has changed", volume.path.read_bytes() == content and len(content) == 32 * MIB)
