"""Clients that break off or send nonsense must harm no other one that is at work.

nbdkit 1.32.5 fails the one that asks for much and leaves: it aborts (raw_send_socket: Assertion `sock >= 0' failed), unless it has
--threads=1.
"""

import os
import random
import socket
import struct
import threading

from volumes.checks import Failed, check, wait_until
from volumes.server import KIB, MIB, make_volume

NEEDS = ()
SIZE = 16 * MIB
OPTION = 0x49484156454F5054  # IHAVEOPT
EXPORT_NAME, LIST, GO = 1, 3, 7
REQUEST = 0x25609513
READ, WRITE = 0, 1


class Bystander(threading.Thread):
    """A client that writes and reads all the while, in the second half of the volume."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.client = server.client("volume")
        self.over = threading.Event()
        self.error = None
        self.rounds = 0
        self.start()

    def run(self):
        try:
            while not self.over.is_set():
                offset = SIZE // 2 + random.randrange(SIZE // 2 - 64 * KIB)
                block = os.urandom(64 * KIB)
                self.client.pwrite(block, offset)
                if self.client.pread(len(block), offset) != block:
                    raise Failed("it reads what it did not write")
                self.rounds += 1
        except Exception as error:  # told by the main thread
            self.error = error

    def is_well(self):
        """Whether it works on."""
        enough = self.rounds + 3
        return wait_until(lambda: self.error or self.rounds >= enough, 20) and not self.error


def option(number, data=b"", length=None):
    return struct.pack(">QII", OPTION, number, len(data) if length is None else length) + data


def request(kind, offset, length, cookie=1, flags=0, magic=REQUEST):
    return struct.pack(">IHHQQI", magic, flags, kind, cookie, offset, length)


def exactly(connection, count):
    got = b""
    while len(got) < count:
        more = connection.recv(count - len(got))
        if not more:
            raise ConnectionError("closed")
        got += more
    return got


def greeted(server, flags=3):
    connection = server.connect()
    exactly(connection, 18)
    connection.sendall(struct.pack(">I", flags))
    return connection


def transmitting(server):
    """Through the handshake by hand, without structured replies."""
    connection = greeted(server)
    name = b"volume"
    connection.sendall(option(EXPORT_NAME, name))
    exactly(connection, 10)
    return connection


def closes(connection):
    """Whether the server closes it; all that it still sends is taken."""
    try:
        while connection.recv(1 << 16):
            pass
        return True
    except socket.timeout:
        return False
    except OSError:
        return True


def nonsense_in_the_handshake(server):
    yield "connects and leaves", server.connect(), b"", False
    yield "sends random bytes for flags and options", server.connect(), random.Random(6).randbytes(10000), True
    yield "sends unknown flags", server.connect(), struct.pack(">I", 0xFFFFFFFC), True
    yield "speaks HTTP", server.connect(), b"GET / HTTP/1.1\r\nHost: volume\r\n\r\n", True
    yield "breaks off inside an option", greeted(server), option(GO, b"vol", length=100), False
    yield "sends an option without the magic", greeted(server), bytes(16), True
    yield "announces an option of 4 GiB", greeted(server), option(GO, b"", length=0xFFFFFFFF) + bytes(100000), False
    yield "asks by an old option for a name that is not there", greeted(server), option(EXPORT_NAME, b"nobody"), True
    yield "asks for a name longer than its option", greeted(server), option(GO, struct.pack(">I", 1 << 30) + b"v"), False


def nonsense_in_transmission(server):
    yield "sends a request without the magic", transmitting(server), request(READ, 0, 512, magic=0xDEADBEEF), True
    yield "sends random bytes for requests", transmitting(server), random.Random(7).randbytes(100000), True
    yield "breaks off inside a request", transmitting(server), request(READ, 0, 512)[:17], False
    yield "breaks off inside the data of a write", transmitting(server), request(WRITE, 0, MIB) + bytes(1000), False
    yield "announces a write of 4 GiB", transmitting(server), request(WRITE, 0, 0xFFFFFFFF) + bytes(MIB), False
    many = b"".join(request(READ, number * 4 * KIB, 256 * KIB, cookie=number) for number in range(500))
    yield "asks for 125 MiB and reads none of it", transmitting(server), many, False
    yield "writes and leaves without waiting", transmitting(server), (request(WRITE, 0, 64 * KIB) + bytes(64 * KIB)) * 50, False


def check_unknown_command(server):
    with transmitting(server) as connection:
        connection.sendall(request(99, 0, 512, cookie=7) + request(READ, 0, 512, cookie=8))
        error, cookie = struct.unpack(">4xIQ", exactly(connection, 16))
        check("an unknown command is refused EINVAL", (error, cookie) == (22, 7), f"error {error}, cookie {cookie}")
        error, cookie = struct.unpack(">4xIQ", exactly(connection, 16))
        exactly(connection, 512)
        check("and the connection lives on", (error, cookie) == (0, 8), f"error {error}, cookie {cookie}")
    with greeted(server) as connection:
        connection.sendall(option(12345, b"what?"))
        magic, number, reply, length = struct.unpack(">QIII", exactly(connection, 20))
        exactly(connection, length)
        told = (magic, number, reply)
        check("an unknown option is refused as unsupported", told == (0x3E889045565A9, 12345, 0x80000001), f"{told}")
        connection.sendall(option(LIST))
        reply = struct.unpack(">QIII", exactly(connection, 20))[2]
        check("and the handshake goes on", reply == 2, f"reply {reply:#x}")


def test(start, folder):
    volume = make_volume(folder, "volume", SIZE)
    with start(volume, cache="4MiB") as server:
        bystander = Bystander(server)
        check_unknown_command(server)
        for kinds in (nonsense_in_the_handshake, nonsense_in_transmission):
            for what, connection, sent, must_close in kinds(server):
                with connection:
                    try:
                        connection.sendall(sent)
                    except OSError:
                        pass  # closed on us, as it may be
                    if must_close:
                        check(f"the server closes on a client that {what}", closes(connection))
                    check(f"another client works on while one {what}", bystander.is_well(), f"{bystander.error}; {server.told()}")
                check(f"and after it has gone ({what})", bystander.is_well(), f"{bystander.error}; {server.told()}")
        silent = [server.connect() for _ in range(20)]
        check("another client works on beside 20 that say nothing", bystander.is_well(), f"{bystander.error}; {server.told()}")
        client = server.client("volume")
        client.pwrite(b"new", 0)
        check("and a new one is served", client.pread(3, 0) == b"new")
        client.shutdown()
        for connection in silent:
            connection.close()
        bystander.over.set()
        bystander.join()
        bystander.client.shutdown()
        check("the server ends with 0", server.stop() == 0, server.told())
