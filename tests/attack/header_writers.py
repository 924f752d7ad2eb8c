"""Clients that announce a write and send none of it, or next to nothing: what they announce is not taken from memory, nor from those who write."""

import contextlib
import socket
import threading
import time

from shared.bystander import Bystander
from shared.lab import most_memory
from shared.servers import Memory, wait_until
from shared.wire import GIB, MIB, WRITE, request, still_open

QUICK, FULL = 120, 600

CACHE = 16 * MIB
# What the bystander reads.
HOT = 4 * MIB
SIZE = 4 * GIB
LENGTH = 32 * MIB
# A connection that sends nothing in a message is to be closed after 60 s.
MOST_STUCK = 70
# Who sends next to nothing has 5 s once others wait, and is looked at every 5 s.
MOST_WAITED = 15


def announce(stack, server, connections):
    """Connections, each with a header of a write sent and no more, as far as the server lives."""
    clients = []
    for number in range(connections):
        with contextlib.suppress(OSError):
            client = stack.enter_context(server.client())
            client.connection.sendall(request(WRITE, number * LENGTH % SIZE, LENGTH))
            clients.append(client)
    return clients


def all_closed(clients):
    """The seconds until the server has closed them all; None if that is very long."""
    sockets = [client.connection for client in clients]
    return wait_until(lambda: not still_open(sockets), 2 * MOST_STUCK, every=0.5)


def peak(server, connections, seconds):
    with contextlib.ExitStack() as stack, Memory(server) as memory:
        announce(stack, server, connections)
        time.sleep(seconds)
        return memory.peak()


def waited_for_tricklers(server):
    """The seconds that 1 MiB takes to be written while twelve clients hold all buffers and send a byte now and then."""
    with contextlib.ExitStack() as stack:
        clients = announce(stack, server, 12)
        for client in clients:
            client.connection.sendall(bytes(128 << 10))
        time.sleep(0.5)
        other, done = stack.enter_context(server.client()), threading.Event()

        def trickle():
            while not done.wait(0.5):
                for client in clients:
                    with contextlib.suppress(OSError):
                        client.connection.send(b"0", socket.MSG_DONTWAIT)

        trickling = threading.Thread(target=trickle)
        trickling.start()
        try:
            begin = time.monotonic()
            other.write(SIZE - MIB, bytes(MIB))
            return time.monotonic() - begin
        finally:
            done.set()
            trickling.join()


def attack(lab):
    seconds = 10 if lab.full else 3
    # 256 with those of the bystanders.
    for connections in [100, 254] if lab.full else [100]:
        peers = {}
        if lab.has("nbdkit"):
            with lab.nbdkit("file", lab.volume("theirs", SIZE)) as server:
                peers["nbdkit file"] = peak(server, connections, 2)
        if lab.has("qemu-nbd"):
            with lab.direct_qemu_nbd(lab.volume("theirs", SIZE)) as server:
                peers["qemu-nbd"] = peak(server, connections, 2)
        ours = lab.forebay("--cache", f"{CACHE}", volumes=[f"volume={lab.volume('volume', SIZE, filled=HOT)}"])
        with ours as server, contextlib.ExitStack() as stack, Memory(server) as memory:
            reader = stack.enter_context(Bystander(server.socket, length=HOT, version=1))
            writer = stack.enter_context(Bystander(server.socket, offset=SIZE - MIB, length=MIB, writes=0.5))
            time.sleep(0.5)
            clients = announce(stack, server, connections)
            wait_until(lambda: memory.killed, seconds)
            what = f"peak RSS, {connections} headers of 32 MiB"
            lab.row(what, memory.peak(), "MiB", peers, at_most=most_memory(CACHE))
            if memory.killed:
                lab.note("it was killed then")
                continue
            lab.bystander("a bystander who reads 4 KiB", reader.figures())
            lab.bystander("a bystander who writes 4 KiB", writer.figures())
            if lab.full and connections == 100:
                lab.row("they are closed after", all_closed(clients), "s", at_most=MOST_STUCK)
                lab.row("RSS then", server.memory() / MIB, "MiB", at_most=most_memory(CACHE))
    with lab.forebay("--cache", f"{CACHE}", volumes=[f"volume={lab.volume('volume', SIZE)}"]) as server:
        what = "1 MiB is written beside 12 who trickle 32 MiB each, after"
        lab.row(what, waited_for_tricklers(server), "s", at_most=MOST_WAITED)
