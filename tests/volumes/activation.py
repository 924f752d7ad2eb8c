"""Socket activation: the server takes over a listening socket that its starter hands on, as systemd does."""

import json

from volumes.checks import check, run
from volumes.server import MIB, make_volume

NEEDS = ("nbdinfo",)


def test(start, folder):
    volume = make_volume(folder, "volume", 16 * MIB)
    with start(volume, activated=True) as server:
        size = json.loads(run("nbdinfo", "--json", server.uri("volume")))["exports"][0]["export-size"]
        check("a socket handed on: nbdinfo", size == 16 * MIB, size)
        client = server.client("volume")
        client.pwrite(b"handed on", 0)
        check("a socket handed on: read as written", client.pread(9, 0) == b"handed on")
        client.shutdown()
        check("a socket handed on: the server ends with 0", server.stop() == 0, server.told())
    check("a socket handed on: its name stays, for the next start", server.socket.is_socket())
    check("a socket handed on: the file", volume.path.read_bytes()[:9] == b"handed on")
