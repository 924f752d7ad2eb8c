"""Several connections to one volume, and many commands in flight."""

import random
import threading

import nbd

from volumes.checks import Failed, check
from volumes.server import KIB, MIB, make_volume

NEEDS = ()
SIZE = 32 * MIB
DEPTH = 64


def block_of(number, version, size):
    return random.Random(number << 32 | version).randbytes(size)


def check_multi_conn(server, volume):
    clients = [server.client("volume") for _ in range(16)]
    check("multi-conn is told", all(client.can_multi_conn() for client in clients))
    for number, client in enumerate(clients):
        client.pwrite(block_of(number, 1, 100 * KIB), number * MIB + 300)
    rotated = clients[5:] + clients[:5]
    same = [client.pread(100 * KIB, number * MIB + 300) == block_of(number, 1, 100 * KIB) for number, client in enumerate(rotated)]
    check("what one of 16 connections writes another reads", all(same), same)
    clients[7].flush()
    content = volume.path.read_bytes()
    same = [content[at : at + 100 * KIB] == block_of(number, 1, 100 * KIB) for number in range(16) for at in [number * MIB + 300]]
    check("a flush on one covers the writes of all: the file", all(same), same)
    for number, client in enumerate(clients):
        client.pwrite(block_of(number, 2, 4 * KIB), number * MIB)
    clients[3].pwrite(bytes(1), SIZE - 1, nbd.CMD_FLAG_FUA)
    for client in clients:
        client.shutdown()
    client = server.client("volume")
    same = [client.pread(4 * KIB, number * MIB) == block_of(number, 2, 4 * KIB) for number in range(16)]
    check("what was written on connections now closed", all(same), same)
    client.shutdown()


def in_flight(client, begin):
    """Keeps DEPTH commands in flight, `begin(number, completion)` starting each until it returns False; how many were."""
    flying = 0
    number = 0
    most = 0
    errors = []
    more = True

    def done(error):
        nonlocal flying
        flying -= 1
        if error:
            errors.append(error.value)
        return 1

    while more or flying:
        while more and flying < DEPTH:
            flying += 1
            more = begin(number, done)
            flying -= not more
            number += 1
        most = max(most, client.aio_in_flight())
        if flying:
            client.poll(10000)
    if errors:
        raise Failed(f"asynchronous commands: error numbers {errors[:5]}")
    return most


def check_depth(client, size):
    count = SIZE // size
    order = random.Random(size).sample(range(count), count)

    def write(number, done):
        if number == count:
            return False
        block = order[number]
        client.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(block_of(block, 3, size))), block * size, done)
        return True

    buffers = {}

    def read(number, done):
        if number == count:
            return False
        block = order[-1 - number]
        buffers[block] = nbd.Buffer(size)
        client.aio_pread(buffers[block], block * size, done)
        return True

    most = in_flight(client, write)
    check(f"{DEPTH} writes of {size} bytes in flight", most >= DEPTH // 2, f"at most {most}")
    in_flight(client, read)
    wrong = [block for block, buffer in buffers.items() if buffer.to_bytearray() != block_of(block, 3, size)]
    check(f"{count} blocks of {size} bytes are read as written", not wrong, f"{len(wrong)} are not")


def check_mixed(client):
    """Commands of all kinds in flight on one block each, after another on each block."""
    size = 20 * KIB
    expected = {}
    chosen = random.Random(5)

    def begin(number, done):
        if number == 2000:
            return False
        block = number % (2 * DEPTH)
        offset = block * size
        # DEPTH later than the last command on this block, which may still fly: wait for it, or their order is anyone's.
        while block in busy:
            client.poll(10000)
        busy.add(block)

        def over(error):
            busy.discard(block)
            return done(error)

        kind = chosen.randrange(5)
        if kind < 2:
            expected[block] = block_of(block, number, size)
            client.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(expected[block])), offset, over)
        elif kind == 2:
            expected[block] = bytes(size)
            client.aio_zero(size, offset, over)
        elif kind == 3:
            client.aio_cache(size, offset, over)
        else:
            client.aio_flush(over)
        return True

    busy = set()
    in_flight(client, begin)
    wrong = [block for block, content in expected.items() if client.pread(size, block * size) != content]
    check("writes, zeroing, hints and flushes in flight", len(expected) == 2 * DEPTH and not wrong, f"wrong: {wrong}")


def check_threads(server):
    """Connections at work at once, each on bytes of its own that share pages with its neighbour's."""
    size, threads = 3000, 4
    wrong = []

    def work(mine):
        client = server.client("volume")
        chosen = random.Random(mine)
        contents = {}
        for version in range(1500):
            number = chosen.randrange(300)
            offset = (number * threads + mine) * size
            if number in contents and client.pread(size, offset) != contents[number]:
                wrong.append((mine, number))
            contents[number] = block_of(number, version * threads + mine, size)
            client.pwrite(contents[number], offset)
        client.flush()
        for number, content in contents.items():
            if client.pread(size, (number * threads + mine) * size) != content:
                wrong.append((mine, number))
        done.append(mine)
        client.shutdown()

    done = []
    workers = [threading.Thread(target=work, args=[mine]) for mine in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    held = len(done) == threads and not wrong
    check(f"{threads} connections write beside each other in the same pages", held, f"wrong: {wrong[:9]}")


def test(start, folder):
    for page in ["4KiB", "64KiB"]:
        volume = make_volume(folder, "volume", SIZE, page=page)
        print(f"  with pages of {page}:")
        with start(volume, cache="8MiB") as server:
            check_multi_conn(server, volume)
            client = server.client("volume")
            for size in [4 * KIB, 256 * KIB]:
                check_depth(client, size)
            check_mixed(client)
            client.shutdown()
            check_threads(server)
            check("the server ends with 0", server.stop() == 0, server.told())
