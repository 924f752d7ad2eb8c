"""Sparse volumes in a file system or under a quota that is used up: the write that finds no space fails with ENOSPC, and all those that were acknowledged become durable. And a recording onto a full file system."""

import contextlib
import os
import random
import threading

import nbd

from volumes.checks import Skipped, check, check_refused, run, wait_until
from volumes.server import KIB, MIB, make_volume

NEEDS = ("mount", "umount", "mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "btrfs")
BLOCK = 64 * KIB
SIZE = 1024 * MIB
WRITERS = 4
# Each file system with its size: below the margin, where each write asks it for space, and above.
FILE_SYSTEMS = {"ext4": (64, 192), "xfs": (320,), "btrfs": (320,)}
QUOTA = 64


@contextlib.contextmanager
def file_system(kind, size, folder):
    """A small file system in a file, mounted."""
    disk, mounted = folder / "disk", folder / "mounted"
    mounted.mkdir(exist_ok=True)
    with disk.open("wb") as file:
        file.truncate(size * MIB)
    run(f"mkfs.{kind}", "-q", disk)
    run("mount", "-o", "loop", disk, mounted)
    try:
        yield mounted
    finally:
        run("umount", mounted)
        disk.unlink()


def content(block):
    return (block + 1).to_bytes(8, "little") * (BLOCK // 8)


def fill(server, volume, taken):
    """Writes blocks from four connections until each is refused one; what was acknowledged is in `taken`."""
    blocks = random.Random(3).sample(range(SIZE // BLOCK), SIZE // BLOCK)
    refusals = []

    def write(number):
        client = server.client(volume.name)
        for block in blocks[number::WRITERS]:
            try:
                client.pwrite(content(block), block * BLOCK)
            except nbd.Error as error:
                refusals.append(error.errno)
                break
            taken.append(block)
        client.shutdown()

    threads = [threading.Thread(target=write, args=[number]) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return refusals


def wrong_blocks(volume, taken):
    with volume.path.open("rb") as file:
        return [block for block in taken if os.pread(file.fileno(), BLOCK, block * BLOCK) != content(block)]


def check_full(start, where, least, what, mode=None):
    """A volume in the folder `where` takes `least` MiB, and then no more."""
    volume = make_volume(where, "volume", SIZE, mode=mode)
    with start(volume, cache="256MiB", options=("--dirty-age", "1h")) as server:
        client, taken = server.client("volume"), []
        client.pread(16 * MIB, 0)
        check(f"reading holes takes no space ({what})", volume.path.stat().st_blocks == 0)
        refusals = fill(server, volume, taken)
        check(f"writes without space are refused with ENOSPC ({what})", refusals == ["ENOSPC"] * WRITERS, f"{refusals}")
        check(f"{len(taken) // 16} MiB were taken ({what})", len(taken) * BLOCK >= least * MIB)
        client.flush()
        wrong = wrong_blocks(volume, taken)
        check(f"what was acknowledged is durable after a flush ({what})", not wrong, f"{len(wrong)} blocks are not")
        for block in taken[:32]:
            client.trim(BLOCK, block * BLOCK)
        for block in taken[:16]:
            client.pwrite(content(block), block * BLOCK)
        client.flush()
        wrong = wrong_blocks(volume, taken[:16] + taken[32:])
        check(f"the space of what is trimmed is written again ({what})", not wrong, f"{len(wrong)} blocks are not")
        client.shutdown()
        check(f"SIGTERM ends the server with 0 ({what})", server.stop() == 0, server.told())
    volume.path.unlink()


def check_whole(start, where, what):
    """A volume that has all its space is written on a full file system."""
    volume = make_volume(where, "volume", 16 * MIB)
    with volume.path.open("r+b") as file, (where / "rest").open("wb") as rest:
        os.posix_fallocate(file.fileno(), 0, 16 * MIB)
        with contextlib.suppress(OSError):
            while True:
                rest.write(bytes(MIB))
                rest.flush()
    with start(volume, cache="32MiB") as server:
        client = server.client("volume")
        blocks = range(16 * MIB // BLOCK)
        for block in blocks:
            client.pwrite(content(block), block * BLOCK)
        client.flush()
        wrong = wrong_blocks(volume, blocks)
        check(f"a file with all its space is written where nothing is free ({what})", not wrong, f"{len(wrong)} blocks are not")
        check_refused(f"a file beside it, as nothing is free ({what})", lambda: (where / "other").write_bytes(bytes(MIB)), by=OSError)
        client.shutdown()
        check(f"SIGTERM ends the server with 0 ({what}, no space)", server.stop() == 0, server.told())
    volume.path.unlink()
    (where / "rest").unlink()


def check_quota(start, folder):
    """A quota does not show in the free bytes of its file system."""
    with file_system("btrfs", 640, folder) as mounted:
        run("btrfs", "quota", "enable", mounted)
        run("btrfs", "subvolume", "create", mounted / "limited")
        run("btrfs", "qgroup", "limit", f"{QUOTA}M", mounted / "limited")
        check_full(start, mounted / "limited", QUOTA - 4, "a quota of Btrfs")


def check_recording(start, folder):
    """A recording ends where its file system is full; the server goes on, and its exit code says that the trace is not whole."""
    small = folder / "small"
    small.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", small)
    try:
        volume = make_volume(folder, "recorded", 16 * MIB)
        with start(volume, cache="32MiB", options=("--record", small / "trace.csv")) as server:
            client, log = server.client("recorded"), lambda: server.log.read_text(errors="replace")

            def read_until_it_stops():
                for block in range(256):
                    client.pread(512, block * BLOCK)
                return "recording has stopped" in log()

            check("a recording onto a full file system stops", wait_until(read_until_it_stops, 60), log())
            for block in range(256):
                client.pread(512, block * BLOCK)
                client.pwrite(content(block), block * BLOCK)
            client.flush()
            wrong = wrong_blocks(volume, range(256))
            check("the server goes on", not wrong, f"{len(wrong)} blocks are not durable")
            client.shutdown()
            code = server.stop()
            check("SIGTERM ends the server with 1, as the trace is not whole", code == 1, f"{code}: {log()}")
            once = log().count("recording has stopped") == 1 and "as fast as they come" not in log()
            check("the log says once that the recording stopped, and why", once and "No space left" in log(), log())
    finally:
        run("umount", small)


def test(start, folder):
    if os.geteuid() != 0:
        raise Skipped("only root may mount")
    check_recording(start, folder)
    if not os.path.exists("/dev/loop-control"):
        raise Skipped("there is no /dev/loop-control")
    for kind, sizes in FILE_SYSTEMS.items():
        for size in sizes:
            with file_system(kind, size, folder) as mounted:
                check_full(start, mounted, size / 2, f"{kind}, {size} MiB")
    with file_system("ext4", 64, folder) as mounted:
        check_full(start, mounted, 40, "ext4, write-through", mode="write-through")
        check_whole(start, mounted, "ext4")
    check_quota(start, folder)
