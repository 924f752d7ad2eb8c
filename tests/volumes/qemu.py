"""qemu-img converts into a volume and out of it, raw and qcow2; qemu-io writes and verifies patterns."""

import random

from volumes.checks import check, run
from volumes.server import MIB, make_volume

NEEDS = ("qemu-img", "qemu-io")
SIZE = 64 * MIB

# Each line is a command of qemu-io. Reads with -P fail unless all their bytes are the pattern.
WRITES = """
write -P 0x11 0 4M
write -P 0x22 4M 4M
write -P 0x33 1000 70000
write -z 2M 1M
write -z -u -n 5M 1M
write -P 0x44 5505024 512
discard 6M 1M
write -P 0x55 6M 1M
aio_write -P 0x66 8M 1M
aio_write -P 0x77 9M 1M
aio_write -P 0x88 10M 1M
aio_write -z 11M 1M
aio_flush
writev -P 0x99 12M 4096 512 65536
write -f -P 0xaa 13M 64k
write -P 0xbb 32M 24M
flush
"""
READS = """
read -P 0x11 0 1000
read -P 0x33 1000 70000
read -P 0x11 71000 2026152
read -P 0 2M 1M
read -P 0x11 3M 1M
read -P 0x22 4M 1M
read -P 0 5M 256k
read -P 0x44 5505024 512
read -P 0 5505536 785920
read -P 0x55 6M 1M
read -P 0x22 7M 1M
aio_read -P 0x66 8M 1M
aio_read -P 0x77 9M 1M
aio_read -P 0x88 10M 1M
aio_flush
read -P 0 11M 1M
readv -P 0x99 12M 4096 512 65536
read -P 0xaa 13M 64k
read -P 0 14M 18M
read -P 0xbb 32M 24M
read -P 0 56M 8M
"""


def qemu_io(target, script, **expected):
    commands = [word for line in script.strip().split("\n") for word in ("-c", line)]
    return run("qemu-io", "--format", "raw", *commands, target, **expected)


def check_patterns(what, target, script):
    """Exit code 0, and every command but the flushes tells of its bytes."""
    said = qemu_io(target, script)
    expected = sum("flush" not in line for line in script.strip().split("\n"))
    check(what, said.count(" bytes at offset ") == expected and "failed" not in said, said)


def test(start, folder):
    for page in ["4KiB", "64KiB"]:
        volume = make_volume(folder, "volume", SIZE, page=page)
        with start(volume, cache="8MiB") as server:
            check_patterns(f"qemu-io writes patterns (pages of {page})", server.uri("volume"), WRITES)
            check_patterns(f"qemu-io reads its patterns (pages of {page})", server.uri("volume"), READS)
            said = qemu_io(server.uri("volume"), "read -P 0xbb 0 1M", fails=True)
            check(f"qemu-io finds a wrong pattern (pages of {page})", "Pattern verification failed" in said, said)
            check("the server ends with 0", server.stop() == 0, server.told())
        # While the server has the file, QEMU's locks keep qemu-io out.
        check_patterns(f"qemu-io reads its patterns in the file (pages of {page})", volume.path, READS)

    raw, qcow2, back = folder / "image.raw", folder / "image.qcow2", folder / "back"
    with raw.open("wb") as file:
        for offset, length in [(0, 3 * MIB), (10 * MIB + 512, 20 * MIB), (40 * MIB, 1000)]:
            file.seek(offset)
            file.write(random.Random(offset).randbytes(length))
        file.truncate(48 * MIB)
    one, two = make_volume(folder, "one", 48 * MIB), make_volume(folder, "two", SIZE, page="64KiB")
    with start(one, two, cache="8MiB") as server:
        uri = server.uri("one")
        run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", raw, uri)
        said = run("qemu-img", "compare", "-f", "raw", "-F", "raw", raw, uri)
        check("qemu-img convert into a volume, compare", "Images are identical" in said, said)
        check("the same bytes in the file", one.path.read_bytes() == raw.read_bytes())
        run("qemu-img", "convert", "-W", "-m", "8", "-f", "raw", "-O", "qcow2", uri, qcow2)
        said = run("qemu-img", "compare", "-f", "qcow2", "-F", "raw", qcow2, uri)
        check("qemu-img convert out of a volume to qcow2, compare", "Images are identical" in said, said)

        # A volume that holds a qcow2 image.
        uri = server.uri("two")
        run("qemu-img", "create", "-f", "qcow2", uri, "48M")
        run("qemu-img", "convert", "-n", "-f", "raw", "-O", "qcow2", raw, uri)
        said = run("qemu-img", "check", "-f", "qcow2", uri)
        check("qcow2 on a volume: check", "No errors" in said, said)
        run("qemu-img", "convert", "-f", "qcow2", "-O", "raw", uri, back)
        check("qcow2 on a volume: out again", back.read_bytes() == raw.read_bytes())
        run("qemu-io", "-f", "qcow2", "-c", "write -P 0xcd 9M 2M", "-c", "discard 20M 1M", "-c", "read -P 0xcd 9M 2M", uri)
        check("the server ends with 0", server.stop() == 0, server.told())
    said = run("qemu-img", "check", "-f", "qcow2", two.path)
    check("qcow2 in the file after the end: check", "No errors" in said, said)
    run("qemu-io", "-f", "qcow2", "-c", "read -P 0xcd 9M 2M", two.path)
