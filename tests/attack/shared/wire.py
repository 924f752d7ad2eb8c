"""NBD spoken by hand: requests that libnbd would not send, replies that nobody takes, and nothing to install."""

import select
import socket
import struct

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

READ, WRITE, FLUSH, TRIM, CACHE, WRITE_ZEROES = 0, 1, 3, 4, 5, 6
FUA, NO_HOLE, FAST_ZERO = 1, 2, 16
OPTION = 0x49484156454F5054  # IHAVEOPT
OPTION_REPLY = 0x3E889045565A9
LIST, GO = 3, 7
ACKNOWLEDGED, SERVER, INFO, REFUSED = 1, 2, 3, 1 << 31
REQUEST, REPLY = 0x25609513, 0x67446698

REQUEST_HEADER = struct.Struct(">IHHQQI")
REPLY_HEADER = struct.Struct(">IIQ")
# The longest length of a request that is a multiple of pages.
LONGEST = 4 * GIB - 4 * KIB


class Refused(Exception):
    """The server answered with an error."""


def request(kind, offset, length, cookie=1, flags=0):
    return REQUEST_HEADER.pack(REQUEST, flags, kind, cookie, offset, length)


def connect(address, timeout=30, source=None):
    """A bare connection: to the path of a unix socket, or to (host, port) from the address `source`."""
    connection = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    try:
        connection.settimeout(timeout)
        if source:
            connection.bind((source, 0))
        connection.connect(address)
        if not isinstance(address, str):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        connection.close()
        raise
    return connection


def exactly(connection, count):
    """So many bytes, in a buffer of their own."""
    got = bytearray(count)
    room = memoryview(got)
    while room:
        more = connection.recv_into(room)
        if not more:
            raise ConnectionError("the server closed the connection")
        room = room[more:]
    return got


class Client:
    """A connection to an export, through its handshake; simple replies. Without a name it is left in the handshake."""

    def __init__(self, address, name="volume", timeout=30, source=None):
        self.connection = connect(address, timeout, source)
        try:
            self.greet()
            self.size = self.go(name.encode()) if name is not None else None
        except BaseException:
            self.close()
            raise

    def greet(self):
        if exactly(self.connection, 18)[:8] != b"NBDMAGIC":
            raise ConnectionError("this is no NBD server")
        self.connection.sendall(struct.pack(">I", 3))

    def answer(self):
        """The kind and data of the next reply to an option."""
        magic, _, kind, length = struct.unpack(">QIII", exactly(self.connection, 20))
        assert magic == OPTION_REPLY, hex(magic)
        data = exactly(self.connection, length)
        if kind & REFUSED:
            raise Refused(f"option refused with {kind:#x}: {data.decode(errors='replace')}")
        return kind, data

    def go(self, name):
        data = struct.pack(f">I{len(name)}sH", len(name), name, 0)
        self.connection.sendall(struct.pack(">QII", OPTION, GO, len(data)) + data)
        size = 0
        while (answer := self.answer())[0] != ACKNOWLEDGED:
            kind, data = answer
            if kind == INFO and data[:2] == bytes(2):
                (size,) = struct.unpack(">Q", data[2:10])
        return size

    def close(self):
        self.connection.close()

    def send(self, kind, offset, length, cookie=1, flags=0, data=b""):
        self.connection.sendall(request(kind, offset, length, cookie, flags) + data)

    def reply(self, length=0):
        """The next reply, which brings `length` bytes if there is no error: its cookie and bytes."""
        magic, error, cookie = REPLY_HEADER.unpack(exactly(self.connection, 16))
        assert magic == REPLY, hex(magic)
        if error:
            raise Refused(f"error {error}")
        return cookie, exactly(self.connection, length)

    def call(self, kind, offset=0, length=0, flags=0, data=b""):
        self.send(kind, offset, length, flags=flags, data=data)
        return self.reply(length if kind == READ else 0)[1]

    def read(self, offset, length):
        return self.call(READ, offset, length)

    def write(self, offset, data, flags=0):
        self.call(WRITE, offset, len(data), flags, data)

    def flush(self):
        self.call(FLUSH)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def exports(address):
    """The names that the server lists."""
    with Client(address, name=None) as client:
        client.connection.sendall(struct.pack(">QII", OPTION, LIST, 0))
        names = []
        while (answer := client.answer())[0] == SERVER:
            (length,) = struct.unpack(">I", answer[1][:4])
            names.append(answer[1][4 : 4 + length].decode())
        return names


def still_open(connections):
    """How many of them the server has not closed, whatever lies there unread."""
    poll = select.poll()
    for connection in connections:
        poll.register(connection, select.POLLRDHUP)
    return len(connections) - len(poll.poll(0))


def read_all(client, offsets, length, depth=8):
    """Reads `length` bytes at each offset, a few at a time, and drops them."""
    under_way = 0
    for number, offset in enumerate(offsets):
        client.send(READ, offset, length, cookie=number)
        under_way += 1
        if under_way == depth:
            client.reply(length)
            under_way -= 1
    for _ in range(under_way):
        client.reply(length)
