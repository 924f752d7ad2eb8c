"""Crowds that connect and do nothing: others still get in, the figures are still served, and what they cost goes with them."""

import contextlib
import random
import resource
import socket
import struct
import time

from shared import wire
from shared.servers import wait_until
from shared.wire import KIB, MIB

QUICK, FULL = 150, 900

CROWD = 256
# Where the crowd comes from, and an honest client.
THEIRS, OURS = "127.0.0.2", "127.0.0.1"
# The handshake may take 10 s.
MOST_HANDSHAKE = 15
MANY = 3900
WRITES = 20_000


def served(server):
    """Whether an honest client from another address is served at once; and why not."""
    try:
        with wire.Client((OURS, server.port), timeout=2, source=OURS) as client:
            client.read(0, 4 * KIB)
        return True, ""
    except (OSError, wire.Refused) as error:
        return False, f"{type(error).__name__}: {error}"


def start(lab, *options, **others):
    return lab.forebay("--cache", "16MiB", *options, volumes=[f"volume={lab.volume()}"], tcp=True, **others)


def idle(lab):
    with start(lab) as server, contextlib.ExitStack() as stack:
        refused = 0
        for _ in range(CROWD):
            try:
                stack.enter_context(wire.Client((OURS, server.port), source=THEIRS))
            except OSError:
                refused += 1
        lab.row(f"of {CROWD} idle connections from one address refused", refused)
        lab.holds(f"beside {CROWD} idle connections from one address another's client is served", *served(server))


def stuck_in_the_handshake(lab):
    def silent(number, connection):
        pass

    def dripping(number, connection):
        if number == 0:
            connection.sendall(bytes(3) + b"\3")
        else:
            # An option of which a byte comes now and then.
            connection.sendall(struct.pack(">QII", wire.OPTION, wire.GO, 60000) if number == 1 else b"x")

    kinds = {"that say nothing": silent, "that say a byte a second": dripping} if lab.full else {"that say nothing": silent}
    for what, act in kinds.items():
        with start(lab) as server, contextlib.ExitStack() as stack:
            crowd = [stack.enter_context(wire.connect((OURS, server.port), source=THEIRS)) for _ in range(CROWD)]
            begin = time.monotonic()
            for number in range(40):
                for connection in crowd:
                    with contextlib.suppress(OSError):
                        act(number, connection)
                if served(server)[0]:
                    break
                time.sleep(1)
            waited = time.monotonic() - begin if served(server)[0] else None
            lab.row(f"beside {CROWD} connections {what} another's client is served after", waited, "s", at_most=MOST_HANDSHAKE)


def processor_microseconds(server):
    """What a write of a page costs the server."""
    chosen = random.Random(3)
    with server.client() as client:
        before = server.processor_seconds()
        for _ in range(WRITES):
            client.write(chosen.randrange(8 * MIB // (4 * KIB)) * 4 * KIB, bytes(4 * KIB))
        return (server.processor_seconds() - before) / WRITES * 1e6


def many_at_once(lab):
    """As many connections as there may be leave again."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < MANY + 200:
        return lab.skip(f"{MANY} connections need as many descriptors; the limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with start(lab, "--max-connections", str(MANY + 100)) as server:
        server.client().close()
        processor_microseconds(server)
        before = processor_microseconds(server)
        memory = server.memory()
        with contextlib.ExitStack() as stack:
            for _ in range(MANY):
                stack.enter_context(server.client())
            lab.row(f"memory of {MANY} idle connections", (server.memory() - memory) / MIB, "MiB")
        wait_until(lambda: server.statistics()["connections"] == 0, 30)
        after = processor_microseconds(server)
        beside = {"before": before, "after": after}
        lab.row(f"CPU of a write after {MANY} connections, to that before", after / before, "×", beside, at_most=1.5)


def idle_http(lab):
    count = 1000
    with start(lab) as server, contextlib.ExitStack() as stack:
        before = server.descriptors()
        for number in range(count):
            with contextlib.suppress(OSError):
                connection = stack.enter_context(socket.create_connection(server.metrics, timeout=2))
                # Half of them break off inside a request.
                connection.sendall(b"GET /statistics HTTP/1.1\r\nHo" if number % 2 else b"")
        time.sleep(1)
        lab.row(f"of {count} idle HTTP connections the server keeps", server.descriptors() - before, at_most=CROWD)
        lab.holds("beside them the figures are told", server.figures_answer())
        lab.holds("and volumes are served", *served(server))


def few_descriptors(lab):
    with start(lab, descriptors=64) as server:
        with contextlib.ExitStack() as stack:
            before = server.processor_seconds()
            for number in range(120):
                with contextlib.suppress(OSError):
                    address = server.metrics if number % 6 == 0 else (OURS, server.port)
                    stack.enter_context(wire.connect(address, timeout=2))
            time.sleep(3)
            lab.row("processor time while it has no descriptor left", (server.processor_seconds() - before) / 3 * 100, "%")
        lab.holds("once it has descriptors again the figures are told", wait_until(server.figures_answer, 5) is not None)
        lab.holds("and volumes are served", wait_until(lambda: served(server)[0], 5) is not None, served(server)[1])
        panics = [line for line in server.said().splitlines() if "panicked" in line]
        lab.holds("nothing in it has panicked", not panics, "; ".join(panics))


def attack(lab):
    idle(lab)
    stuck_in_the_handshake(lab)
    many_at_once(lab)
    idle_http(lab)
    few_descriptors(lab)
