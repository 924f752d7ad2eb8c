"""nbdinfo tells what is served; nbdcopy copies in, out and between volumes."""

import hashlib
import json
import random

from volumes.checks import check, run
from volumes.server import MIB, make_volume

NEEDS = ("nbdinfo", "nbdcopy")
SIZE = 48 * MIB


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def states(server, name):
    """Of each MiB of a volume whether `nbdinfo --map` says that it is stored; None where the answer differs within it."""
    kinds = [set() for _ in range(SIZE // MIB)]
    extents = json.loads(run("nbdinfo", "--map", "--json", server.uri(name)))
    starts = [extent["offset"] for extent in extents]
    ends = [extent["offset"] + extent["length"] for extent in extents]
    check("nbdinfo --map: extents join and cover the volume", starts + [SIZE] == [0] + ends, extents)
    for extent, start, end in zip(extents, starts, ends):
        for number in range(start // MIB, -(-end // MIB)):
            kinds[number].add(extent["type"] & 1 == 0)
    return [kind.pop() if len(kind) == 1 else None for kind in kinds]


def test(start, folder):
    one, two = make_volume(folder, "one", SIZE), make_volume(folder, "two", SIZE, page="64KiB")
    noise = random.Random(1).randbytes(4 * MIB)
    with one.path.open("r+b") as file:
        file.seek(4 * MIB)
        file.write(noise)
    with start(one, two, cache="16MiB") as server:
        listed = json.loads(run("nbdinfo", "--list", "--json", server.uri("")))["exports"]
        names = sorted(export["export-name"] for export in listed)
        check("nbdinfo --list names the volumes", names == ["one", "two"], names)

        told = json.loads(run("nbdinfo", "--json", server.uri("one")))
        export = told["exports"][0]
        check("nbdinfo: fixed newstyle, structured replies", told["protocol"] == "newstyle-fixed" and told["structured"], told)
        check("nbdinfo: size", export["export-size"] == SIZE, export)
        for can in ["cache", "df", "flush", "fua", "multi_conn", "trim", "zero"]:
            check(f"nbdinfo: can_{can}", export[f"can_{can}"] is True, export)
        check("nbdinfo: not read-only", export["is_read_only"] is False, export)
        check("nbdinfo: base:allocation", "base:allocation" in export["contexts"], export)

        expected = [4 <= number < 8 for number in range(SIZE // MIB)]
        found = states(server, "one")
        check("nbdinfo --map shows holes and data of a sparse file", found == expected, found)
        client = server.client("one")
        client.pwrite(noise[:MIB], 20 * MIB)
        expected[20] = True
        found = states(server, "one")
        check("nbdinfo --map shows pages that are written and not yet flushed", found == expected, found)
        client.shutdown()

        # In: more than the cache holds, not a multiple of a page at its end, with a hole in it.
        source, back = folder / "source", folder / "back"
        content = random.Random(2).randbytes(20 * MIB) + bytes(8 * MIB) + random.Random(3).randbytes(19 * MIB + 1234)
        source.write_bytes(content + bytes(SIZE - len(content)))
        run("nbdcopy", "--flush", source, server.uri("one"))
        check("nbdcopy in, flushed: the file", digest(one.path) == digest(source))
        run("nbdcopy", server.uri("one"), back)
        check("nbdcopy out", digest(back) == digest(source))
        run("nbdcopy", "--flush", server.uri("one"), server.uri("two"))
        check("nbdcopy from volume to volume: the file", digest(two.path) == digest(source))
        run("nbdcopy", "--connections=1", "--synchronous", server.uri("two"), back)
        check("nbdcopy out, synchronous", digest(back) == digest(source))
        check("SIGTERM ends the server with 0", server.stop() == 0, server.told())
    with start(two, tcp=True) as server:
        back.unlink()
        run("nbdcopy", server.uri("two"), back)
        check("nbdcopy out over TCP", digest(back) == digest(source))
    check("the files after the end", digest(one.path) == digest(two.path) == digest(source))
