"""A client that asks for much and takes nothing, and honest clients with long reads: the server's memory stays within its budget."""

import itertools
import threading
import time

from shared.bystander import Bystander
from shared.lab import most_memory
from shared.servers import Memory, wait_until
from shared.wire import GIB, MIB, READ, REPLY_HEADER, request, still_open

QUICK, FULL = 120, 900

CACHE = 16 * MIB
# What the bystander reads.
HOT = 4 * MIB
SIZE = 4 * GIB
LENGTH = 32 * MIB
# 56 kB.
REQUESTS = 2000
HONEST = 16
# A connection that takes nothing is to be closed after 60 s.
MOST_STUCK = 70


def ours(lab):
    return lab.forebay("--cache", f"{CACHE}", volumes=[f"volume={lab.volume('volume', SIZE, filled=HOT)}"])


def peers(lab):
    if lab.has("nbdkit"):
        yield "nbdkit file", lambda: lab.nbdkit("file", lab.volume("theirs", SIZE))
        yield "nbdkit memory", lambda: lab.nbdkit("memory", str(SIZE))
    if lab.has("qemu-nbd"):
        yield "qemu-nbd", lambda: lab.direct_qemu_nbd(lab.volume("theirs", SIZE))


def ask_for_much(client):
    """Sends the requests, as far as the server takes them in."""
    client.connection.setblocking(False)
    asked = b"".join(request(READ, number * LENGTH % SIZE, LENGTH, cookie=number) for number in range(REQUESTS))
    client.connection.send(asked)


def unread(server, seconds):
    """The memory while one client asks for much and takes nothing."""
    with server.client() as client, Memory(server) as memory:
        ask_for_much(client)
        wait_until(lambda: memory.killed, seconds)
        return memory


def read_long(server, start, over, taken):
    """Has two long reads under way until it is over, from a place of its own on."""
    room = memoryview(bytearray(MIB))
    with server.client() as client:
        client.send(READ, start, LENGTH)
        for number in itertools.count(1):
            client.send(READ, (start + number * LENGTH) % SIZE, LENGTH)
            left = LENGTH + REPLY_HEADER.size
            while left:
                count = client.connection.recv_into(room[: min(left, MIB)])
                if over.is_set():
                    return
                taken.append(count)
                left -= count


def honest(server, seconds):
    """The memory while clients read 32 MiB at a time and take it all, and the MiB/s of them all."""
    over, taken = threading.Event(), []

    def work(number):
        try:
            read_long(server, number * SIZE // HONEST, over, taken)
        except ConnectionError:
            # nbdkit aborts when the first one leaves.
            if not over.is_set():
                raise

    threads = [threading.Thread(target=work, args=[number], daemon=True) for number in range(HONEST)]
    with Memory(server) as memory:
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        speed = sum(taken) / MIB / seconds
        over.set()
        for thread in threads:
            thread.join(30)
    return memory, speed


def attack(lab):
    seconds = 60 if lab.full else 8
    unread_peaks, honest_peaks, speeds = {}, {}, {}
    for name, start in peers(lab):
        with start() as server:
            unread_peaks[name] = unread(server, 10 if lab.full else 2).peak()
        with start() as server:
            memory, speeds[name] = honest(server, 15 if lab.full else 3)
            honest_peaks[name] = memory.peak()

    with ours(lab) as server, Bystander(server.socket, length=HOT, version=1) as bystander:
        memory = unread(server, seconds)
        what = f"peak RSS, {REQUESTS * 28 // 1000} kB of READs and no reply taken, {seconds} s"
        lab.row(what, memory.peak(), "MiB", unread_peaks, at_most=most_memory(CACHE))
        if memory.killed:
            lab.note(f"it was killed then, after {memory.samples[-1][0]:.0f} s")
        else:
            lab.bystander("a bystander who reads 4 KiB", bystander.figures())
    with ours(lab) as server:
        memory, speed = honest(server, 15 if lab.full else 4)
        what = f"peak RSS, {HONEST} honest clients with 32 MiB reads"
        lab.row(what, memory.peak(), "MiB", honest_peaks, at_most=most_memory(CACHE))
    if lab.full:
        lab.row("what they read in a second", speed, "MiB/s", speeds)
        with ours(lab) as server, server.client() as client:
            for number in range(4):
                client.send(READ, number * LENGTH, LENGTH)
            closed = wait_until(lambda: not still_open([client.connection]), 2 * MOST_STUCK, every=0.5)
            lab.row("a client that takes nothing of four is closed after", closed, "s", at_most=MOST_STUCK)
